// What is said about what is seen: captions, values, and the sentence for screen readers.

import { countOf, errorOf, headsOf, isWhole, kindOf, maskOf, MEAN, page, tokensOf, wholeHeads } from "./data.js";
import { PART } from "./paint.js";
import { state } from "./state.js";

/** A weight as it is shown: with three digits, or those that are known. */
export function value(weight) {
  return digits(weight, 3);
}

/** Write a number in a cell: two decimals, or "<.01" if it rounds to 0, since a weight that is stored as 0 may be larger. */
export function brief(number) {
  if (Math.abs(number) < 0.005) return number < 0 ? ">-.01" : "<.01";
  return number.toFixed(2);
}

/** "layer 3" */
export function layerName(layer = state.layer) {
  return layer === MEAN ? "mean of all layers" : `layer ${layer}`;
}

/** "head 4", or "heads 0, 2" of several */
export function headName(...heads) {
  if (heads.length === 1 && heads[0] === MEAN) return "mean of all heads";
  const list = [...(heads.includes(MEAN) ? ["mean"] : []), numberList(heads.filter((head) => head !== MEAN).sort((a, b) => a - b))];
  return `head${heads.length === 1 ? "" : "s"} ${list.filter(Boolean).join(", ") || "none"}`;
}

/** A weight with so many digits at most. Below 0.001 two are enough, and below 0.0001 zeros are too many. */
function digits(weight, most) {
  const decimals = Math.floor(-Math.log10(error()));
  const known = decimals + 1 + Math.floor(Math.log10(weight));
  if (!(known >= 1)) return decimals === Infinity ? "0" : `< ${10 ** -decimals}`;
  const shown = Math.min(most, known, weight < 0.001 ? 2 : most);
  return weight < 0.0001 ? weight.toExponential(shown - 1) : weight.toPrecision(shown);
}

/** How far a weight that is shown may be from the truth: the pieces of a word add up. */
function error() {
  const pieces = state.words ? tokensOf(state.text, "key").words.map(([, members]) => members.length) : [1];
  return errorOf(state.text, state.mask, state.layer, state.head) * Math.max(...pieces);
}

/** A token within a sentence, in its own direction: one that is written from right to left does not turn what stands around it. */
export function isolated(token) {
  return `\u2068${token}\u2069`;
}

/** The filters that are on, `[{said, undo}]`: in words, and the change that takes each away. */
export function filters() {
  return [
    { on: state.segments !== "all", said: [...state.segments].join(" → "), undo: { segments: "all" } },
    { on: !state.special, said: "without special tokens", undo: { special: true } },
    { on: state.words, said: "words", undo: { words: false } },
    { on: state.threshold > 0, said: `weights below ${state.threshold} hidden`, undo: { threshold: 0 } },
  ].filter(({ on }) => on);
}

/** "minilm · layer 3 · heads 0, 2 · mask padding" */
export function caption(...parts) {
  const { attention } = page.texts[state.text];
  const unusual = [attention === "encoder" ? "" : `${attention} attention`, page.measure === "weight" ? "" : page.measure];
  return [page.model.name, ...unusual, ...parts, `mask ${state.mask}`, ...filters().map(({ said }) => said)].filter(Boolean).join(PART);
}

/** What hatching means, where the mask hides anything. */
export function hatching() {
  return maskOf(state.text, state.mask).hides ? "hatched: hidden" : "";
}

/** "previous 0.78; induction (attncli kinds, 2026-11-28)"; "" of a mean */
export function kind(layer, head, text = state.text, mask = state.mask) {
  const { label, share, measured } = kindOf(text, mask, layer, head) ?? {};
  if (label === undefined) return "";
  const kinds = measured?.length ? `; ${measured.join(", ")} (${maskOf(text, mask).measured})` : "";
  return (label === "broad" ? "broad" : `${label} ${share.toFixed(2)}`) + kinds;
}

/** What has to be said of a head of which not all weights are here; "" of one of which they are. */
export function pooling(layer, head) {
  if (isWhole(layer, head)) return "";
  const { rows, columns } = maskOf(state.text, state.mask).small;
  const [high, wide] = [countOf(state.text, "query") / rows, countOf(state.text, "key") / columns].map(Math.ceil);
  return `each cell is the largest of about ${high} × ${wide} weights`;
}

/** Numbers as a list with runs: "0-3, 5". */
function numberList(numbers) {
  const runs = [];
  for (const number of numbers) {
    const last = runs.at(-1);
    if (last && number === last[1] + 1) last[1] = number;
    else runs.push([number, number]);
  }
  return runs.map(([from, to]) => (from === to ? `${from}` : `${from}-${to}`)).join(", ");
}

/** "3.1, 4.7", given the heads of a layer */
function named(ofLayer) {
  return page.layers.flatMap((layer) => ofLayer(layer).map((head) => `${layer}.${head}`)).join(", ") || "none";
}

/** What stands below every view: where the numbers are from, and how exact they are. */
export function about() {
  const { model } = page;
  const text = page.texts[state.text];
  return [
    `${model.name}, ${model.layers} layers of ${model.heads} heads`,
    `${text.keys ? `${countOf(state.text, "query")} queries, ${countOf(state.text, "key")} keys` : `${text.tokens.length} tokens`}; ${page.chosen ? `heads ${named(headsOf)}` : `layers ${numberList(page.layers)} and heads ${numberList(page.heads)}`} are in this page`,
    page.whole ? `all weights of heads ${named(wholeHeads)}, and small maps of the others; record.page("all.html") writes all weights` : "",
    hatching(),
    `${page.measure === "weight" ? "weights" : "shares"} are stored to within ${error().toPrecision(1)}`,
    model.sha256 ? `SHA-256 of the weights file: ${model.sha256.slice(0, 12)}…` : "",
    `made by attncli ${page.version}`,
  ]
    .filter(Boolean)
    .join("\n");
}
