// The weights of one query of one head, computed from q and k.
//   score = Σ_i q_i k_i     scaled = score · scale, where scale is usually 1 / √size
//   weight = softmax(scaled + terms), over the keys that the mask allows. terms: what positions add, if anything.
//   With rotary positions, q and k are rotated. A sink is one more score, whose weight goes to no token.

import { allowed, countOf, errorOf, vectorsOf, weightsOf } from "./data.js";
import { state } from "./state.js";

/**
 * Return each step for one query, `{q, score, scaled, parts, added, weight, may, taken}`, with the fields of `vectorsOf`.
 * Lists are by key. parts: a list per term. added: their sum. may: whether the mask allows the key. taken: the sink's share
 * of the row. Return null if some data is not decoded yet.
 */
export function scores(query) {
  const vectors = headVectors();
  const keys = countOf(state.text, "key");
  if (vectors === null || allowed(state.text, state.mask, state.layer, query, 0) === null) return null;
  const { size } = vectors;
  const q = vectors.query.subarray(query * size, (query + 1) * size);
  const score = new Float64Array(keys);
  for (let key = 0; key < keys; key++) {
    for (let i = 0; i < size; i++) score[key] += q[i] * vectors.key[key * size + i];
  }
  const scaled = score.map((one) => one * vectors.scale);
  const parts = vectors.terms.map((term) => term.subarray(query * keys, (query + 1) * keys));
  const added = score.map((_, key) => parts.reduce((sum, part) => sum + part[key], 0));
  const full = scaled.map((one, key) => one + added[key]);
  const may = [...score.keys()].map((key) => allowed(state.text, state.mask, state.layer, query, key));
  const sink = vectors.sink ?? -Infinity;
  const largest = full.reduce((most, one, key) => (may[key] ? Math.max(most, one) : most), sink);
  const raised = full.map((one, key) => (may[key] ? Math.exp(one - largest) : 0));
  const sum = raised.reduce((total, one) => total + one, sink === -Infinity ? 0 : Math.exp(sink - largest));
  const weight = raised.map((one) => (sum ? one / sum : 0));
  return { ...vectors, q, score, scaled, parts, added, may, weight, taken: sink === -Infinity ? 0 : Math.exp(sink - largest) / sum };
}

let kept = { name: "", vectors: null }; // the parts of the selected head's scores

/** Return `vectorsOf` the selected head; with rotary positions also `before`, the q and k before the rotation. */
function headVectors() {
  const name = [state.text, state.mask, state.layer, state.head].join();
  if (kept.name !== name) {
    const vectors = vectorsOf(state.text, state.mask, state.layer, state.head);
    if (vectors === null) return null;
    const { rotation } = vectors;
    const before = rotation && { query: undoRotation(vectors.query, rotation.queries, vectors), key: undoRotation(vectors.key, rotation.keys, vectors) };
    kept = { name, vectors: { ...vectors, before } };
  }
  return kept.vectors;
}

/** Return vectors as they were before the rotation by these places. */
function undoRotation(rotated, places, { size, rotation }) {
  const before = rotated.slice();
  places.forEach((place, token) => {
    rotation.pairs.forEach(([one, other], pair) => {
      const [cos, sin] = [Math.cos(place * rotation.rates[pair]), Math.sin(place * rotation.rates[pair])];
      const [a, b] = [rotated[token * size + one], rotated[token * size + other]];
      before[token * size + one] = a * cos + b * sin;
      before[token * size + other] = b * cos - a * sin;
    });
  });
  return before;
}

/**
 * Return the largest difference between weights computed from q and k and the model's own, beyond the rounding of the page.
 * A model in half precision rounds more.
 */
export function difference(query, weight) {
  const own = weightsOf(state.text, state.mask, state.layer, state.head);
  const error = errorOf(state.text, state.mask, state.layer, state.head);
  const apart = (one, stored) => Math.abs(one - stored) - error;
  return own === null ? 0 : weight.reduce((most, one, key) => Math.max(most, apart(one, own[query * weight.length + key] || 0)), 0); // 0 for a hidden weight (NaN)
}
