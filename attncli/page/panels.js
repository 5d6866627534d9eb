// The maps of this page, which stand beside each other, and what is said of a cell in all of them: A and B of the head
// that is chosen, and B - A; or maps that the page holds as they are.

import { isolated, kind, value } from "./captions.js";
import { floatsOf, headsOf, page } from "./data.js";
import { signedValue } from "./signed.js";
import { state } from "./state.js";
import { axes, isHidden, placeOf, shownWeights } from "./units.js";

/** Whether this is a page of two records. */
export const OF_RECORDS = page.moved !== undefined;

let found = { name: "" };

/**
 * The maps, `{name, panels}`, each panel `{name, about, signed, values, most, hidden}`: values [query * keys + key], NaN
 * where there are none; the largest in size on its scale, which all signed maps share, and all others, unless maps stand
 * apart; and whether any is hidden. Null if not decoded yet.
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

/** A, B and B - A. What one of the two hides counts as 0 there, which its weight is; hidden is what both hide. */
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

/** A map of the page, of the queries and keys that are left by the filters. */
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

/** The largest size in a map, and whether anything is hidden there. */
function extent(values) {
  let [most, hidden] = [0, false];
  for (let cell = 0; cell < values.length; cell++) {
    if (Math.abs(values[cell]) > most) most = Math.abs(values[cell]);
    hidden ||= isHidden(values[cell]);
  }
  return { most, hidden };
}

/** How much weight moved between A and B in a head, as Python counts it from the whole numbers. */
export function movedOf(layer, head) {
  return page.moved[page.layers.indexOf(layer)][page.heads.indexOf(head)];
}

/** The heads as [layer, head], those that differ most first. */
export function ranked() {
  return page.layers.flatMap((layer) => headsOf(layer).map((head) => [layer, head])).sort((one, other) => movedOf(...other) - movedOf(...one));
}

/** A unit along an axis as it is called in all: "cat", or "cat / dog" where it is another in B. */
export function nameOf(unit, side) {
  const names = page.texts.map((_, number) => nameIn(number, unit, side));
  return [...new Set(names)].join(" / ");
}

/** What a unit is called in one panel. */
export function nameIn(number, unit, side) {
  const text = page.texts[number];
  return text ? ((side === "key" && text.keys) || text).tokens[unit.members[0]] : nameOf(unit, side);
}

/** The numbers of a cell as they are shown, one a panel; null where the filters left it out. */
export function numbersAt(query, key) {
  const { queries, keys } = axes();
  const [row, column] = [placeOf(queries, query), placeOf(keys, key)];
  const all = maps();
  return row < 0 || column < 0 || all === null ? null : all.panels.map((panel) => written(panel, row * keys.length + column));
}

/** A cell's number in a panel as it is shown. */
export function written({ signed, values }, cell) {
  if (isHidden(values[cell])) return "hidden";
  return signed ? signedText(values[cell]) : value(values[cell]);
}

/** A number of a signed panel as it is shown: of records with the digits that are known. */
export function signedText(number) {
  return OF_RECORDS ? signedValue(number, value) : signedValue(number);
}

/** "cat (2) → mat (6)", or as the page joins the two. */
export function cellName(query, key) {
  const { queries, keys } = axes();
  const [from, to] = [nameOf(queries[placeOf(queries, query)], "query"), nameOf(keys[placeOf(keys, key)], "key")].map(isolated);
  return OF_RECORDS ? `${from} (${query}) → ${to} (${key})` : `${from}${page.between}${to}`;
}

/** "A 0.123, B 0.234, B − A +0.111" */
export function listed(numbers, between) {
  return numbers.map((number, panel) => `${page.panels[panel].name} ${number}`).join(between);
}

/** What is seen, in a line: "layer 4 · head 7 · 0.431 of the weight moved". */
export function heading() {
  const head = OF_RECORDS ? [`layer ${state.layer}`, `head ${state.head}`, `${movedOf(state.layer, state.head).toFixed(3)} of the weight moved`] : [page.heading];
  const filters = state.special ? [] : ["without special tokens"];
  const hidden = maps()?.panels.some((panel) => panel.hidden) ? ["hatched: hidden"] : [];
  return [...head, ...filters, ...hidden].join(" · ");
}

/** The same as a sentence. */
export function sentence() {
  if (!OF_RECORDS) return page.says;
  const kinds = page.texts.map((text, number) => `${page.panels[number].name} ${kind(state.layer, state.head, number, text.masks[0].name)}`);
  return `Layer ${state.layer}, head ${state.head}: ${movedOf(state.layer, state.head).toFixed(3)} of the weight moved; ${kinds.join(", ")}.`;
}
