// What stands along the two axes of a map, tokens or words, after the filters; and the map between them.

import { blockOf, countOf, isWhole, tokensOf, weightsOf } from "./data.js";
import { Recent } from "./recent.js";
import { state } from "./state.js";

const SHARE = 1 / 16; // of what each key would have of a row that looks at all alike
export const THRESHOLDS = 100; // steps from the least that is drawn to 1

/**
 * The queries and the keys that are drawn. Each is `{label, members, special}`: the tokens that it stands for,
 * of which there are several where words are asked for.
 */
export function axes() {
  const [from, to] = state.segments === "all" ? [] : state.segments;
  return { queries: units("query", from), keys: units("key", to) };
}

/** The units along one side, those of segment A or B if a letter says which. */
function units(side, letter) {
  const { tokens, words, special, segments } = tokensOf(state.text, side);
  const whole = state.words ? words : tokens.map((label, token) => [label, [token]]);
  return whole
    .map(([label, members]) => ({ label, members, special: special[members[0]] }))
    .filter((unit) => state.special || !unit.special)
    .filter((unit) => letter === undefined || "AB"[segments[unit.members[0]]] === letter);
}

const KEPT = 48; // of 512 tokens a megabyte each
const filtered = new Recent(KEPT); // everything that a map depends on -> what the filters leave of it

/**
 * The weights of one head between queries and keys, [query * keys.length + key], or null if not decoded yet.
 * Weights to the pieces of a word add up, weights from them are averaged (Clark et al. 2019, section 4.1); of a head that
 * is not whole the largest is taken. NaN is hidden: of words, where it is so of all their pieces.
 */
export function shownWeights(queries, keys, layer, head, text = state.text, mask = state.mask) {
  const weights = weightsOf(text, mask, layer, head);
  if (weights === null) return null;
  if (showsAll(queries, keys)) return weights;
  const name = [state.text, state.mask, state.segments, state.special, state.words, layer, head].join();
  return filtered.get(name, () => between(queries, keys, weights, isWhole(layer, head)));
}

/** Whether every token is a unit of its own. */
export function showsAll(queries, keys) {
  return queries.length === countOf(state.text, "query") && keys.length === countOf(state.text, "key");
}

/** What the filters leave of these weights, by the rule of `shownWeights`. */
function between(queries, keys, weights, whole) {
  const all = countOf(state.text, "key");
  const shown = new Float32Array(queries.length * keys.length).fill(NaN);
  queries.forEach((query, row) => {
    for (const from of query.members) {
      keys.forEach((key, column) => {
        const cell = row * keys.length + column;
        for (const to of key.members) {
          const weight = weights[from * all + to];
          if (isHidden(weight)) continue;
          const before = isHidden(shown[cell]) ? 0 : shown[cell];
          shown[cell] = whole ? before + weight / query.members.length : Math.max(before, weight);
        }
      });
    }
  });
  return shown;
}

/** Weights from this on are worth a mark: it is relative to 1 / keys. */
export function leastDrawn() {
  return SHARE / countOf(state.text, "key");
}

/** The threshold at a place of its slider, from 0, none, in equal factors from the least that is drawn to 1. */
export function thresholdAt(place) {
  return place > 0 ? Number((leastDrawn() ** (1 - place / THRESHOLDS)).toPrecision(2)) : 0;
}

/** The place of a threshold on the slider. */
export function placeOfThreshold(threshold) {
  if (threshold <= 0) return 0;
  return Math.max(1, Math.round(THRESHOLDS * (1 - Math.log(threshold) / Math.log(leastDrawn()))));
}

/** Whether what stands in a map is no weight: the mask hides it. */
export function isHidden(weight) {
  return Number.isNaN(weight);
}

/** Whether a second text begins with the unit at this place of an axis. */
export function beginsText(units, place, side) {
  const { segments } = tokensOf(state.text, side);
  return place > 0 && segments[units[place].members[0]] !== segments[units[place - 1].members[0]];
}

/** The place on an axis of the unit that holds a token; -1 where the filters left it out. */
export function placeOf(units, token) {
  return token === null ? -1 : units.findIndex((unit) => unit.members.includes(token));
}

/** The unit among the queries or the keys that holds a token; undefined where the filters left it out. */
export function unitOf(token, side) {
  const { queries, keys } = axes();
  return (side === "query" ? queries : keys).find((unit) => unit.members.includes(token));
}

/**
 * The largest of each block of cells, at most `most` x `most` of them: no peak is lost. A block is hidden where all of it
 * is. `{weights, rows, columns}`
 */
export function pooled(weights, rows, columns, most) {
  const [high, wide] = [Math.min(rows, most), Math.min(columns, most)];
  const small = new Float32Array(high * wide).fill(-1); // less than any weight
  const ends = Int32Array.from({ length: wide }, (_, block) => Math.floor(((block + 1) * columns) / wide));
  for (let row = 0, place = 0; row < rows; row++) {
    const start = blockOf(row, high, rows) * wide;
    for (let block = 0; block < wide; block++) {
      let most = small[start + block];
      for (const end = row * columns + ends[block]; place < end; place++) if (weights[place] > most) most = weights[place]; // NaN is not
      small[start + block] = most;
    }
  }
  return { weights: small.map((weight) => (weight < 0 ? NaN : weight)), rows: high, columns: wide };
}
