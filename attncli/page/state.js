// The state of the page, which all views draw. The URL hash holds it.

import { countOf, hasNeuron, headsOf, hasFullMap, maskOf, MEAN, page, tokensOf, fullHeads } from "./data.js";

export const VIEWS = ["heads", "model", "matrix", "neuron"];
export const SCALES = ["head", "shared", "root"]; // 0 to the largest of what is drawn, 0 to 1, the square root of that
const MEAN_NAME = "mean";
const SEGMENTS = ["all", "AA", "AB", "BA", "BB"];

const numberOrMean = (text, choices) => (text === MEAN_NAME ? MEAN : number(text, choices));
const number = (text, choices) => (/^-?\d{1,6}$/.test(text) && choices.includes(Number(text)) ? Number(text) : undefined);
const oneOf = (choices) => (text) => (choices.includes(text) ? text : undefined);
const yesNo = (text) => ({ yes: true, no: false })[text];
const between = (low, high) => (text) => {
  const value = Number(text);
  return text !== "" && value >= low && value <= high ? value : undefined;
};

// The functions that read each part of the state from the hash. Invalid text gives undefined. A hash is untrusted.
const READERS = {
  text: (text) => number(text, [...page.texts.keys()]),
  mask: (text) => (page.texts.some((one) => one.masks.some((mask) => mask.name === text)) ? text : undefined),
  view: oneOf(VIEWS),
  layer: (text) => numberOrMean(text, page.layers),
  head: (text) => numberOrMean(text, page.heads),
  heads: readHeads,
  token: readToken,
  partner: readToken, // the key of a held cell, whose query is `token`
  side: oneOf(["query", "key"]),
  segments: oneOf(SEGMENTS),
  special: yesNo,
  words: yesNo,
  threshold: between(0, 1),
  thumbs: oneOf(["matrix", "lines"]),
  scale: oneOf(SCALES), // of the colours of maps
  opacity: oneOf(SCALES), // of the lines of Heads
  detail: yesNo, // in Model, the head beside the others
  cell: between(0, 100), // pixels per token in Matrix; 0 fits the window
  corner: (text) => (/^\d{1,6},\d{1,6}$/.test(text) ? text : undefined), // the first visible query and key in Matrix
  theme: oneOf(["system", "light", "dark"]),
};

/** "3,1" -> [3, 1], in this order and without unknown heads; "" is no head. */
function readHeads(text) {
  const named = text.split(",").filter(Boolean);
  const found = [...new Set(named.map((one) => numberOrMean(one, page.heads)))].filter((head) => head !== undefined);
  return named.length && !found.length ? undefined : found;
}

function readToken(text) {
  const longest = Math.max(...[...page.texts.keys()].flatMap((one) => [countOf(one, "query"), countOf(one, "key")]));
  return text === "none" ? null : number(text, [...Array(longest).keys()]);
}

const { opening, ...start } = page.start;

/** The values of the parts that the hash does not name. */
export const START = {
  text: 0,
  mask: page.texts[0].masks[0].name,
  view: "heads",
  layer: page.layers[0],
  head: page.heads[0],
  heads: page.heads,
  token: null,
  partner: null,
  side: "query",
  segments: "all",
  special: true,
  words: false,
  threshold: 0,
  thumbs: "matrix",
  scale: "head",
  opacity: "shared",
  detail: false,
  cell: 0,
  corner: "0,0",
  theme: "system",
  ...start,
};

// The initial state without a hash: the first finding.
const OPENING = { ...START, ...opening };

/** The current state. Read it anywhere; change it with `change`. */
export const state = { ...OPENING };

const listeners = [];

/** Call `listener` after each change. */
export function onChange(listener) {
  listeners.push(listener);
}

/** Change parts of the state, write them into the hash, and call the listeners. */
export function change(changes) {
  write(changes, "replaceState");
}

/** Change the state as `change` does, with an entry in the browser's history, so that Back returns. */
export function visit(changes) {
  write(changes, "pushState");
}

function write(changes, how) {
  settle(changes);
  try {
    history[how](null, "", location.pathname + location.search + hash());
  } catch {
    // a page in a frame without an address has no hash
  }
  for (const listener of listeners) listener();
}

/** Apply changes, and correct what does not fit: the token, mask and heads must be in the page. */
function settle(changes) {
  Object.assign(state, changes);
  const text = page.texts[state.text];
  if (!maskOf(state.text, state.mask)) state.mask = text.masks[0].name;
  if (state.token !== null && state.token >= countOf(state.text, state.side)) state.token = null;
  if (state.partner !== null && state.partner >= countOf(state.text, "key")) state.partner = null;
  if (state.view === "neuron" && !hasNeuron(state.text)) state.view = "heads";
  if (state.view === "neuron" && state.layer === MEAN) state.layer = page.layers[0];
  if (state.view === "neuron" && state.head === MEAN) state.head = page.heads[0];
  if (page.chosen && !headsOf(state.layer).includes(state.head)) {
    if (state.layer === MEAN) state.layer = page.layers[0];
    state.head = headsOf(state.layer).find((head) => head > state.head) ?? headsOf(state.layer).at(-1);
  }
  if (state.view === "heads" && state.heads.length) {
    const whole = state.heads.filter((head) => hasFullMap(state.layer, head));
    state.heads = whole.length ? whole : fullHeads(state.layer); // heads with all weights in the page
  }
  if (state.view === "heads" && state.heads.length && !state.heads.includes(state.head)) state.head = state.heads[0];
  if (!hasPair(state.text)) state.segments = "all";
}

/** Return true if a text has a second segment, on either side. */
export function hasPair(text) {
  return ["query", "key"].some((side) => tokensOf(text, side).segments.includes(1));
}

/** Return the state as "#layer=3&head=1", with the parts that differ from START; "" for the initial state. */
export function hash() {
  if (differing(OPENING).length === 0) return "";
  const named = differing(START);
  const parts = (named.length ? named : ["layer"]).map((name) => `${name}=${encodeURIComponent(formatValue(state[name])).replaceAll("%2C", ",")}`);
  return `#${parts.join("&")}`;
}

/** Return the names of the parts that differ from another state. */
function differing(other) {
  return Object.keys(READERS).filter((name) => formatValue(state[name]) !== formatValue(other[name]));
}

function formatValue(value) {
  if (value === null) return "none";
  if (value === MEAN) return MEAN_NAME;
  if (Array.isArray(value)) return value.map(formatValue).join();
  if (typeof value === "boolean") return value ? "yes" : "no";
  return String(value);
}

/** Go to the state in the hash. Unnamed parts are as in START. A hash without a valid part gives the initial state. */
export function readHash() {
  const found = {};
  for (const [name, text] of new URLSearchParams(location.hash.slice(1))) {
    const value = Object.hasOwn(READERS, name) ? READERS[name](text) : undefined;
    if (value !== undefined) found[name] = value;
  }
  settle({ ...(Object.keys(found).length ? START : OPENING), ...found });
  for (const listener of listeners) listener();
}
