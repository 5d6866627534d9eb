// The buttons, menus and keys of a page of maps side by side.

import { zoom, zoomToFit } from "./chart.js";
import { isDark } from "./colour.js";
import { goToRank } from "./compareHeads.js";
import { reveal } from "./compareMaps.js";
import { page } from "./data.js";
import { OF_RECORDS } from "./panels.js";
import { savePng, saveSvg } from "./save.js";
import { change, state } from "./state.js";
import { neighbour, next } from "./stepping.js";
import { axes } from "./units.js";

const STEP = 1.3; // of a zoom by button or key

const HEADS = {
  ArrowLeft: () => change({ head: next(page.heads, state.head, -1) }),
  ArrowRight: () => change({ head: next(page.heads, state.head, 1) }),
  ArrowUp: () => change({ layer: next(page.layers, state.layer, -1) }),
  ArrowDown: () => change({ layer: next(page.layers, state.layer, 1) }),
  n: () => goToRank(1),
  p: () => goToRank(-1),
};

const KEYS = {
  ...(OF_RECORDS ? HEADS : {}),
  j: () => move("queries", "token", 1),
  k: () => move("queries", "token", -1),
  l: () => move("keys", "partner", 1),
  h: () => move("keys", "partner", -1),
  Escape: () => change({ token: null, partner: null }),
  s: () => change({ special: !state.special }),
  d: switchTheme,
  "+": () => zoom(STEP),
  "=": () => zoom(STEP),
  "-": () => zoom(1 / STEP),
  0: zoomToFit,
  "?": () => element("keys").showModal(),
};

const element = (name) => document.getElementById(name);

/** Make what depends on the page, and begin to listen. */
export function makeControls() {
  for (const one of document.querySelectorAll(".of-heads")) one.hidden = !OF_RECORDS;
  element("special-tokens").hidden = !page.texts.some((text) => text.special.includes(true));
  for (const [name, numbers] of [["layer", page.layers], ["head", page.heads]]) {
    element(name).replaceChildren(...numbers.map((number) => new Option(number, number)));
    element(name).addEventListener("change", (event) => change({ [name]: Number(event.target.value) }));
  }
  const pressed = {
    "more-different": HEADS.p, "less-different": HEADS.n, larger: KEYS["+"], smaller: KEYS["-"], fit: KEYS[0],
    theme: KEYS.d, help: KEYS["?"], "save-svg": saveSvg, "save-png": savePng,
  };
  for (const [name, press] of Object.entries(pressed)) element(name).addEventListener("click", press);
  element("special").addEventListener("change", (event) => change({ special: event.target.checked }));
  document.addEventListener("keydown", press);
}

/** Move the cursor a query or a key further. */
function move(side, name, step) {
  const units = axes()[side];
  if (units.length) change({ [name]: neighbour(units, state[name], step) });
  reveal(element("chart"));
}

function switchTheme() {
  change({ theme: isDark() ? "light" : "dark" });
}

function press(event) {
  if (event.ctrlKey || event.metaKey || event.altKey || element("keys").open || event.target.tagName === "SELECT") return;
  if (!Object.hasOwn(KEYS, event.key)) return;
  event.preventDefault();
  KEYS[event.key]();
}

/** Show the state. */
export function showState() {
  document.documentElement.dataset.theme = state.theme;
  element("layer").value = state.layer;
  element("head").value = state.head;
  element("special").checked = state.special;
}
