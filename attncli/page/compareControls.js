// The buttons, menus and keys of a page of maps side by side.

import { fill, listenToControls } from "./common.js";
import { goToRank } from "./compareHeads.js";
import { reveal } from "./compareMaps.js";
import { stepFinding } from "./compareReadout.js";
import { headsOf, page } from "./data.js";
import { OF_RECORDS } from "./panels.js";
import { change, state } from "./state.js";
import { neighbour, next } from "./stepping.js";
import { axes } from "./units.js";

const HEADS = {
  ArrowLeft: () => change({ head: next(headsOf(state.layer), state.head, -1) }),
  ArrowRight: () => change({ head: next(headsOf(state.layer), state.head, 1) }),
  ArrowUp: () => change({ layer: next(page.layers, state.layer, -1) }),
  ArrowDown: () => change({ layer: next(page.layers, state.layer, 1) }),
  n: () => goToRank(1),
  p: () => goToRank(-1),
};

const FINDINGS = { n: () => stepFinding(1), p: () => stepFinding(-1) };

const KEYS = {
  ...(OF_RECORDS ? HEADS : FINDINGS),
  j: () => move("queries", "token", 1),
  k: () => move("queries", "token", -1),
  l: () => move("keys", "partner", 1),
  h: () => move("keys", "partner", -1),
  Escape: () => change({ token: null, partner: null }),
};

const element = (name) => document.getElementById(name);

/** Fill the menus of this page, and listen to all controls. */
export function makeControls() {
  for (const one of document.querySelectorAll(".of-heads")) one.hidden = !OF_RECORDS;
  for (const one of document.querySelectorAll(".of-effects")) one.hidden = OF_RECORDS;
  element("special-tokens").hidden = !page.texts.some((text) => text.special.includes(true));
  for (const [name, numbers] of [["layer", page.layers], ["head", page.heads]]) {
    fill(name, numbers.map((number) => [number, number]));
    element(name).addEventListener("change", (event) => change({ [name]: Number(event.target.value) }));
  }
  element("more-different").addEventListener("click", HEADS.p);
  element("less-different").addEventListener("click", HEADS.n);
  listenToControls(KEYS);
}

/** Move the cursor along the queries or the keys. */
function move(side, name, step) {
  const units = axes()[side];
  if (units.length) change({ [name]: neighbour(units, state[name], step) });
  reveal(element("chart"));
}
