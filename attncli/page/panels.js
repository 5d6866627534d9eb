// The maps of a page of comparisons, and the numbers of a cell in all of them: A, B and B - A of the selected head, or the
// maps that the page stores.

import { isolate, kind, value } from "./captions.js";
import { floatsOf, headsOf, page } from "./data.js";
import { fixed, signedValue } from "./signed.js";
import { state } from "./state.js";
import { axes, isHidden, placeOf, shownWeights } from "./units.js";

/** Return true if this page compares two records. */
export const OF_RECORDS = page.moved !== undefined;

let found = { name: "" };

/**
 * Return the maps, `{name, panels}`, or null if they are not decoded yet. Each panel is `{name, about, signed, values, most,
 * hidden}`. values: [query * keys + key], NaN for hidden cells. most: the largest size on its scale. All signed maps share a
 * scale, and so do all others, unless `page.apart`. hidden: true if any cell is hidden.
 */
export function maps() {
  const name = [state.layer, state.head, state.special].join();
  if (found.name === name) return found;
  const values = OF_RECORDS ? ofRecords() : page.panels.map(stored);
  if (values.includes(null)) return null;
  const sizes = values.map(extent);
  const isOn = (one, other) => (page.apart ? one === other : Boolean(one.signed) === Boolean(other.signed));
  const most = (panel) => Math.max(...sizes.filter((_, number) => isOn(page.panels[number], panel)).map((one) => one.most)) || 1;
  const panels = page.panels.map((panel, number) => ({ ...panel, values: values[number], most: most(panel), hidden: sizes[number].hidden }));
  found = { name, panels };
  return found;
}

/** Return A, B and B - A. A cell that only one of the two hides counts as 0 there. A cell that both hide is hidden. */
function ofRecords() {
  const { queries, keys } = axes();
  const [a, b] = page.texts.map((text, number) => shownWeights(queries, keys, state.layer, state.head, number, text.masks[0].name));
  if (a === null || b === null) return [null];
  const change = new Float32Array(a.length);
  for (let cell = 0; cell < a.length; cell++) {
    const [noA, noB] = [isHidden(a[cell]), isHidden(b[cell])];
    change[cell] = noA && noB ? NaN : (noB ? 0 : b[cell]) - (noA ? 0 : a[cell]);
  }
  return [a, b, change];
}

/** Return a stored map, with the queries and keys that the filters leave. */
function stored({ chunk }) {
  const all = floatsOf(chunk);
  if (all === null) return null;
  const { queries, keys } = axes();
  const wide = (page.texts[0].keys ?? page.texts[0]).tokens.length;
  const left = new Float32Array(queries.length * keys.length);
  queries.forEach((query, row) => keys.forEach((key, column) => {
    left[row * keys.length + column] = all[query.members[0] * wide + key.members[0]];
  }));
  return left;
}

/** Return the largest size in a map, and whether any cell is hidden. */
function extent(values) {
  let [most, hidden] = [0, false];
  for (let cell = 0; cell < values.length; cell++) {
    if (Math.abs(values[cell]) > most) most = Math.abs(values[cell]);
    hidden ||= isHidden(values[cell]);
  }
  return { most, hidden };
}

/** Return the weight that moved between A and B in a head, as Python computed it from exact numbers. */
export function movedOf(layer, head) {
  return page.moved[page.layers.indexOf(layer)][page.heads.indexOf(head)];
}

/** Return the heads as [layer, head], the most different first. */
export function ranked() {
  return page.layers.flatMap((layer) => headsOf(layer).map((head) => [layer, head])).sort((one, other) => movedOf(...other) - movedOf(...one));
}

/** Return the name of a unit in all panels: "cat", or "cat / dog" if B has another token there. */
export function nameOf(unit, side) {
  const names = page.texts.map((_, number) => nameIn(number, unit, side));
  return [...new Set(names)].join(" / ");
}

/** Return the name of a unit in one panel. */
export function nameIn(number, unit, side) {
  const text = page.texts[number];
  return text ? ((side === "key" && text.keys) || text).tokens[unit.members[0]] : nameOf(unit, side);
}

/** Return the formatted numbers of a cell, one per panel; null if a filter hides the cell. */
export function numbersAt(query, key) {
  const { queries, keys } = axes();
  const [row, column] = [placeOf(queries, query), placeOf(keys, key)];
  const all = maps();
  return row < 0 || column < 0 || all === null ? null : all.panels.map((panel) => formatCell(panel, row * keys.length + column));
}

/** Format the number of a cell in a panel. */
export function formatCell({ signed, values, most }, cell) {
  if (isHidden(values[cell])) return "hidden";
  if (signed) return signedText(values[cell], most);
  return OF_RECORDS ? value(values[cell]) : fixed(values[cell], most);
}

/** Format a number of a signed panel, whose largest size is `most`. Numbers of records have the digits that are stored. */
export function signedText(number, most) {
  return signedValue(number, OF_RECORDS ? value : (size) => fixed(size, most));
}

/** Return the name of a cell, "cat (2) → mat (6)", or joined by `page.between`. */
export function cellName(query, key) {
  const { queries, keys } = axes();
  const [from, to] = [nameOf(queries[placeOf(queries, query)], "query"), nameOf(keys[placeOf(keys, key)], "key")].map(isolate);
  return OF_RECORDS ? `${from} (${query}) → ${to} (${key})` : `${from}${page.between}${to}`;
}

/** "A 0.123, B 0.234, B − A +0.111" */
export function joinNumbers(numbers, between) {
  return numbers.map((number, panel) => `${page.panels[panel].name} ${number}`).join(between);
}

/** Return the status line: "layer 4 · head 7 · 0.431 of the weight moved". */
export function heading() {
  const head = OF_RECORDS ? [`layer ${state.layer}`, `head ${state.head}`, `${movedOf(state.layer, state.head).toFixed(3)} of the weight moved`] : [page.heading];
  const filters = state.special ? [] : ["without special tokens"];
  const hidden = maps()?.panels.some((panel) => panel.hidden) ? ["hatched: hidden"] : [];
  return [...head, ...filters, ...hidden].join(" · ");
}

/** Return the status line as a sentence. */
export function describeMaps() {
  if (!OF_RECORDS) return page.says;
  const kinds = page.texts.map((text, number) => `${page.panels[number].name}: ${kind(state.layer, state.head, number, text.masks[0].name)}`);
  return `Layer ${state.layer}, head ${state.head}: ${movedOf(state.layer, state.head).toFixed(3)} of the weight moved; ${kinds.join(", ")}.`;
}
