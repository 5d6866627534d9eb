// The controls and keys that every page has: zoom, special tokens, theme, saving and help.

import { zoom, zoomToFit } from "./chart.js";
import { isDark } from "./colour.js";
import { savePng, saveSvg } from "./save.js";
import { change, state } from "./state.js";

const STEP = 1.3; // factor of a zoom by button or key
const element = (name) => document.getElementById(name);

const KEYS = {
  t: () => change({ special: !state.special }),
  d: () => change({ theme: isDark() ? "light" : "dark" }),
  "+": () => zoomBy("in"),
  "=": () => zoomBy("in"),
  "-": () => zoomBy("out"),
  0: () => zoomBy("fit"),
  "?": () => element("keys").showModal(),
};

/** Listen to the common controls, to their keys and to `keys`. */
export function listenToControls(keys) {
  const every = { ...KEYS, ...keys };
  for (const [name, press] of Object.entries({ theme: KEYS.d, help: KEYS["?"], "save-svg": saveSvg, "save-png": savePng })) {
    element(name).addEventListener("click", press);
  }
  element("special").addEventListener("change", (event) => change({ special: event.target.checked }));
  element("zooms").addEventListener("click", ({ target }) => zoomBy(target.dataset.zoom));
  document.addEventListener("keydown", (event) => press(event, every));
}

/** Update the common controls from the state. */
export function showCommon() {
  document.documentElement.dataset.theme = state.theme;
  element("layer").value = state.layer;
  element("head").value = state.head;
  element("special").checked = state.special;
}

/** Fill a menu with options, `[value, label]` each. */
export function fill(name, options) {
  element(name).replaceChildren(...options.map(([value, label]) => new Option(label, value)));
}

/** Zoom "in", "out" or to "fit". Only Matrix can be zoomed. */
function zoomBy(direction) {
  if (state.view !== "matrix") return;
  if (direction === "fit") zoomToFit();
  else if (direction) zoom(direction === "in" ? STEP : 1 / STEP);
}

function press(event, keys) {
  if (event.ctrlKey || event.metaKey || event.altKey || element("keys").open) return;
  const { tagName, type } = event.target;
  if (tagName === "SELECT" || (tagName === "INPUT" && type === "range")) return; // they use keys themselves
  if (event.key === "Escape" && document.querySelector(":popover-open")) return; // Escape closes the menu
  if (event.key === "Enter" && tagName !== "DIV" && tagName !== "BODY") return; // Enter presses the focused button
  if (!Object.hasOwn(keys, event.key)) return;
  event.preventDefault();
  keys[event.key](event);
}
