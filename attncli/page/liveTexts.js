// What has come from the server, as long as there is room, and which of it is shown.

import { makeModel } from "./controls.js";
import { arrive, forget, hasVectors, page } from "./data.js";
import { change, START, state } from "./state.js";

const [MOST, MOST_BYTES] = [64, 128 * 2 ** 20]; // of texts that are kept, and of their chunks

/** What the page knows of its server: `{model, models, texts}`. */
export const live = JSON.parse(document.getElementById("live").textContent);

const chart = document.getElementById("chart");
const kept = new Map(); // name -> {name, number, model, about, ids, size}, the newest last
const places = new Map(); // model -> the layer and heads that were looked at last
const openings = new Map(); // model -> the head that told most of its first text
let shown = keep(live.model, live.texts[0], aboutOf(page), 0, [], 0);

/** What names a text of a model, with what it wrote and its silenced heads. */
function nameOf(model, { text, pair, written = [], without = [] }) {
  return JSON.stringify([model, text, pair || null, written, without]);
}

function keep(model, text, about, number, ids, size) {
  const entry = { name: nameOf(model, text), number, model, about, ids, size };
  kept.delete(entry.name);
  kept.set(entry.name, entry);
  if (about.start.opening) openings.set(model, about.start.opening);
  return entry;
}

/** Of a description what is not of its texts. */
function aboutOf({ texts, ...about }) {
  return about;
}

/** What is kept of a text; undefined if there is nothing. */
export function find(model, text) {
  return kept.get(nameOf(model, text));
}

/** Whether the text that is shown is this one. */
export function isShown(model, text) {
  return shown.name === nameOf(model, text);
}

/** Whether what is kept has q and k of the head that is looked at. */
export function hasThem({ number }) {
  return hasVectors(number, page.texts[number].masks.some((mask) => mask.name === state.mask) ? state.mask : page.texts[number].masks[0].name, state.layer, state.head);
}

/** Whether the page has anything of a model. */
export function knows(model) {
  return openings.has(model);
}

/** Keep what has come, and show it. */
export function take(model, text, description, chunks) {
  const before = find(model, text);
  const number = arrive(description.texts, chunks);
  const size = chunks.reduce((sum, [, bytes]) => sum + bytes.length, 0);
  show(keep(model, text, aboutOf(description), number, chunks.map(([id]) => id), size));
  if (before) forget(before.number, before.ids);
  makeWay();
}

/** Show what is kept, with the same head as before, or, of another model, with that which was looked at there. */
export function show(entry) {
  const other = entry.model !== shown.model;
  if (other) places.set(shown.model, { layer: state.layer, head: state.head, heads: state.heads });
  kept.delete(entry.name);
  kept.set(entry.name, entry); // it is the newest
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
  if (seen.some(Boolean) && !other) requestAnimationFrame(() => chart.scrollTo(...seen)); // whoever types on looks at the same place
}

/** The head that told most of the first text of this model. */
export function opening() {
  return openings.get(shown.model);
}

/** Let go of the oldest. */
function makeWay() {
  let bytes = [...kept.values()].reduce((sum, { size }) => sum + size, 0);
  for (const entry of [...kept.values()]) {
    if ((kept.size <= MOST && bytes <= MOST_BYTES) || entry === shown) return;
    kept.delete(entry.name);
    forget(entry.number, entry.ids);
    bytes -= entry.size;
  }
}
