// Matrix: one head as a heat map. Labels stay at the edges while the cells move under them.

import { pointAway } from "./away.js";
import { inkOn, pixelOf, pixelTable, rgb, shareColour } from "./colour.js";
import { cut, picture, textWidth } from "./paint.js";
import { partnersOf, strongest } from "./partners.js";
import { state } from "./state.js";
import { axes, isHidden, placeOf, shownWeights, unitOf } from "./units.js";
import { caption, isolated, kind, pooling, value } from "./captions.js";
import { isWhole } from "./data.js";

const CAPTION = 26;
const GAP = 6;
const SIZE = 12;
const BAR = 70; // the colour bar
const SAMPLE = 74; // how what is hidden looks
const READABLE = 12; // pixels from one label to the next
const NUMBERED = 36; // a cell with its weight in it
export const SMALLEST_CELL = 1;
export const LARGEST_CELL = 80;

let drawn = { name: "", image: null, top: 1 };

function layout(width, height) {
  const both = axes();
  const widest = Math.max(20, ...both.queries.concat(both.keys).map((unit) => textWidth(unit.label, SIZE)));
  const label = Math.min(widest, 120, width * 0.25) + 2 * GAP;
  const top = CAPTION + label;
  const fit = Math.min((width - label - GAP) / both.keys.length, (height - top - GAP) / both.queries.length);
  const cell = state.cell || Math.min(Math.max(fit, SMALLEST_CELL), LARGEST_CELL);
  return { ...both, label, top, cell };
}

export function measure(width, height) {
  const { queries, keys, label, top, cell } = layout(width, height);
  return { width: Math.max(width, label + keys.length * cell + GAP), height: top + queries.length * cell + GAP };
}

/** The side of a cell now, and where the cells begin: what zooming has to know. */
export function grid(width, height) {
  const { label, top, cell } = layout(width, height);
  return { left: label, top, cell };
}

export function at(x, y, width, height, area) {
  const { queries, keys, label, top, cell } = layout(width, height);
  const [row, column] = [Math.floor((y - top) / cell), Math.floor((x - label) / cell)];
  const query = y - area.y > top ? queries[row] : undefined;
  const key = x - area.x > label ? keys[column] : undefined;
  if (query && key) return { query: query.members[0], key: key.members[0] };
  if (query && x - area.x <= label) return { query: query.members[0] };
  return key && y - area.y <= top ? { key: key.members[0] } : null;
}

export function draw(painter, area, pointed, colours, dark) {
  const { queries, keys, label, top, cell } = layout(area.width, area.height);
  const weights = shownWeights(queries, keys, state.layer, state.head);
  if (weights === null) return false;
  const { image, largest, hidden } = mapImage(weights, queries.length, keys.length, dark);
  const [left, upper] = [area.x + label, area.y + top]; // where cells come out from under the labels

  painter.clip(left, upper, area.width - label, area.height - top);
  if (hidden) painter.hatch(label, top, keys.length * cell, queries.length * cell, colours);
  const whole = isWhole(state.layer, state.head);
  if (whole && painter.vector && queries.length * keys.length <= 4096) drawCells();
  else painter.image(image, label, top, keys.length * cell, queries.length * cell);
  if (whole && cell >= NUMBERED) drawNumbers();
  const row = placeOf(queries, pointed?.query ?? (state.side === "query" ? state.token : null));
  const column = placeOf(keys, pointed?.key ?? (state.side === "key" ? state.token : null));
  const lineWidth = cell < 6 ? 1 : 2;
  const thick = Math.max(cell, 2);
  if (row >= 0) painter.rect(label, top + row * cell, keys.length * cell, thick, { stroke: colours.accent, lineWidth });
  if (column >= 0) painter.rect(label + column * cell, top, thick, queries.length * cell, { stroke: colours.accent, lineWidth });
  painter.endClip();

  drawLabels(queries, row, false);
  drawLabels(keys, column, true);
  const said = caption(`layer ${state.layer}`, `head ${state.head}`, kind(state.layer, state.head), pooling(state.layer, state.head));
  painter.text(cut(said, SIZE, area.width - BAR - 90 - (hidden ? SAMPLE : 0)), area.x + GAP, area.y + 13, { fill: colours.faint, size: SIZE });
  drawBar();
  if (whole) pointToPartner();
  return true;

  /** The strongest partner of the token that is held, where it is out of sight. */
  function pointToPartner() {
    const [best] = state.token === null ? [] : strongest(partnersOf(state, [state.head]) ?? [], 1);
    const middle = (start, place) => start + (place + 0.5) * cell;
    const [x, y] = state.side === "query" ? [best?.place, row] : [column, best?.place];
    const seen = { left, right: area.x + area.width, top: upper, bottom: area.y + area.height };
    if (best) pointAway(painter, seen, middle(label, x), middle(top, y), best, colours);
  }

  function drawCells() {
    for (let place = 0; place < weights.length; place++) {
      const [query, key] = [Math.floor(place / keys.length), place % keys.length];
      const data = { query: queries[query].members[0], key: keys[key].members[0] };
      painter.rect(label + key * cell, top + query * cell, cell + 0.3, cell + 0.3, isHidden(weights[place])
        ? { data: { ...data, hidden: true } }
        : { fill: rgb(colourOf(weights[place])), data: { ...data, weight: Number(weights[place].toPrecision(6)) } });
    }
  }

  function drawNumbers() {
    queries.forEach((_, query) => {
      const y = top + (query + 0.5) * cell;
      if (y < upper || y > area.y + area.height) return;
      keys.forEach((__, key) => {
        const x = label + (key + 0.5) * cell;
        const weight = weights[query * keys.length + key];
        if (x < left || x > area.x + area.width || !(weight >= Math.max(0.005, state.threshold))) return; // which NaN is not
        painter.text(weight.toFixed(2), x, y, { fill: inkOn(colourOf(weight)), size: 11, align: "center" });
      });
    });
  }

  function colourOf(weight) {
    return shareColour(weight < state.threshold ? 0 : Math.min(weight / largest, 1), dark);
  }

  /** Every label that has room, and the one that is pointed at whatever room there is. */
  function drawLabels(units, marked, upright) {
    const step = Math.max(1, Math.ceil(READABLE / cell));
    const side = upright ? area.x + area.width : area.y + area.height;
    const start = upright ? left : upper;
    const write = (number, bold) => {
      const along = (upright ? label : top) + (number + 0.5) * cell;
      if (along < start - cell / 2 || along > side) return;
      const text = cut(units[number].label, SIZE, label - 2 * GAP);
      const fill = units[number].special && !bold ? colours.faint : colours.ink;
      const [x, y] = upright ? [along, area.y + top - GAP] : [area.x + label - GAP, along];
      if (bold && upright) painter.rect(x - READABLE / 2, area.y + CAPTION, READABLE, label, { fill: colours.mark });
      if (bold && !upright) painter.rect(area.x, y - READABLE / 2, label, READABLE, { fill: colours.mark });
      painter.text(text, x, y, { fill, size: SIZE, align: upright ? "left" : "right", bold, turn: upright ? -90 : 0 });
    };
    if (upright) painter.clip(left - READABLE / 2, area.y + CAPTION, area.width - label, label);
    else painter.clip(area.x, upper - READABLE / 2, label, area.height - top);
    for (let number = 0; number < units.length; number += step) if (Math.abs(number - marked) * cell >= READABLE || marked < 0) write(number, false);
    if (marked >= 0) write(marked, true);
    painter.endClip();
  }

  function drawBar() {
    const [x, y] = [area.x + area.width - BAR - 44, area.y + 8];
    for (let step = 0; step < BAR; step += 2) painter.rect(x + step, y, 2.3, 10, { fill: rgb(shareColour(step / BAR, dark)) });
    painter.text("0", x - 4, y + 5, { fill: colours.faint, size: 11, align: "right" });
    painter.text(value(largest), x + BAR + 4, y + 5, { fill: colours.faint, size: 11 });
    if (!hidden) return;
    painter.hatch(x - SAMPLE, y, 14, 10, colours);
    painter.text("hidden", x - SAMPLE + 18, y + 5, { fill: colours.faint, size: 11 });
  }
}

/** The map as a picture, a pixel a cell, from nothing to the largest weight in it. */
function mapImage(weights, rows, columns, dark) {
  const name = [state.text, state.mask, state.layer, state.head, state.special, state.segments, state.words, state.threshold, dark].join();
  if (drawn.name !== name) {
    const largest = weights.reduce((most, weight) => (weight > most ? weight : most), 0) || 1;
    const table = pixelTable(dark);
    const pixels = Uint32Array.from(weights, (weight) => pixelOf(table, weight < state.threshold ? 0 : weight / largest));
    drawn = { name, image: picture(pixels, rows, columns), largest, hidden: weights.some(isHidden) };
  }
  return drawn;
}

export function tip({ query, key }) {
  if (query === undefined) return `key ${key}: ${isolated(unitOf(key, "key").label)}`;
  if (key === undefined) return `query ${query}: ${isolated(unitOf(query, "query").label)}`;
  const { queries, keys } = axes();
  const [row, column] = [placeOf(queries, query), placeOf(keys, key)];
  const weights = shownWeights(queries, keys, state.layer, state.head);
  if (weights === null) return "";
  const most = isWhole(state.layer, state.head) ? "" : "at most ";
  const weight = weights[row * keys.length + column];
  const said = isHidden(weight) ? "hidden" : most + value(weight);
  return `${isolated(queries[row].label)} (${query}) → ${isolated(keys[column].label)} (${key}): ${said}`;
}
