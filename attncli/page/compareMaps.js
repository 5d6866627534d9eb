// Maps of the same size side by side. They scroll and zoom together and share a cursor.

import { drawLabels, drawShapes, MOST_SHAPES, SMALLEST_CELL } from "./cells.js";
import { inkOn, pixelOf, pixelTable, rgb, shareColour } from "./colour.js";
import { brief, isolate, value } from "./captions.js";
import { page } from "./data.js";
import { cut, drawCaption, picture, textWidth } from "./paint.js";
import { cellName, heading, joinNumbers, maps, nameIn, nameOf, numbersAt, OF_RECORDS, signedText } from "./panels.js";
import { drawSign, drawSignedBar, fixed, signedColour, signedPixels } from "./signed.js";
import { change, state } from "./state.js";
import { axes, isHidden, placeOf } from "./units.js";

const CAPTION = 28;
const [TITLE, SCALE] = [18, 18]; // heights of a map's title and of its colour scale, in pixels
const GAP = 6;
const BETWEEN = 14; // pixels from one map to the next
const HEADED = 300; // width of a title in pixels, if its map is narrower
const SIZE = 12;
const SMALL = 11;
const LEAST_SIZE = 9; // smallest font size of a title that would not fit otherwise
const BAR = 70;
const [SIGNED, NUMBERED] = [8, 36]; // minimum size of a cell that shows its sign, and of one that shows its number
const LEAST = 0.005; // a cell shows its number only if the number is at least this share of the largest
const LARGEST_FIT = 44; // maximum size of a cell in pixels, without zooming

let images = { name: "" };

/**
 * Lay out the maps in the viewport, with the number of `columns` that makes them largest. Whatever the zoom, a map keeps its
 * place and is at most `wide` pixels wide. `whole` is the size of a zoomed map, and `seen` the size of its visible part.
 */
function layout(width, height) {
  const { queries, keys } = axes();
  const names = { query: queries.map((unit) => nameOf(unit, "query")), key: keys.map((unit) => nameOf(unit, "key")) };
  const widest = (texts, most) => Math.min(Math.max(20, ...texts.map((text) => textWidth(text, SIZE, true))), most) + 2 * GAP;
  const [label, upright] = [widest(names.query, Math.min(120, width * 0.2)), widest(names.key, Math.min(110, height * 0.14))];
  const above = TITLE + SCALE + upright;
  const fits = page.panels.map((_, last) => {
    const columns = last + 1;
    const rows = Math.ceil(page.panels.length / columns);
    const wide = (width - label - GAP - (columns - 1) * BETWEEN) / columns;
    const high = (height - CAPTION - rows * (above + BETWEEN)) / rows;
    return { columns, wide, high, fit: Math.min(wide / keys.length, high / queries.length, LARGEST_FIT) };
  });
  const { columns, wide, high, fit } = fits.reduce((best, one) => (one.fit >= best.fit ? one : best));
  const cell = state.cell || Math.max(fit, SMALLEST_CELL);
  const whole = { wide: keys.length * cell, high: queries.length * cell };
  const seen = { wide: Math.max(Math.min(wide, whole.wide), cell), high: Math.max(Math.min(high, whole.high), cell) };
  const places = page.panels.map((_, number) => ({
    x: label + (number % columns) * (wide + BETWEEN),
    y: CAPTION + above + Math.floor(number / columns) * (above + high + BETWEEN),
  }));
  return { queries, keys, names, label, upright, cell, whole, seen, wide, places, columns };
}

export function measure(width, height) {
  const { whole, seen } = layout(width, height);
  return { width: width + whole.wide - seen.wide, height: height + whole.high - seen.high };
}

/** Return the size of a cell, and where the cells begin in the map under the point (x, y) of the viewport, or else in the first map. */
export function grid(width, height, x = 0, y = 0) {
  const { cell, places, seen } = layout(width, height);
  const place = places.find((one) => x >= one.x && x < one.x + seen.wide && y >= one.y && y < one.y + seen.high) ?? places[0];
  return { left: place.x, top: place.y, cell };
}

/** Return the cell under a point of the drawing, or the query or key whose label is there. */
export function at(x, y, width, height, area) {
  const { queries, keys, cell, places, seen, label, upright, columns } = layout(width, height);
  const [across, down] = [x - area.x, y - area.y]; // pixels from the viewport's corner
  for (const [number, place] of places.entries()) {
    const inside = [across - place.x, down - place.y];
    const [column, row] = [Math.floor((inside[0] + area.x) / cell), Math.floor((inside[1] + area.y) / cell)];
    const beside = inside[0] >= 0 && inside[0] < seen.wide;
    const level = inside[1] >= 0 && inside[1] < seen.high;
    const [query, key] = [level ? queries[row]?.members[0] : undefined, beside ? keys[column]?.members[0] : undefined];
    if (query !== undefined && key !== undefined) return { query, key };
    if (query !== undefined && number % columns === 0 && across < label) return { query };
    if (key !== undefined && inside[1] < 0 && inside[1] > -upright) return { key };
  }
  return null;
}

/** Scroll to the held cell, in all maps. */
export function reveal(chart) {
  const { queries, keys, cell, seen } = layout(chart.clientWidth, chart.clientHeight);
  const scrolled = (place, start, length) => (place < 0 || (place * cell >= start && (place + 1) * cell <= start + length) ? start : (place + 0.5) * cell - length / 2);
  chart.scrollTo(scrolled(placeOf(keys, state.partner), chart.scrollLeft, seen.wide), scrolled(placeOf(queries, state.token), chart.scrollTop, seen.high));
}

/** Handle a click: hold a cell, a query or a key, or release it. */
export function press({ query = null, key = null }) {
  const again = state.token === query && state.partner === key;
  change(again ? { token: null, partner: null } : { token: query, partner: key });
}

export function draw(painter, area, pointed, colours, dark) {
  const all = maps();
  if (all === null) return false;
  const { queries, keys, names, label, upright, cell, whole, seen, wide, places, columns } = layout(area.width, area.height);
  const pictures = mapImages(all, queries.length, keys.length, dark);
  const cursor = pointed ?? { query: state.token, key: state.partner };
  const [row, column] = [placeOf(queries, cursor.query ?? null), placeOf(keys, cursor.key ?? null)];
  const numbers = numbersAt(cursor.query ?? null, cursor.key ?? null);

  drawCaption(painter, heading(), area.x + GAP, area.y + 14, area.width - 2 * GAP, colours.faint);
  for (const [number, place] of places.entries()) {
    const [left, top] = [area.x + place.x, area.y + place.y];
    const panel = all.panels[number];
    drawHeading(panel, numbers?.[number] ?? "", left, top - upright - SCALE - TITLE);
    drawMap(panel, pictures[number], place, left, top);
    const side = { cell, before: 0 };
    const above = { ...side, upright: true, first: place.x, start: left, length: seen.wide, edge: top, room: upright };
    drawLabels(painter, keys.map((key) => nameIn(number, key, "key")), keys, column, above, colours);
    const beside = { ...side, first: place.y, start: top, length: seen.high, edge: left, room: label };
    if (number % columns === 0) drawLabels(painter, names.query, queries, row, beside, colours);
  }
  return true;

  /** Draw "A · mask padding" and the number of the cell under the pointer. The scale is below, unless a long title moves the number there. */
  function drawHeading({ name, about, signed, most }, shown, x, y) {
    const room = Math.min(wide, Math.max(seen.wide, HEADED));
    const taken = shown ? textWidth(shown, SIZE, true) + GAP : 0;
    const title = [name, about].filter(Boolean).join(" · ");
    const isTight = textWidth(name, SIZE) > room - taken; // then the number replaces the scale
    const fitting = Math.floor((SIZE * room) / textWidth(name, SIZE));
    const size = isTight && fitting >= LEAST_SIZE ? Math.min(fitting, SIZE) : SIZE;
    painter.text(cut(title, size, isTight ? room : room - taken), x, y + TITLE / 2, { fill: colours.ink, size });
    if (shown) painter.text(shown, x + room, y + (isTight ? TITLE + SCALE / 2 - 2 : TITLE / 2), { fill: colours.ink, size: SIZE, bold: true, align: "right" });
    if (isTight && shown) return;
    const [low, high] = signed ? [-most, most].map((end) => signedText(end, most)) : ["0", OF_RECORDS ? value(most) : fixed(most, most)];
    const [before, after] = [low, high].map((text) => textWidth(text, SMALL) + 4);
    const bar = Math.max(10, Math.min(BAR, room - before - after));
    const level = y + TITLE + SCALE / 2 - 2;
    painter.text(low, x, level, { fill: colours.faint, size: SMALL });
    if (signed) drawSignedBar(painter, x + before, level - 5, bar, 10, dark);
    else for (let step = 0; step < bar; step += 2) painter.rect(x + before + step, level - 5, 2.3, 10, { fill: rgb(shareColour(step / bar, dark)) });
    painter.text(high, x + before + bar + 4, level, { fill: colours.faint, size: SMALL });
  }

  function drawMap(panel, image, { x, y }, left, top) {
    const { signed, values, hidden, marked = [] } = panel;
    painter.clip(left, top, seen.wide, seen.high);
    if (hidden) painter.hatch(x, y, whole.wide, whole.high, colours);
    if (painter.vector && values.length <= MOST_SHAPES) drawShapes(painter, values, { queries, keys, x, y, cell }, (number) => colourOf(panel, number), signed ? "change" : "weight", { map: panel.name });
    else painter.image(image, x, y, whole.wide, whole.high);
    if (cell >= NUMBERED || (signed && cell >= SIGNED)) {
      const range = (start, length, count) => [Math.max(0, Math.floor(start / cell)), Math.min(count, Math.ceil((start + length) / cell))];
      const [[first, last], [begin, end]] = [range(area.y, seen.high, queries.length), range(area.x, seen.wide, keys.length)];
      for (let query = first; query < last; query++) {
        for (let key = begin; key < end; key++) drawInside(panel, values[query * keys.length + key], x + key * cell, y + query * cell);
      }
    }
    for (const [query, key] of marked) {
      painter.rect(x + key * cell + 1, y + query * cell + 1, cell - 2, cell - 2, { stroke: colours.plus, lineWidth: cell < 12 ? 1 : 2, data: { marked: panel.name, query, key } });
    }
    const frame = { stroke: colours.accent, lineWidth: cell < 6 ? 1 : 2 };
    const thick = Math.max(cell, 2);
    if (row >= 0) painter.rect(x, y + row * cell, whole.wide, thick, frame);
    if (column >= 0) painter.rect(x + column * cell, y, thick, whole.high, frame);
    painter.endClip();
    painter.rect(left - 0.5, top - 0.5, seen.wide + 1, seen.high + 1, { stroke: colours.edge });
  }

  function colourOf({ signed, most }, number) {
    return (signed ? signedColour : shareColour)(number / most, dark);
  }

  /** Write the number of a cell, or its sign if a signed number has no room. */
  function drawInside(panel, number, x, y) {
    if (isHidden(number)) return;
    if (cell < NUMBERED) drawSign(painter, x, y, cell, number / panel.most, dark);
    else if (Math.abs(number) >= LEAST * panel.most) {
      painter.text(brief(number), x + cell / 2, y + cell / 2, { fill: inkOn(colourOf(panel, number)), size: SMALL, align: "center" });
    }
  }
}

/** Return the maps as pictures, one pixel per cell. */
function mapImages({ name, panels }, rows, columns, dark) {
  const full = `${name} ${dark}`;
  if (images.name !== full) {
    const table = pixelTable(dark);
    const pixels = panels.map(({ signed, values, most }) => {
      if (signed) return signedPixels(values, most, dark);
      const found = new Uint32Array(values.length);
      for (let place = 0; place < values.length; place++) found[place] = pixelOf(table, values[place] / most);
      return found;
    });
    images = { name: full, list: pixels.map((one) => picture(one, rows, columns)) };
  }
  return images.list;
}

export function tip({ query, key }) {
  const { queries, keys } = axes();
  const alone = (side, place, units) => `${OF_RECORDS ? `${side} ${place}: ` : ""}${isolate(nameOf(units[placeOf(units, place)], side))}`;
  if (query === undefined) return alone("key", key, keys);
  if (key === undefined) return alone("query", query, queries);
  const numbers = numbersAt(query, key);
  return numbers ? `${cellName(query, key)}\n${joinNumbers(numbers, " · ")}` : "";
}
