// The stored answers of the server. One of them is displayed.

import { makeModel } from "./controls.js";
import { addTexts, deleteText, hasVectors, page } from "./data.js";
import { change, START, state } from "./state.js";

const [MOST, MOST_BYTES] = [64, 128 * 2 ** 20]; // stored texts, and bytes of their chunks

/** The description of the server: `{model, models, texts, unit}`. */
export const live = JSON.parse(document.getElementById("live").textContent);

const chart = document.getElementById("chart");
const kept = new Map(); // name -> {name, number, model, text, about, ids, size}, the newest last
const places = new Map(); // model -> the last selected layer and heads
const openings = new Map(); // model -> the selection that opens its first text
let shown = keep(live.model, live.texts[0], aboutOf(page), 0, [], 0);

/** Return the key of a text, with its model, written tokens and silenced heads. */
function nameOf(model, { text, pair, written = [], without = [] }) {
  return JSON.stringify([model, text, pair || null, written, without]);
}

function keep(model, text, about, number, ids, size) {
  const entry = { name: nameOf(model, text), number, model, text, about, ids, size };
  kept.delete(entry.name);
  kept.set(entry.name, entry);
  if (about.start.opening) openings.set(model, about.start.opening);
  return entry;
}

/** Return the description of a page without its texts. */
function aboutOf({ texts, ...about }) {
  return about;
}

/** Return the stored answer for a text, or undefined. */
export function find(model, text) {
  return kept.get(nameOf(model, text));
}

/** Return true if this text is displayed. */
export function isShown(model, text) {
  return shown.name === nameOf(model, text);
}

/** Return the displayed text and its model, for a request. The fields may hold another text already. */
export function shownText() {
  return { model: shown.model, pair: null, written: [], without: [], ...shown.text };
}

/** Return true if the stored answer has q and k of the selected head. */
export function hasSelectedVectors({ number }) {
  return hasVectors(number, page.texts[number].masks.some((mask) => mask.name === state.mask) ? state.mask : page.texts[number].masks[0].name, state.layer, state.head);
}

/** Return true if any answer of a model is stored. */
export function hasAnswerOf(model) {
  return openings.has(model);
}

/** Store an answer and show it. */
export function storeAnswer(model, text, description, chunks) {
  const before = find(model, text);
  const number = addTexts(description.texts, chunks);
  const size = chunks.reduce((sum, [, bytes]) => sum + bytes.length, 0);
  showAnswer(keep(model, text, aboutOf(description), number, chunks.map(([id]) => id), size));
  if (before) deleteText(before.number, before.ids);
  dropOldest();
}

/** Show a stored answer and keep the selected head. For another model, select the head that was last selected there. */
export function showAnswer(entry) {
  const other = entry.model !== shown.model;
  if (other) places.set(shown.model, { layer: state.layer, head: state.head, heads: state.heads });
  kept.delete(entry.name);
  kept.set(entry.name, entry); // now the newest
  shown = entry;
  Object.assign(page, entry.about);
  START.text = entry.number;
  if (other) {
    Object.assign(START, { layer: page.layers[0], head: page.heads[0], heads: page.heads });
    makeModel();
  }
  document.title = `${page.model.name}: ${page.texts[entry.number].title}`;
  chart.setAttribute("aria-label", `Attention of ${page.model.name}`);
  const seen = [chart.scrollLeft, chart.scrollTop];
  change({ text: entry.number, ...(other ? (places.get(entry.model) ?? opening()) : {}) });
  if (seen.some(Boolean) && !other) requestAnimationFrame(() => chart.scrollTo(...seen)); // typing must not scroll the drawing
}

/** Return the selection that opens the first text of this model. */
export function opening() {
  return openings.get(shown.model);
}

/** Delete the oldest answers. */
function dropOldest() {
  let bytes = [...kept.values()].reduce((sum, { size }) => sum + size, 0);
  for (const entry of [...kept.values()]) {
    if ((kept.size <= MOST && bytes <= MOST_BYTES) || entry === shown) return;
    kept.delete(entry.name);
    deleteText(entry.number, entry.ids);
    bytes -= entry.size;
  }
}
