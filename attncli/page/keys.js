// The keyboard. The dialog in template.html lists these keys.

import { open, scrollToHead, scrollToToken, show } from "./chart.js";
import { allMasks, nextScale } from "./controls.js";
import { headsOf, maskOf, page, fullHeads } from "./data.js";
import { stepFinding } from "./findings.js";
import { change, state, VIEWS } from "./state.js";
import { goToSearch } from "./sentence.js";
import { neighbour, next } from "./stepping.js";
import { axes } from "./units.js";

export const KEYS = {
  1: () => change({ view: VIEWS[0] }),
  2: () => change({ view: VIEWS[1] }),
  3: () => change({ view: VIEWS[2] }),
  4: () => change({ view: VIEWS[3] }),
  ArrowLeft: () => goToHead(-1),
  ArrowRight: () => goToHead(1),
  ArrowUp: () => goToLayer(-1),
  ArrowDown: () => goToLayer(1),
  j: () => goToToken(1),
  k: () => goToToken(-1),
  o: () => change({ side: state.side === "query" ? "key" : "query" }),
  Escape: () => change(state.view === "model" && state.detail ? { detail: false } : { token: null }),
  m: nextMask,
  c: nextScale,
  n: () => stepFinding(1),
  p: () => stepFinding(-1),
  f: goToSearch,
  "/": goToSearch,
  w: () => change({ words: !state.words }),
  Enter: openHead,
};

/** In Model, show the selected head beside the others. If it is there already, open it. */
function openHead() {
  if (state.view !== "model") return;
  if (state.detail) open(state);
  else show(state);
}

function goToHead(step) {
  const head = next(state.view === "heads" ? fullHeads(state.layer) : headsOf(state.layer), state.head, step);
  if (head === undefined) return;
  change({ head, heads: [head] });
}

function goToLayer(step) {
  change({ layer: next(page.layers, state.layer, step) });
  scrollToHead();
}

function goToToken(step) {
  const { queries, keys } = axes();
  const units = state.side === "query" ? queries : keys;
  if (units.length) change({ token: neighbour(units, state.token, step) });
  scrollToToken();
}

function nextMask() {
  const masks = allMasks().filter((name) => maskOf(state.text, name));
  change({ mask: masks[(masks.indexOf(state.mask) + 1) % masks.length] });
}
