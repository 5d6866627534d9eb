// The units along the axes of a map, tokens or words, after the filters, and the map between them.

import { blockOf, countOf, hasFullMap, tokensOf, weightsOf } from "./data.js";
import { Recent } from "./recent.js";
import { state } from "./state.js";

const SHARE = 1 / 16; // the least drawn weight, as a share of a key's weight under uniform attention
export const THRESHOLDS = 100; // steps of the slider, from the least drawn weight to 1

/**
 * Return the drawn queries and keys, each `{label, members, special}`. members: its tokens, several for a word.
 */
export function axes() {
  const [from, to] = state.segments === "all" ? [] : state.segments;
  return { queries: units("query", from), keys: units("key", to) };
}

/** Return the units along one side; only those of segment "A" or "B" if a letter is given. */
function units(side, letter) {
  const { tokens, words, special, segments } = tokensOf(state.text, side);
  const whole = state.words ? words : tokens.map((label, token) => [label, [token]]);
  return whole
    .map(([label, members]) => ({ label, members, special: special[members[0]] }))
    .filter((unit) => state.special || !unit.special)
    .filter((unit) => letter === undefined || "AB"[segments[unit.members[0]]] === letter);
}

const KEPT = 48; // maps; one of 512 tokens takes a megabyte
const filtered = new Recent(KEPT); // map and filters -> the filtered map

/**
 * Return the weights of one head between these units, [query * keys.length + key], or null if they are not decoded yet.
 *
 * Weights to the pieces of a word are summed, weights from them averaged (Clark et al. 2019, section 4.1). For a head with
 * only a small map, the largest is taken. A hidden weight is NaN. A word is hidden if all its pieces are.
 */
export function shownWeights(queries, keys, layer, head, text = state.text, mask = state.mask) {
  const weights = weightsOf(text, mask, layer, head);
  if (weights === null) return null;
  if (showsAll(queries, keys)) return weights;
  const name = [state.text, state.mask, state.segments, state.special, state.words, layer, head].join();
  return filtered.get(name, () => between(queries, keys, weights, hasFullMap(layer, head)));
}

/** Return true if every token is a unit. */
export function showsAll(queries, keys) {
  return queries.length === countOf(state.text, "query") && keys.length === countOf(state.text, "key");
}

/** Apply the filters to weights, as `shownWeights` documents. */
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

/** Return the least weight worth drawing, relative to 1 / keys. */
export function leastDrawn() {
  return SHARE / countOf(state.text, "key");
}

/** Return the threshold at a place of the slider: 0 at the start, then in equal factors from the least drawn weight to 1. */
export function thresholdAt(place) {
  return place > 0 ? Number((leastDrawn() ** (1 - place / THRESHOLDS)).toPrecision(2)) : 0;
}

/** Return the place of a threshold on the slider. */
export function placeOfThreshold(threshold) {
  if (threshold <= 0) return 0;
  return Math.max(1, Math.round(THRESHOLDS * (1 - Math.log(threshold) / Math.log(leastDrawn()))));
}

/** Return true if the mask hides this value of a map. */
export function isHidden(weight) {
  return Number.isNaN(weight);
}

/** Return true if a second text begins with the unit at this place of an axis. */
export function beginsText(units, place, side) {
  const { segments } = tokensOf(state.text, side);
  return place > 0 && segments[units[place].members[0]] !== segments[units[place - 1].members[0]];
}

/** Return the place on an axis of the unit with a token; -1 if a filter hides it. */
export function placeOf(units, token) {
  return token === null ? -1 : units.findIndex((unit) => unit.members.includes(token));
}

/** Return the query or key with a token; undefined if a filter hides it. */
export function unitOf(token, side) {
  const { queries, keys } = axes();
  return (side === "query" ? queries : keys).find((unit) => unit.members.includes(token));
}

/**
 * Pool weights to at most `most` x `most` blocks, `{weights, rows, columns}`. A block has its largest weight, so that no
 * peak is lost. It is hidden if all its cells are.
 */
export function pooled(weights, rows, columns, most) {
  const [high, wide] = [Math.min(rows, most), Math.min(columns, most)];
  const small = new Float32Array(high * wide).fill(-1); // less than any weight
  const ends = Int32Array.from({ length: wide }, (_, block) => Math.floor(((block + 1) * columns) / wide));
  for (let row = 0, place = 0; row < rows; row++) {
    const start = blockOf(row, high, rows) * wide;
    for (let block = 0; block < wide; block++) {
      let most = small[start + block];
      for (const end = row * columns + ends[block]; place < end; place++) if (weights[place] > most) most = weights[place]; // false for a hidden weight (NaN)
      small[start + block] = most;
    }
  }
  return { weights: small.map((weight) => (weight < 0 ? NaN : weight)), rows: high, columns: wide };
}
