// What every map of cells has: how large a cell may be, labels along its sides, and its cells as shapes of their own.

import { rgb } from "./colour.js";
import { cut } from "./paint.js";
import { isHidden } from "./units.js";

export const SMALLEST_CELL = 1; // pixels
export const LARGEST_CELL = 80;
export const MOST_SHAPES = 4096; // cells of a map that a saved picture has as shapes
const GAP = 6;
const SIZE = 12;
const READABLE = 12; // pixels from one label to the next

/**
 * Labels along a side of a map, as many as have room, and the marked one whatever room there is.
 * side: `{upright, first, cell, start, length, before, edge, room}`. Along it the first cell begins at `first`, and so much
 * is seen from `start` on; a label may begin so much before. Across it labels end at `edge` and have `room`.
 */
export function drawLabels(painter, texts, units, marked, { upright, first, cell, start, length, before, edge, room }, colours) {
  const write = (number, bold) => {
    const along = first + (number + 0.5) * cell;
    if (along < start - before || along > start + length) return;
    const text = cut(texts[number], SIZE, room - 2 * GAP);
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
 * The cells of a map from (x, y) on, each in its colour [red, green, blue], as shapes that stand for `data` and, under
 * this name, for their number.
 */
export function drawShapes(painter, values, { queries, keys, x, y, cell }, colourOf, name, data = {}) {
  values.forEach((number, place) => {
    const [query, key] = [Math.floor(place / keys.length), place % keys.length];
    const stands = { ...data, query: queries[query].members[0], key: keys[key].members[0] };
    painter.rect(x + key * cell, y + query * cell, cell + 0.3, cell + 0.3, isHidden(number)
      ? { data: { ...stands, hidden: true } }
      : { fill: rgb(colourOf(number)), data: { ...stands, [name]: Number(number.toPrecision(6)) } });
  });
}
