// Captions, values in words, and the sentence for screen readers.

import { countOf, errorOf, headsOf, hasFullMap, patternOf, maskOf, MEAN, page, tokensOf, fullHeads } from "./data.js";
import { SEPARATOR } from "./paint.js";
import { state } from "./state.js";

/** Format a weight with three decimals, or fewer if it is stored less precisely; "<.001" if it rounds to 0. */
export function value(weight) {
  const decimals = Math.min(3, Math.floor(-Math.log10(error())));
  if (weight === 0 && error() === 0) return "0";
  return weight < 0.5 * 10 ** -decimals ? `<${(10 ** -decimals).toFixed(decimals).slice(1)}` : weight.toFixed(decimals);
}

/** Format a number for a cell: two decimals, or "<.01" if it rounds to 0, since a weight stored as 0 may be larger. */
export function brief(number) {
  if (Math.abs(number) < 0.005) return number < 0 ? ">-.01" : "<.01";
  return number.toFixed(2);
}

/** "layer 3" */
export function layerName(layer = state.layer) {
  return layer === MEAN ? "mean of all layers" : `layer ${layer}`;
}

/** "head 4", or "heads 0, 2" for several heads */
export function headName(...heads) {
  if (heads.length === 1 && heads[0] === MEAN) return "mean of all heads";
  const list = [...(heads.includes(MEAN) ? ["mean"] : []), numberList(heads.filter((head) => head !== MEAN).sort((a, b) => a - b))];
  return `head${heads.length === 1 ? "" : "s"} ${list.filter(Boolean).join(", ") || "none"}`;
}

/** Return the largest error of a displayed weight. The errors of a word's pieces add up. */
function error() {
  const pieces = state.words ? tokensOf(state.text, "key").words.map(([, members]) => members.length) : [1];
  return errorOf(state.text, state.mask, state.layer, state.head) * Math.max(...pieces);
}

/** Return a text with a capital as its first letter. */
export function capitalised(text) {
  return text && text[0].toUpperCase() + text.slice(1);
}

/** Isolate the direction of a token, so that a token written from right to left does not reverse the text around it. */
export function isolate(token) {
  return `\u2068${token}\u2069`;
}

/** Return the active filters, `[{label, undo}]`. `undo` is the change of state that clears the filter. */
export function activeFilters() {
  return [
    { on: state.segments !== "all", label: [...state.segments].join(" → "), undo: { segments: "all" } },
    { on: !state.special, label: "without special tokens", undo: { special: true } },
    { on: state.words, label: "words", undo: { words: false } },
    { on: state.threshold > 0, label: `weights below ${state.threshold} hidden`, undo: { threshold: 0 } },
  ].filter(({ on }) => on);
}

/** "minilm · layer 3 · heads 0, 2 · mask padding" */
export function caption(...parts) {
  const { attention } = page.texts[state.text];
  const unusual = [attention === "encoder" ? "" : `${attention} attention`, page.measure === "weight" ? "" : page.measure];
  return [page.model.name, ...unusual, ...parts, `mask ${state.mask}`, ...activeFilters().map(({ label }) => label)].filter(Boolean).join(SEPARATOR);
}

/** Explain the hatching, if the mask hides anything. */
export function hatching() {
  return maskOf(state.text, state.mask).hides ? "hatched: hidden" : "";
}

/** "previous 0.78; induction (attncli kinds, 2026-11-28)"; "" for a mean */
export function kind(layer, head, text = state.text, mask = state.mask) {
  const { label, share, measured } = patternOf(text, mask, layer, head) ?? {};
  if (label === undefined) return "";
  const kinds = measured?.length ? `; ${measured.join(", ")} (${maskOf(text, mask).measured})` : "";
  return (label === "broad" ? "broad" : `${label} ${share.toFixed(2)}`) + kinds;
}

/** Explain the cells of a small map; return "" if the page stores the head's full map. */
export function describePooling(layer, head) {
  if (hasFullMap(layer, head)) return "";
  const { rows, columns } = maskOf(state.text, state.mask).small;
  const [high, wide] = [countOf(state.text, "query") / rows, countOf(state.text, "key") / columns].map(Math.ceil);
  return `each cell is the largest of about ${high} × ${wide} weights`;
}

/** Format numbers as a list of ranges: "0-3, 5". */
function numberList(numbers) {
  const runs = [];
  for (const number of numbers) {
    const last = runs.at(-1);
    if (last && number === last[1] + 1) last[1] = number;
    else runs.push([number, number]);
  }
  return runs.map(([from, to]) => (from === to ? `${from}` : `${from}-${to}`)).join(", ");
}

/** "3.1, 4.7": list the heads that `ofLayer` returns for each layer. */
function listHeads(ofLayer) {
  return page.layers.flatMap((layer) => ofLayer(layer).map((head) => `${layer}.${head}`)).join(", ") || "none";
}

/** Describe the source of the numbers and their precision, for the side panel. */
export function describeSource() {
  const { model } = page;
  const text = page.texts[state.text];
  return [
    `${model.name}, ${model.layers} layers of ${model.heads} heads`,
    `${text.keys ? `${countOf(state.text, "query")} queries, ${countOf(state.text, "key")} keys` : `${text.tokens.length} tokens`}; ${page.chosen ? `heads ${listHeads(headsOf)}` : `layers ${numberList(page.layers)} and heads ${numberList(page.heads)}`} are in this page`,
    page.whole ? `all weights of heads ${listHeads(fullHeads)}, and small maps of the others; record.page("all.html") writes all weights` : "",
    hatching(),
    `${page.measure === "weight" ? "weights" : "shares"} are stored to within ${Number(error().toPrecision(1)).toLocaleString("en", { maximumFractionDigits: 9 })}`,
    model.sha256 ? `SHA-256 of the weights file: ${model.sha256.slice(0, 12)}…` : "",
    `made by attncli ${page.version}`,
  ]
    .filter(Boolean)
    .join("\n");
}
