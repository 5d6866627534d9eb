// One head as a heat map in a box. Labels stay at the edges of the box while the cells move under them.

import { pointAway } from "./away.js";
import { drawLabels, drawShapes, LARGEST_CELL, MOST_SHAPES } from "./cells.js";
import { inkOn, pixelOf, pixelTable, shareColour } from "./colour.js";
import { drawCaption, picture, textWidth } from "./paint.js";
import { partnersOf, strongest } from "./partners.js";
import { drawBar, largestOf, shareOf } from "./scale.js";
import { state } from "./state.js";
import { axes, beginsText, isHidden, placeOf, pooled, shownWeights, unitOf } from "./units.js";
import { brief, isolate, value } from "./captions.js";
import { hasFullMap } from "./data.js";

const CAPTION = 26;
const GAP = 6;
const SIZE = 12;
const ROOM_FOR_BAR = 220;
const NUMBERED = 36; // minimum size of a cell, in pixels, that shows its weight
export const MARGIN = GAP; // pixels to the right of a map and below it

let drawn = { name: "", image: null, largest: 1, hidden: false };

/** Lay out a map in a box of this size: the width of labels, the start of its cells, and the side of a cell if all fit. */
export function layout(width, height) {
  const both = axes();
  const widest = Math.max(20, ...both.queries.concat(both.keys).map((unit) => textWidth(unit.label, SIZE, true)));
  const label = Math.min(widest, 120, width * 0.25) + 2 * GAP;
  const top = CAPTION + label;
  const fit = Math.min((width - label - GAP) / both.keys.length, (height - top - GAP) / both.queries.length);
  return { ...both, label, top, cell: Math.min(Math.max(fit, 0), LARGEST_CELL) };
}

/** Return the cell at a point, `{query, key}`, or the query or key whose label is there. `seen`: the scroll position. */
export function at(x, y, { queries, keys, label, top, cell }, seen) {
  const [row, column] = [Math.floor((y - top) / cell), Math.floor((x - label) / cell)];
  const query = y - seen.y > top ? queries[row] : undefined;
  const key = x - seen.x > label ? keys[column] : undefined;
  if (query && key) return { query: query.members[0], key: key.members[0] };
  if (query && x - seen.x <= label) return { query: query.members[0] };
  return key && y - seen.y <= top ? { key: key.members[0] } : null;
}

/**
 * Draw the map of a head into a box with the layout `laid`. `of`: the head, by default the selected one. `origin`: the upper
 * left corner of the map, which may lie outside the box. Return false if the map is not decoded yet.
 */
export function drawMap(painter, box, origin, laid, { said, pointed, of = state }, colours, dark) {
  const { queries, keys, label, top, cell } = laid;
  const weights = shownWeights(queries, keys, of.layer, of.head);
  if (weights === null) return false;
  const { image, largest, hidden } = mapImage(of, weights, queries.length, keys.length, cell, dark);
  const [first, highest] = [origin.x + label, origin.y + top]; // the first cell
  const [left, upper] = [box.x + label, box.y + top]; // the corner of the part in which cells are visible
  const [wide, high] = [keys.length * cell, queries.length * cell];

  painter.clip(left - 1, upper - 1, box.width - label + 1, box.height - top + 1);
  if (hidden) painter.hatch(first, highest, wide, high, colours);
  const whole = hasFullMap(of.layer, of.head);
  if (whole && painter.vector && weights.length <= MOST_SHAPES) drawShapes(painter, weights, { queries, keys, x: first, y: highest, cell }, colourOf, "weight");
  else painter.image(image, first, highest, wide, high);
  if (whole && cell >= NUMBERED) drawNumbers();
  painter.rect(first, highest, wide, high, { stroke: colours.edge }); // a weight of 0 may have the colour of the paper
  drawBorders();
  const row = placeOf(queries, pointed?.query ?? (state.side === "query" ? state.token : null));
  const column = placeOf(keys, pointed?.key ?? (state.side === "key" ? state.token : null));
  const thick = Math.max(cell, 2);
  if (row >= 0) frame(first, highest + row * cell, wide, thick, pointed?.query !== undefined);
  if (column >= 0) frame(first + column * cell, highest, thick, high, pointed?.key !== undefined);
  painter.endClip();

  const side = { cell, before: cell / 2, room: label };
  const upright = { ...side, upright: true, first, start: left, length: box.width - label, edge: upper };
  drawLabels(painter, queries.map(({ label }) => label), queries, row, { ...side, first: highest, start: upper, length: box.height - top, edge: left }, colours);
  drawLabels(painter, keys.map(({ label }) => label), keys, column, upright, colours);
  const right = Math.max(first + wide, box.x + textWidth(said, SIZE) + ROOM_FOR_BAR); // to the right of the map, if the box is wider
  const end = drawBar(painter, Math.min(right, box.x + box.width - GAP), box.y + 3, { largest, hidden }, colours, dark);
  drawCaption(painter, said, box.x + GAP, box.y + 13, end - box.x - 2 * GAP, colours.faint);
  const [best] = whole && of === state && state.token !== null ? strongest(partnersOf(state, [of.head]) ?? [], 1) : [];
  if (best) {
    const middle = (start, place) => start + (place + 0.5) * cell;
    const [x, y] = state.side === "query" ? [best.place, row] : [column, best.place];
    const seen = { left, right: box.x + box.width, top: upper, bottom: box.y + box.height };
    pointAway(painter, seen, middle(first, x), middle(highest, y), best, colours);
  }
  return true;

  /** Draw lines where a second text begins. */
  function drawBorders() {
    for (const [units, side] of [[queries, "query"], [keys, "key"]]) {
      units.forEach((_, place) => {
        if (!beginsText(units, place, side)) return;
        const [x1, y1, x2, y2] = side === "query" ? [first, highest + place * cell, first + wide, highest + place * cell] : [first + place * cell, highest, first + place * cell, highest + high];
        painter.line(x1, y1, x2, y2, { stroke: colours.paper, lineWidth: 3 });
        painter.line(x1, y1, x2, y2, { stroke: colours.ink, data: { border: side } });
      });
    }
  }

  /** Frame a row or a column, visibly on any colour. A frame under the pointer has another colour than a held one. */
  function frame(x, y, width, height, under) {
    const lineWidth = cell < 6 ? 1 : 2;
    painter.rect(x, y, width, height, { stroke: colours.paper, lineWidth: lineWidth + 2 });
    painter.rect(x, y, width, height, { stroke: under ? colours.ink : colours.accent, lineWidth });
  }

  function drawNumbers() {
    queries.forEach((_, query) => {
      const y = highest + (query + 0.5) * cell;
      if (y < upper || y > box.y + box.height) return;
      keys.forEach((__, key) => {
        const x = first + (key + 0.5) * cell;
        const weight = weights[query * keys.length + key];
        if (x < left || x > box.x + box.width || !(weight >= state.threshold)) return; // false for a hidden weight (NaN)
        painter.text(brief(weight), x, y, { fill: inkOn(colourOf(weight)), size: 11, align: "center" });
      });
    });
  }

  function colourOf(weight) {
    return shareColour(shareOf(weight, largest), dark);
  }
}

/** Return the map as a picture, one pixel per cell. If cells are smaller than a pixel, a pixel is the largest of several. */
function mapImage({ layer, head }, weights, rows, columns, cell, dark) {
  const most = cell < 1 ? Math.max(1, Math.floor(cell * Math.min(rows, columns))) : Infinity;
  const name = [state.text, state.mask, layer, head, state.special, state.segments, state.words, state.threshold, state.scale, most, dark].join();
  if (drawn.name !== name) {
    const largest = largestOf(weights);
    const table = pixelTable(dark);
    const shown = most < Infinity ? pooled(weights, rows, columns, most) : { weights, rows, columns };
    const pixels = Uint32Array.from(shown.weights, (weight) => pixelOf(table, shareOf(weight, largest)));
    drawn = { name, image: picture(pixels, shown.rows, shown.columns), largest, hidden: weights.some(isHidden) };
  }
  return drawn;
}

/** Return the tooltip of a cell, or of a token along a side. */
export function tip({ query, key }) {
  if (query === undefined) return `key ${key}: ${isolate(unitOf(key, "key").label)}`;
  if (key === undefined) return `query ${query}: ${isolate(unitOf(query, "query").label)}`;
  const { queries, keys } = axes();
  const [row, column] = [placeOf(queries, query), placeOf(keys, key)];
  const weights = shownWeights(queries, keys, state.layer, state.head);
  if (weights === null) return "";
  const most = hasFullMap(state.layer, state.head) ? "" : "at most ";
  const weight = weights[row * keys.length + column];
  const said = isHidden(weight) ? "hidden" : most + value(weight);
  return `${isolate(queries[row].label)} (${query}) → ${isolate(keys[column].label)} (${key}): ${said}`;
}
