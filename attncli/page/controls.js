// The buttons and menus above the chart, which show the state and change it.

import { channels, headColour, inkOn } from "./colour.js";
import { fill, showCommon } from "./common.js";
import { hasNeuron, headsOf, hasFullMap, maskOf, MEAN, page } from "./data.js";
import { makeButton, scrollTo } from "./elements.js";
import { change, hasPair, SCALES, state } from "./state.js";
import { placeOfThreshold, THRESHOLDS, thresholdAt } from "./units.js";
import { kind } from "./captions.js";
import { fit, listenToToolbar, showFilters } from "./toolbar.js";

const element = (name) => document.getElementById(name);
const MASKS = ["none", "causal", "padding"];

/** Fill the menus and buttons of layers and heads. */
export function makeModel() {
  const mean = page.whole || page.chosen ? [] : [[MEAN, "mean"]];
  fill("layer", [...page.layers.map((layer) => [layer, layer]), ...mean]);
  fill("head", [...page.heads.map((head) => [head, head]), ...mean]);
  element("heads").replaceChildren(...page.heads.map((head) => {
    const made = makeButton(head, () => toggle(head), { head });
    made.addEventListener("dblclick", () => change({ head, heads: isAlone(head) ? page.heads : [head] }));
    return made;
  }));
}

/** Fill the menus and buttons of this page, and listen to all controls. */
export function makeControls() {
  makeModel();
  fill("text", page.texts.map((text, number) => [number, text.title]));
  element("texts").hidden = page.texts.length === 1;

  element("text").addEventListener("change", (event) => change({ text: Number(event.target.value), token: null, corner: "0,0" }));
  element("layer").addEventListener("change", (event) => change({ layer: Number(event.target.value) }));
  element("head").addEventListener("change", (event) => change({ head: Number(event.target.value), heads: [Number(event.target.value)] }));
  element("segments").addEventListener("change", (event) => change({ segments: event.target.value }));
  element("scale").addEventListener("change", (event) => change({ [scaleName()]: event.target.value }));
  element("thumbs").addEventListener("change", (event) => change({ thumbs: event.target.value }));
  element("words").addEventListener("change", (event) => change({ words: event.target.checked }));
  element("threshold").max = THRESHOLDS;
  element("threshold").addEventListener("input", (event) => change({ threshold: thresholdAt(Number(event.target.value)) }));

  choice("views", "view", (button) => button.dataset.view);
  choice("several", "heads", (one) => ({ all: page.heads, mean: [MEAN], none: [] })[one.dataset.several]);
  for (const mask of allMasks()) element("masks").append(makeButton(mask, () => {}, { mask })); // the row handles the click
  choice("masks", "mask", (one) => one.dataset.mask);
  element("heads").addEventListener("keydown", moveFocus);
  listenToToolbar();
}

/** Let the buttons of a row set a part of the state. */
function choice(row, name, valueOf) {
  element(row).addEventListener("click", ({ target }) => {
    if (target.tagName === "BUTTON") change({ [name]: valueOf(target) });
  });
}

/** Return the masks of the page: those of MASKS in this order, then others. */
export function allMasks() {
  const names = new Set(page.texts.flatMap((text) => text.masks.map((mask) => mask.name)));
  return [...MASKS.filter((name) => names.has(name)), ...[...names].filter((name) => !MASKS.includes(name))];
}

function isAlone(head) {
  return state.heads.length === 1 && state.heads[0] === head;
}

/** Switch a head on or off; the last one stays on. Heads get their colours in the order in which they were switched on. */
function toggle(head) {
  if (isAlone(head)) return;
  const isDrawn = state.heads.includes(head);
  change({
    head: isDrawn ? state.head : head,
    heads: isDrawn ? state.heads.filter((other) => other !== head) : [...state.heads, head],
  });
}

/** Move the focus among the buttons of heads. Tab reaches only one of them. */
function moveFocus(event) {
  const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
  if (step === undefined) return;
  event.preventDefault();
  event.stopPropagation();
  const buttons = [...element("heads").children].filter((one) => !one.disabled);
  buttons[(buttons.indexOf(document.activeElement) + step + buttons.length) % buttons.length].focus();
}

/** Return true if the view draws weights as colours: Matrix, and Model unless it draws only lines. */
function showsColours() {
  return state.view === "matrix" || (state.view === "model" && (state.thumbs === "matrix" || state.detail));
}

/** Return the part of the state that the scale menu sets: "opacity" (of lines) in Heads, otherwise "scale" (of colours). */
function scaleName() {
  return state.view === "heads" ? "opacity" : "scale";
}

export function nextScale() {
  const name = scaleName();
  if (name === "opacity" || showsColours()) change({ [name]: SCALES[(SCALES.indexOf(state[name]) + 1) % SCALES.length] });
}

/** Update all controls from the state. */
export function showState() {
  const { view } = state;
  showCommon();
  element("masks").hidden = page.texts[state.text].masks.length < 2;
  for (const one of element("masks").children) one.hidden = !maskOf(state.text, one.dataset.mask);
  element("heads").hidden = view !== "heads";
  element("several").hidden = view !== "heads";
  element("one-head").hidden = view === "heads";
  element("thumbnails").hidden = view !== "model";
  element("zooms").hidden = view !== "matrix";
  element("scales").hidden = view !== "heads" && !showsColours();
  element("scaled").textContent = view === "heads" ? "Opacity" : "Colours";
  element("segment-filter").hidden = !hasPair(state.text);
  document.querySelector("[data-view='neuron']").hidden = !hasNeuron(state.text);
  markPressed("views", (one) => one.dataset.view === view);
  markPressed("masks", (one) => one.dataset.mask === state.mask);
  markPressed("heads", (one) => state.heads.includes(Number(one.dataset.head)));
  const tabbed = page.heads.includes(state.head) ? state.head : page.heads[0];
  for (const one of element("heads").children) {
    const head = Number(one.dataset.head);
    one.classList.toggle("current", head === state.head);
    one.tabIndex = head === tabbed ? 0 : -1;
    one.style.setProperty("--head", headColour(head));
    one.style.setProperty("--on-head", inkOn(channels(headColour(head))));
    one.disabled = !hasFullMap(state.layer, head);
    one.title = `Head ${head}: ${kind(state.layer, head)}`;
    one.setAttribute("aria-label", one.title);
  }
  for (const one of element("head").options) one.disabled = page.chosen !== undefined && !headsOf(state.layer).includes(Number(one.value));
  element("text").value = state.text;
  element("scale").value = state[scaleName()];
  element("thumbs").value = state.thumbs;
  element("segments").value = state.segments;
  element("words").checked = state.words;
  element("threshold").value = placeOfThreshold(state.threshold);
  element("least").textContent = state.threshold;
  showFilters();
  fit();
  scrollTo(element("heads"), element("heads").querySelector(".current") ?? element("heads"));
}

/** Show those buttons of a row as pressed for which `isPressed(button)` is true. */
function markPressed(row, isPressed) {
  for (const one of element(row).children) one.setAttribute("aria-pressed", String(isPressed(one)));
}
