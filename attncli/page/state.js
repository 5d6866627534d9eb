// What is being looked at. All views draw this one state; the address's hash holds it.

import { countOf, headsOf, isWhole, maskOf, MEAN, page, tokensOf, wholeHeads } from "./data.js";

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

// How each part of the state is read from the hash: undefined for what can't be. A hash is text from outside.
const READERS = {
  text: (text) => number(text, [...page.texts.keys()]),
  mask: (text) => (page.texts.some((one) => one.masks.some((mask) => mask.name === text)) ? text : undefined),
  view: oneOf(VIEWS),
  layer: (text) => numberOrMean(text, page.layers),
  head: (text) => numberOrMean(text, page.heads),
  heads: readHeads,
  token: readToken,
  partner: readToken, // the key of a cell that is held, whose query is the token
  side: oneOf(["query", "key"]),
  segments: oneOf(SEGMENTS),
  special: yesNo,
  words: yesNo,
  threshold: between(0, 1),
  thumbs: oneOf(["matrix", "lines"]),
  scale: oneOf(SCALES), // of the colours of maps
  opacity: oneOf(SCALES), // of the lines of Heads
  detail: yesNo, // in Model, the head beside the others
  cell: between(0, 100), // pixels a token in Matrix; 0: as many as fit
  corner: (text) => (/^\d{1,6},\d{1,6}$/.test(text) ? text : undefined), // the first query and key that are seen in Matrix
  theme: oneOf(["system", "light", "dark"]),
};

/** "3,1" -> [3, 1], in the order they were chosen in and without those that are not there; "" is none of them. */
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

/** What a part of the state is that the hash does not name. */
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

// How the page begins where there is no hash: on the one head that tells most of the text.
const OPENING = { ...START, ...opening };

/** The state itself: read it anywhere, change it with `change`. */
export const state = { ...OPENING };

const listeners = [];

/** `listener` is called after each change. */
export function onChange(listener) {
  listeners.push(listener);
}

/** Change some of the state, write it into the hash, and tell everyone. */
export function change(changes) {
  write(changes, "replaceState");
}

/** `change` to somewhere else: the browser's Back returns from there. */
export function visit(changes) {
  write(changes, "pushState");
}

function write(changes, how) {
  settle(changes);
  try {
    history[how](null, "", location.pathname + location.search + hash());
  } catch {
    // a page in a frame without an address of its own has no hash to keep
  }
  for (const listener of listeners) listener();
}

/** Take over `changes`, and keep the state possible: a token and a mask are those of the text. */
function settle(changes) {
  Object.assign(state, changes);
  const text = page.texts[state.text];
  if (!maskOf(state.text, state.mask)) state.mask = text.masks[0].name;
  if (state.token !== null && state.token >= countOf(state.text, state.side)) state.token = null;
  if (state.partner !== null && state.partner >= countOf(state.text, "key")) state.partner = null;
  if (state.view === "neuron" && state.layer === MEAN) state.layer = page.layers[0];
  if (state.view === "neuron" && state.head === MEAN) state.head = page.heads[0];
  if (page.chosen && !headsOf(state.layer).includes(state.head)) {
    if (state.layer === MEAN) state.layer = page.layers[0];
    state.head = headsOf(state.layer).find((head) => head > state.head) ?? headsOf(state.layer).at(-1);
  }
  if (state.view === "heads" && state.heads.length) {
    const whole = state.heads.filter((head) => isWhole(state.layer, head));
    state.heads = whole.length ? whole : wholeHeads(state.layer); // where the page has none of these, those that it has
  }
  if (state.view === "heads" && state.heads.length && !state.heads.includes(state.head)) state.head = state.heads[0];
  if (!hasPair(state.text)) state.segments = "all";
}

/** Whether a text has a second segment, on either side. */
export function hasPair(text) {
  return ["query", "key"].some((side) => tokensOf(text, side).segments.includes(1));
}

/** The state as "#layer=3&head=1": only what differs from START; "" as the page opens. */
export function hash() {
  if (differing(OPENING).length === 0) return "";
  const named = differing(START);
  const parts = (named.length ? named : ["layer"]).map((name) => `${name}=${encodeURIComponent(written(state[name])).replaceAll("%2C", ",")}`);
  return `#${parts.join("&")}`;
}

/** The parts of the state that are not as they are there. */
function differing(other) {
  return Object.keys(READERS).filter((name) => written(state[name]) !== written(other[name]));
}

function written(value) {
  if (value === null) return "none";
  if (value === MEAN) return MEAN_NAME;
  if (Array.isArray(value)) return value.map(written).join();
  if (typeof value === "boolean") return value ? "yes" : "no";
  return String(value);
}

/** Go to what the hash says; what it does not say is as in START. A hash that says nothing is none. */
export function readHash() {
  const found = {};
  for (const [name, text] of new URLSearchParams(location.hash.slice(1))) {
    const value = Object.hasOwn(READERS, name) ? READERS[name](text) : undefined;
    if (value !== undefined) found[name] = value;
  }
  settle({ ...(Object.keys(found).length ? START : OPENING), ...found });
  for (const listener of listeners) listener();
}
