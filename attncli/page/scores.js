// From q and k to the weights of one head, for one query.
//   score = Σ_i q_i k_i     scaled = score · scale, mostly 1 / √size     weight = softmax of scaled and the terms that
//   positions add, if they do, over the keys that may be looked at. Where positions turn q and k, these are the turned.
//   A head's sink, if it has one, is one more score, whose weight goes to no token.

import { allowed, countOf, errorOf, vectorsOf, weightsOf } from "./data.js";
import { state } from "./state.js";

/**
 * Each step for one query, with what `vectorsOf` gives of the head: `{q, score, scaled, parts, added, weight, may,
 * taken}`; lists are by key, and parts has one for each term, which `added` has together; taken is the sink's share of the
 * row. Null if something is not decoded yet.
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

let kept = { name: "", vectors: null }; // of the head that is looked at

/** What `vectorsOf` gives of the head that is looked at, and, where positions turned q and k, these before that. */
function headVectors() {
  const name = [state.text, state.mask, state.layer, state.head].join();
  if (kept.name !== name) {
    const vectors = vectorsOf(state.text, state.mask, state.layer, state.head);
    if (vectors === null) return null;
    const { turning } = vectors;
    const before = turning && { query: turnedBack(vectors.query, turning.queries, vectors), key: turnedBack(vectors.key, turning.keys, vectors) };
    kept = { name, vectors: { ...vectors, before } };
  }
  return kept.vectors;
}

/** Vectors of tokens at these places, as they were before positions turned them. */
function turnedBack(turned, places, { size, turning }) {
  const before = turned.slice();
  places.forEach((place, token) => {
    turning.pairs.forEach(([one, other], pair) => {
      const [cos, sin] = [Math.cos(place * turning.rates[pair]), Math.sin(place * turning.rates[pair])];
      const [a, b] = [turned[token * size + one], turned[token * size + other]];
      before[token * size + one] = a * cos + b * sin;
      before[token * size + other] = b * cos - a * sin;
    });
  });
  return before;
}

/**
 * How far the weights made of q and k are from those that the model used (in half precision it rounds on the way), beyond
 * what the page rounded of these.
 */
export function difference(query, weight) {
  const own = weightsOf(state.text, state.mask, state.layer, state.head);
  const error = errorOf(state.text, state.mask, state.layer, state.head);
  const apart = (one, stored) => Math.abs(one - stored) - error;
  return own === null ? 0 : weight.reduce((most, one, key) => Math.max(most, apart(one, own[query * weight.length + key] || 0)), 0); // NaN is hidden: 0
}
