// The buttons and menus above the chart: they show the state and change it.

import { scrollToToken } from "./chart.js";
import { channels, headColour, inkOn } from "./colour.js";
import { fill, showCommon } from "./common.js";
import { isWhole, maskOf, page } from "./data.js";
import { change, hasPair, SCALES, state } from "./state.js";
import { axes, placeOfThreshold, THRESHOLDS, thresholdAt, unitOf } from "./units.js";
import { isolated, kind } from "./captions.js";
import { fit, listenToToolbar, showFilters } from "./toolbar.js";

const element = (name) => document.getElementById(name);
const MASKS = ["none", "causal", "padding"];

/** Make what depends on the model. */
export function makeModel() {
  fill("layer", page.layers.map((layer) => [layer, layer]));
  fill("head", page.heads.map((head) => [head, head]));
  element("heads").replaceChildren(...page.heads.map(headButton));
}

/** Make what depends on the page, and begin to listen. */
export function makeControls() {
  makeModel();
  fill("text", page.texts.map((text, number) => [number, text.title]));
  element("texts").hidden = page.texts.length === 1;

  element("text").addEventListener("change", (event) => change({ text: Number(event.target.value), token: null, corner: "0,0" }));
  element("layer").addEventListener("change", (event) => change({ layer: Number(event.target.value) }));
  element("head").addEventListener("change", (event) => change({ head: Number(event.target.value), heads: [Number(event.target.value)] }));
  element("token").addEventListener("change", chooseToken);
  element("segments").addEventListener("change", (event) => change({ segments: event.target.value }));
  element("scale").addEventListener("change", (event) => change({ scale: event.target.value }));
  element("words").addEventListener("change", (event) => change({ words: event.target.checked }));
  element("threshold").max = THRESHOLDS;
  element("threshold").addEventListener("input", (event) => change({ threshold: thresholdAt(Number(event.target.value)) }));

  choice("views", "view", (button) => button.dataset.view);
  choice("thumbs", "thumbs", (button) => button.dataset.thumbs);
  choice("several", "heads", (one) => (one.dataset.several === "all" ? page.heads : []));
  for (const mask of allMasks()) element("masks").append(button(mask, { mask }));
  choice("masks", "mask", (one) => one.dataset.mask);
  listenToToolbar();
}

function button(label, data) {
  const made = document.createElement("button");
  made.type = "button";
  made.textContent = label;
  Object.assign(made.dataset, data);
  return made;
}

/** A row of buttons of which one is pressed. */
function choice(row, name, valueOf) {
  element(row).addEventListener("click", ({ target }) => {
    if (target.tagName === "BUTTON") change({ [name]: valueOf(target) });
  });
}

/** The masks of the page, in an order of their own. */
export function allMasks() {
  const names = new Set(page.texts.flatMap((text) => text.masks.map((mask) => mask.name)));
  return MASKS.filter((name) => names.has(name));
}

function headButton(head) {
  const made = button(String(head), { head: String(head) });
  made.style.setProperty("--head", headColour(head));
  made.style.setProperty("--on-head", inkOn(channels(headColour(head))));
  made.style.borderColor = headColour(head);
  made.addEventListener("click", () => toggle(head));
  made.addEventListener("dblclick", () => change({ head, heads: isAlone(head) ? page.heads : [head] }));
  return made;
}

function isAlone(head) {
  return state.heads.length === 1 && state.heads[0] === head;
}

/** Switch a head on or off, but the last one that is on. */
function toggle(head) {
  if (isAlone(head)) return;
  const shown = state.heads.includes(head);
  change({
    head: shown ? state.head : head,
    heads: page.heads.filter((other) => (other === head ? !shown : state.heads.includes(other))),
  });
}

function chooseToken({ target }) {
  change({ token: target.value === "none" ? null : Number(target.value) });
  scrollToToken();
}

/** Whether weights are colours now: in Matrix, and in Model unless all that is drawn are lines. */
function showsColours() {
  return state.view === "matrix" || (state.view === "model" && (state.thumbs === "matrix" || state.detail));
}

export function nextScale() {
  if (showsColours()) change({ scale: SCALES[(SCALES.indexOf(state.scale) + 1) % SCALES.length] });
}

/** Show the state. */
export function showState() {
  const { view } = state;
  showCommon();
  element("masks").hidden = page.texts[state.text].masks.length < 2;
  for (const one of element("masks").children) one.hidden = !maskOf(state.text, one.dataset.mask);
  element("heads").hidden = view !== "heads";
  element("several").hidden = view !== "heads";
  element("one-head").hidden = view === "heads";
  element("thumbs").hidden = view !== "model";
  element("zooms").hidden = view !== "matrix";
  element("scales").hidden = !showsColours();
  element("segment-filter").hidden = !hasPair(state.text);
  press("views", (one) => one.dataset.view === view);
  press("masks", (one) => one.dataset.mask === state.mask);
  press("thumbs", (one) => one.dataset.thumbs === state.thumbs);
  press("heads", (one) => state.heads.includes(Number(one.dataset.head)));
  for (const one of element("heads").children) {
    const head = Number(one.dataset.head);
    one.classList.toggle("current", head === state.head);
    one.disabled = !isWhole(state.layer, head);
    one.title = `Head ${head}: ${kind(state.layer, head)}`;
    one.setAttribute("aria-label", one.title);
  }
  element("text").value = state.text;
  element("scale").value = state.scale;
  element("segments").value = state.segments;
  element("words").checked = state.words;
  element("threshold").value = placeOfThreshold(state.threshold);
  element("least").textContent = state.threshold;
  showTokens();
  showFilters();
  fit();
}

let listed = ""; // what the menu of tokens was made for

function showTokens() {
  const name = [state.text, state.words, state.special, state.side, state.segments].join();
  if (listed !== name) {
    listed = name;
    const { queries, keys } = axes();
    const units = state.side === "query" ? queries : keys;
    fill("token", [["none", "none"], ...units.map((unit) => [unit.members[0], `${unit.members[0]} ${isolated(unit.label)}`])]);
  }
  const unit = unitOf(state.token, state.side);
  element("token").value = unit ? unit.members[0] : "none";
}

function press(row, pressed) {
  for (const one of element(row).children) one.setAttribute("aria-pressed", String(pressed(one)));
}
