// The parts that all maps share: sizes of cells, labels along the sides, and cells as separate shapes.

import { rgb } from "./colour.js";
import { cut } from "./paint.js";
import { isHidden } from "./units.js";

export const SMALLEST_CELL = 1; // pixels
export const LARGEST_CELL = 80;
export const MOST_SHAPES = 4096; // cells: a saved picture of a larger map has pixels instead of shapes
const GAP = 6;
const SIZE = 12;
const READABLE = 12; // pixels from one label to the next, at least

/**
 * Draw labels along a side of a map, as many as fit, and always the marked one.
 *
 * side: `{upright, first, cell, start, length, before, edge, room}`. Along the side, the first cell begins at `first`, and
 * `length` pixels are visible from `start` on. A label may begin `before` pixels earlier. Across the side, labels end at
 * `edge` and have `room` pixels.
 */
export function drawLabels(painter, texts, units, marked, { upright, first, cell, start, length, before, edge, room }, colours) {
  const write = (number, bold) => {
    const along = first + (number + 0.5) * cell;
    if (along < start - before || along > start + length) return;
    const text = cut(texts[number], SIZE, room - 2 * GAP, bold);
    const fill = units[number].special && !bold ? colours.faint : colours.ink;
    const [x, y] = upright ? [along, edge - GAP] : [edge - GAP, along];
    if (bold && upright) painter.rect(x - READABLE / 2, edge - room, READABLE, room, { fill: colours.mark });
    if (bold && !upright) painter.rect(edge - room, y - READABLE / 2, room, READABLE, { fill: colours.mark });
    painter.text(text, x, y, { fill, size: SIZE, align: upright ? "left" : "right", bold, turn: upright ? -90 : 0 });
  };
  if (upright) painter.clip(start - GAP, edge - room, length + 2 * GAP, room);
  else painter.clip(edge - room, start - GAP, room, length + 2 * GAP);
  const step = Math.max(1, Math.ceil(READABLE / cell));
  for (let number = 0; number < units.length; number += step) if (marked < 0 || Math.abs(number - marked) * cell >= READABLE) write(number, false);
  if (marked >= 0) write(marked, true);
  painter.endClip();
}

/**
 * Draw the cells of a map as shapes, from (x, y) on. `colourOf(number)` returns [red, green, blue]. Each shape holds `data`,
 * its query and key, and its number under `name`.
 */
export function drawShapes(painter, values, { queries, keys, x, y, cell }, colourOf, name, data = {}) {
  values.forEach((number, place) => {
    const [query, key] = [Math.floor(place / keys.length), place % keys.length];
    const stands = { ...data, query: queries[query].members[0], key: keys[key].members[0] };
    const [wide, high] = [key + 1 < keys.length, query + 1 < queries.length].map((isInner) => cell + (isInner ? 0.3 : 0)); // no gaps
    painter.rect(x + key * cell, y + query * cell, wide, high, isHidden(number)
      ? { data: { ...stands, hidden: true } }
      : { fill: rgb(colourOf(number)), data: { ...stands, [name]: Number(number.toPrecision(6)) } });
  });
}
