// What stands along the two axes of a map, tokens or words, after the filters; and the map between them.

import { page, weightsOf } from "./data.js";
import { state } from "./state.js";

/**
 * The queries and the keys that are drawn. Each is `{label, members, special}`: the tokens that it stands for,
 * of which there are several where words are asked for.
 */
export function axes() {
  const text = page.texts[state.text];
  const units = state.words
    ? text.words.map(([label, members]) => ({ label, members, special: text.special[members[0]] }))
    : text.tokens.map((label, token) => ({ label, members: [token], special: text.special[token] }));
  const shown = state.special ? units : units.filter((unit) => !unit.special);
  const segment = (unit) => "AB"[text.segments[unit.members[0]]];
  const within = (letter) => (letter === undefined ? shown : shown.filter((unit) => segment(unit) === letter));
  const [from, to] = state.segments === "all" ? [] : state.segments;
  return { queries: within(from), keys: within(to) };
}

/**
 * The weights of one head between queries and keys, [query * keys.length + key], or null if not decoded yet.
 * Weights to the pieces of a word add up, weights from them are averaged (Clark et al. 2019, section 4.1).
 */
export function shownWeights(queries, keys, layer, head) {
  const weights = weightsOf(state.text, state.mask, layer, head);
  if (weights === null) return null;
  const tokens = page.texts[state.text].tokens.length;
  if (queries.length === tokens && keys.length === tokens) return weights;
  const shown = new Float32Array(queries.length * keys.length);
  queries.forEach((query, row) => {
    for (const from of query.members) {
      keys.forEach((key, column) => {
        for (const to of key.members) shown[row * keys.length + column] += weights[from * tokens + to] / query.members.length;
      });
    }
  });
  return shown;
}

/** The place on an axis of the unit that holds a token; -1 where the filters left it out. */
export function placeOf(units, token) {
  return token === null ? -1 : units.findIndex((unit) => unit.members.includes(token));
}

/** The largest of each block of cells, at most `most` x `most` of them: no peak is lost. `{weights, rows, columns}` */
export function pooled(weights, rows, columns, most) {
  const [high, wide] = [Math.min(rows, most), Math.min(columns, most)];
  const small = new Float32Array(high * wide);
  const across = Int32Array.from({ length: columns }, (_, column) => Math.floor((column * wide) / columns));
  for (let row = 0, place = 0; row < rows; row++) {
    const start = Math.floor((row * high) / rows) * wide;
    for (let column = 0; column < columns; column++, place++) {
      const cell = start + across[column];
      if (weights[place] > small[cell]) small[cell] = weights[place];
    }
  }
  return { weights: small, rows: high, columns: wide };
}
