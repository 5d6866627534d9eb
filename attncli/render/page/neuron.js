// Neuron: for one head and one query, q, every k, their product element by element, the score, and the weight.
//   score = Σ_i q_i k_i     scaled = score · scale, mostly 1 / √size     weight = softmax of scaled and the terms that
//   positions add, if they do, over the keys that may be looked at. Where positions turn q and k, these are the turned.

import { allowed, countOf, hasVectors, maskOf, tokensOf, vectorsOf, weightsOf } from "./data.js";
import { cut } from "./paint.js";
import { state } from "./state.js";
import { axes } from "./units.js";
import { caption, isolated } from "./captions.js";

const CAPTION = 26;
const HEADER = 84; // caption, q, headings
const ROW = 20;
const GAP = 8;
const SIZE = 12;
const [NARROW, WIDE] = [{ number: 48, bar: 24 }, { number: 62, bar: 60 }]; // widths of columns
const ROOMY = 600;
const ROUNDING = 0.001; // by more than this a weight of q and k differs from the model's own

/** The query that is shown: the token that is held, else the first that is a word. */
export function shownQuery() {
  const { special } = tokensOf(state.text, "query");
  const other = state.side === "key" && tokensOf(state.text, "key") !== tokensOf(state.text, "query");
  return (other ? null : state.token) ?? Math.max(0, special.indexOf(false));
}

function layout(width) {
  const size = maskOf(state.text, state.mask).vectors.size;
  const { number, bar } = width < ROOMY ? NARROW : WIDE;
  const label = Math.min(110, width * 0.2);
  const numbers = hasTerms() ? 4 : 3; // columns of them
  const room = (width - label - numbers * number - bar - 4 * GAP) / (2 * size);
  const element = Math.min(9, Math.max(1.5, room));
  const k = label + GAP;
  const product = k + size * element + GAP;
  const score = product + size * element + GAP;
  const weight = score + (numbers - 1) * number;
  return { size, label, element, k, product, scaled: score + number, terms: score + 2 * number, weight, bar, end: weight + number + bar + GAP };
}

/** Whether positions add terms to the scores. */
function hasTerms() {
  return maskOf(state.text, state.mask).vectors.terms.length > 0;
}

/** The keys that are shown: pieces, not words, for a word has no q and no k. */
function shownKeys() {
  const { tokens } = tokensOf(state.text, "key");
  const left = new Set(axes().keys.flatMap((unit) => unit.members));
  return [...tokens.keys()].filter((key) => left.has(key));
}

export function measure(width) {
  const there = hasVectors(state.text, state.mask, state.layer, state.head);
  return there ? { width: Math.max(width, layout(width).end), height: HEADER + ROW * shownKeys().length + GAP } : { width, height: 120 };
}

/** From q and k to weights, `{query, key, score, scaled, added, weight, may}`; lists are by key. Null if not decoded yet. */
export function scores(query) {
  const vectors = vectorsOf(state.text, state.mask, state.layer, state.head);
  const keys = countOf(state.text, "key");
  if (vectors === null || allowed(state.text, state.mask, state.layer, query, 0) === null) return null;
  const { size } = vectors;
  const q = vectors.query.subarray(query * size, (query + 1) * size);
  const score = new Float64Array(keys);
  for (let key = 0; key < keys; key++) {
    for (let i = 0; i < size; i++) score[key] += q[i] * vectors.key[key * size + i];
  }
  const scaled = score.map((one) => one * vectors.scale);
  const added = score.map((_, key) => vectors.terms.reduce((sum, term) => sum + term[query * keys + key], 0));
  const full = scaled.map((one, key) => one + added[key]);
  const may = [...score.keys()].map((key) => allowed(state.text, state.mask, state.layer, query, key));
  const largest = full.reduce((most, one, key) => (may[key] ? Math.max(most, one) : most), -Infinity);
  const raised = full.map((one, key) => (may[key] ? Math.exp(one - largest) : 0));
  const sum = raised.reduce((total, one) => total + one, 0);
  return { ...vectors, q, score, scaled, added, may, weight: raised.map((one) => (sum ? one / sum : 0)) };
}

export function at(x, y, width, height, area) {
  if (!hasVectors(state.text, state.mask, state.layer, state.head)) return null;
  const place = layout(width);
  const key = y - area.y > HEADER ? shownKeys()[Math.floor((y - HEADER) / ROW)] : undefined;
  const strip = [place.k, place.product].find((start) => x >= start && x < start + place.size * place.element);
  const element = strip === undefined ? undefined : Math.floor((x - strip) / place.element);
  const onQuery = y - area.y > CAPTION && y - area.y < CAPTION + ROW && strip === place.k;
  return key !== undefined || onQuery ? { key, element, strip: strip === place.product ? "product" : "k" } : null;
}

export function draw(painter, area, pointed, colours) {
  const query = shownQuery();
  const { tokens } = tokensOf(state.text, "query");
  const { tokens: keyTokens, special } = tokensOf(state.text, "key");
  if (!hasVectors(state.text, state.mask, state.layer, state.head)) {
    drawMissing(painter, area, colours);
    return true;
  }
  const found = scores(query);
  if (found === null) return false;
  const place = layout(area.width);
  const keys = shownKeys();
  const top = area.y; // the header stays while keys move under it
  const largest = (numbers) => numbers.reduce((most, one) => Math.max(most, Math.abs(one)), 0) || 1;
  const [most, mostProduct] = [Math.max(largest(found.q), largest(found.key)), largest(products(found, keys))];

  painter.clip(area.x, top + HEADER, area.width, area.height - HEADER);
  keys.forEach((key, row) => {
    const y = HEADER + row * ROW;
    if (y + ROW < area.y + HEADER || y > area.y + area.height) return;
    if (pointed?.key === key) painter.rect(area.x, y, area.width, ROW, { fill: colours.mark });
    const middle = y + ROW / 2;
    const fill = found.may[key] ? (special[key] ? colours.faint : colours.ink) : colours.faint;
    painter.text(cut(keyTokens[key], SIZE, place.label - GAP), place.label, middle, { fill, size: SIZE, align: "right" });
    strip(place.k, y, (i) => found.key[key * place.size + i], most);
    strip(place.product, y, (i) => found.q[i] * found.key[key * place.size + i], mostProduct);
    const data = { query, key, score: found.score[key], scaled: found.scaled[key], added: found.added[key], weight: found.weight[key] };
    painter.text(found.score[key].toFixed(2), place.scaled - GAP, middle, { fill, size: SIZE, align: "right" });
    painter.text(found.scaled[key].toFixed(2), place.terms - GAP, middle, { fill, size: SIZE, align: "right" });
    if (hasTerms()) painter.text(found.added[key].toFixed(2), place.weight - GAP, middle, { fill, size: SIZE, align: "right" });
    if (found.may[key]) painter.rect(place.weight, y + 4, Math.max(0.5, place.bar * found.weight[key]), ROW - 8, { fill: colours.accent, data });
    painter.text(found.may[key] ? found.weight[key].toFixed(4) : "masked", place.weight + place.bar + GAP, middle, { fill, size: SIZE });
  });
  painter.endClip();

  const apart = difference(query, found.weight);
  const warning = apart > ROUNDING ? [`the model's own weights differ by up to ${apart.toFixed(3)}: it rounded more`] : [];
  const terms = hasTerms() ? [`terms: ${maskOf(state.text, state.mask).vectors.terms.join(", ")}`] : [];
  const said = caption(`layer ${state.layer}`, `head ${state.head}`, ...terms, ...warning);
  painter.text(cut(said, SIZE, area.width - 2 * GAP), area.x + GAP, top + 13, { fill: colours.faint, size: SIZE });
  painter.text(cut(tokens[query], SIZE, place.label - GAP), place.label, top + CAPTION + ROW / 2, { fill: colours.ink, size: SIZE, align: "right", bold: true });
  strip(place.k, top + CAPTION, (i) => found.q[i], most);
  const name = (text, x, align = "left") => painter.text(text, x, top + HEADER - 12, { fill: colours.faint, size: SIZE, align });
  painter.text("q", place.product, top + CAPTION + ROW / 2, { fill: colours.faint, size: SIZE });
  name("key", place.label, "right");
  name("k", place.k);
  name("q × k", place.product);
  name("score", place.scaled - GAP, "right");
  name(`/ √${+(found.scale ** -2).toFixed(2)}`, place.terms - GAP, "right");
  if (hasTerms()) name("+ terms", place.weight - GAP, "right");
  name("weight", place.weight);
  return true;

  /** One vector as coloured squares: orange above 0, blue below, the stronger the larger. */
  function strip(x, y, element, scale) {
    for (let i = 0; i < place.size; i++) {
      const one = element(i);
      painter.rect(x + i * place.element, y + 3, place.element - 0.5, ROW - 6, { fill: one > 0 ? colours.plus : colours.minus, alpha: Math.min(1, Math.abs(one) / scale) });
    }
    painter.rect(x, y + 3, place.size * place.element, ROW - 6, { stroke: colours.edge, lineWidth: 0.5 });
  }
}

/**
 * How far the weights made of q and k are from those that the model used (in half precision it rounds on the way), beyond
 * what the page rounded.
 */
function difference(query, weight) {
  const own = weightsOf(state.text, state.mask, state.layer, state.head);
  const { error, rest, least } = maskOf(state.text, state.mask);
  const apart = (one, stored) => Math.abs(one - stored) - Math.max(error, rest) * stored - least;
  return own === null ? 0 : weight.reduce((most, one, key) => Math.max(most, apart(one, own[query * weight.length + key] || 0)), 0); // NaN is hidden: 0
}

function products(found, keys) {
  return keys.flatMap((key) => Array.from(found.q, (one, i) => one * found.key[key * found.size + i]));
}

function drawMissing(painter, area, colours) {
  const heads = maskOf(state.text, state.mask).vectors.heads.map((pair) => pair.join("."));
  const lines = [
    `q and k of head ${state.layer}.${state.head} are not in this page.`,
    heads.length ? `It has those of ${heads.slice(0, 24).join(", ")}${heads.length > 24 ? ", …" : ""}.` : "It has those of no head.",
    `attncli view --vectors ${state.layer}.${state.head} makes a page that has them.`,
  ];
  lines.forEach((line, number) => {
    painter.text(cut(line, 13, area.width - 2 * GAP), area.x + GAP, area.y + 24 + number * 24, { fill: number ? colours.faint : colours.ink });
  });
}

export function tip({ key, element, strip }) {
  const query = shownQuery();
  const found = scores(query);
  if (found === null) return "";
  const { tokens } = tokensOf(state.text, "query");
  const { tokens: keyTokens } = tokensOf(state.text, "key");
  if (element === undefined) return `${isolated(tokens[query])} (${query}) → ${isolated(keyTokens[key])} (${key}): weight ${found.weight[key].toFixed(6)}`;
  const q = found.q[element];
  if (key === undefined) return `q[${element}] = ${q.toFixed(4)}`;
  const k = found.key[key * found.size + element];
  return strip === "k" ? `k[${element}] = ${k.toFixed(4)}` : `q[${element}] × k[${element}] = ${q.toFixed(4)} × ${k.toFixed(4)} = ${(q * k).toFixed(4)}`;
}
