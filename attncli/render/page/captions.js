// What is said about what is seen: captions, values, and the sentence for screen readers.

import { countOf, isWhole, kindOf, maskOf, page, wholeHeads } from "./data.js";
import { state } from "./state.js";

/** A weight as it is shown. */
export function value(weight) {
  return weight.toFixed(3);
}

/** A token within a sentence: one that is written from right to left does not turn what stands around it. */
export function isolated(token) {
  return `\u2066${token}\u2069`;
}

/** "minilm · layer 3 · heads 0, 2 · mask padding" */
export function caption(...parts) {
  const filters = [
    state.segments === "all" ? "" : [...state.segments].join(" → "),
    state.special ? "" : "without special tokens",
    state.words ? "words" : "",
    state.threshold > 0 ? `weights from ${state.threshold}` : "",
  ];
  const { attention } = page.texts[state.text];
  const unusual = [attention === "encoder" ? "" : `${attention} attention`, page.measure === "weight" ? "" : page.measure];
  return [page.model.name, ...unusual, ...parts, `mask ${state.mask}`, ...filters].filter(Boolean).join(" · ");
}

/** What hatching means, where the mask hides anything. */
export function hatching() {
  return maskOf(state.text, state.mask).hides ? "hatched: hidden" : "";
}

/** "previous 0.78" */
export function kind(layer, head, text = state.text, mask = state.mask) {
  const { label, share } = kindOf(text, mask, layer, head);
  return label === "broad" ? "broad" : `${label} ${share.toFixed(2)}`;
}

/** What has to be said of a head of which not all weights are here; "" of one of which they are. */
export function pooling(layer, head) {
  if (isWhole(layer, head)) return "";
  const { rows, columns } = maskOf(state.text, state.mask).small;
  const [high, wide] = [countOf(state.text, "query") / rows, countOf(state.text, "key") / columns].map(Math.ceil);
  return `a cell is the largest of about ${high} × ${wide} weights`;
}

/** Numbers as a list with runs: "0-3, 5". */
export function numberList(numbers) {
  const runs = [];
  for (const number of numbers) {
    const last = runs.at(-1);
    if (last && number === last[1] + 1) last[1] = number;
    else runs.push([number, number]);
  }
  return runs.map(([from, to]) => (from === to ? `${from}` : `${from}-${to}`)).join(", ");
}

/** "3.1, 4.7" */
function wholeOnes() {
  return page.layers.flatMap((layer) => wholeHeads(layer).map((head) => `${layer}.${head}`)).join(", ") || "none";
}

/** What stands below every view: where the numbers are from, and how exact they are. */
export function about() {
  const { model } = page;
  const text = page.texts[state.text];
  const { error } = maskOf(state.text, state.mask);
  return [
    `${model.name}, ${model.layers} layers of ${model.heads} heads`,
    `${text.keys ? `${countOf(state.text, "query")} queries, ${countOf(state.text, "key")} keys` : `${text.tokens.length} tokens`}; layers ${numberList(page.layers)} and heads ${numberList(page.heads)} are in this page`,
    text.note,
    page.whole ? `all weights of heads ${wholeOnes()}; the others are here small only: record.page("all.html") has all of them` : "",
    hatching(),
    `${page.measure === "weight" ? "weights" : "shares"} are stored within ${error.toPrecision(1)} of the true ones`,
    model.sha256 ? `SHA-256 of the weights' file: ${model.sha256.slice(0, 12)}…` : "",
    `made by attncli ${page.version}`,
  ]
    .filter(Boolean)
    .join("\n");
}
