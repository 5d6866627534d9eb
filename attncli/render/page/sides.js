// The two records of this page, A and B: their maps, B - A, and what is said of a cell in all three.

import { isolated, kind, value } from "./captions.js";
import { maskOf, page } from "./data.js";
import { signedValue } from "./signed.js";
import { state } from "./state.js";
import { axes, isHidden, placeOf, shownWeights } from "./units.js";

export const NAMES = ["A", "B", "B − A"];

let found = { name: "" };

/**
 * What is drawn of the head that is chosen: `{a, b, change, most, largest, hidden}`, three maps [query * keys + key] with
 * NaN where a mask hides and whether it does, the largest weight of both, and the largest size of a change; null if not
 * decoded yet.
 * In B - A what one of the two hides counts as 0, which its weight is; hidden is what both hide.
 */
export function maps() {
  const name = [state.layer, state.head, state.special].join();
  if (found.name === name) return found;
  const { queries, keys } = axes();
  const [a, b] = page.texts.map((text, number) => shownWeights(queries, keys, state.layer, state.head, number, text.masks[0].name));
  if (a === null || b === null) return null;
  found = { name, a, b, change: new Float32Array(a.length), most: 0, largest: 0, hidden: [false, false, false] };
  for (let cell = 0; cell < a.length; cell++) {
    const [noA, noB] = [isHidden(a[cell]), isHidden(b[cell])];
    const change = noA && noB ? NaN : (noB ? 0 : b[cell]) - (noA ? 0 : a[cell]);
    found.change[cell] = change;
    if (a[cell] > found.most) found.most = a[cell];
    if (b[cell] > found.most) found.most = b[cell];
    if (Math.abs(change) > found.largest) found.largest = Math.abs(change);
    found.hidden[0] ||= noA;
    found.hidden[1] ||= noB;
    found.hidden[2] ||= noA && noB;
  }
  found.most ||= 1;
  found.largest ||= 1;
  return found;
}

/** How much weight moved between A and B in a head: compare.py has it counted from the whole numbers. */
export function movedOf(layer, head) {
  return page.moved[page.layers.indexOf(layer)][page.heads.indexOf(head)];
}

/** The heads as [layer, head], those that differ most first. */
export function ranked() {
  return page.layers.flatMap((layer) => page.heads.map((head) => [layer, head])).sort((one, other) => movedOf(...other) - movedOf(...one));
}

/** A unit along an axis as it is called in both: "cat", or "cat / dog". */
export function bothNames(unit, side) {
  const { label } = unit;
  const other = nameIn(1, unit, side);
  return label === other ? label : `${label} / ${other}`;
}

/** What a unit is called in A (0) or B (1). */
export function nameIn(number, unit, side) {
  const text = page.texts[number];
  return ((side === "key" && text.keys) || text).tokens[unit.members[0]];
}

/** The three numbers of a cell as they are shown, `[A, B, B - A]`; null where the filters left it out. */
export function numbersAt(query, key) {
  const { queries, keys } = axes();
  const [row, column] = [placeOf(queries, query), placeOf(keys, key)];
  const all = maps();
  if (row < 0 || column < 0 || all === null) return null;
  const cell = row * keys.length + column;
  return written([all.a[cell], all.b[cell], all.change[cell]]);
}

/** A weight of A, one of B and their difference as they are shown. */
export function written(numbers) {
  return numbers.map((number, map) => (isHidden(number) ? "hidden" : [value, value, signedValue][map](number)));
}

/** "cat (2) → mat (6)" */
export function cellName(query, key) {
  const { queries, keys } = axes();
  const [from, to] = [queries[placeOf(queries, query)], keys[placeOf(keys, key)]];
  return `${isolated(bothNames(from, "query"))} (${query}) → ${isolated(bothNames(to, "key"))} (${key})`;
}

/** "A previous 0.78, B broad" */
export function kinds() {
  return page.texts.map((text, number) => `${NAMES[number]} ${kind(state.layer, state.head, number, text.masks[0].name)}`).join(", ");
}

/** Whether a mask hides anything on either side. */
export function hides() {
  return page.texts.some((text, number) => maskOf(number, text.masks[0].name).hides);
}
