// Heads: a column of queries, a column of keys, and a line for every weight. A larger weight is more opaque. The tokens at
// the other ends of a token's lines are its partners.

import { pointAway } from "./away.js";
import { headColour, headDash } from "./colour.js";
import { headsOf, page, fullHeads } from "./data.js";
import { drawnHeads, linesOf } from "./lines.js";
import { cut, drawCaption, SEPARATOR, textWidth } from "./paint.js";
import { partnersOf, strongest } from "./partners.js";
import { state } from "./state.js";
import { within } from "./stepping.js";
import { axes, beginsText, placeOf, unitOf } from "./units.js";
import { opacityOf, describeOpacity } from "./scale.js";
import { caption, hatching, headName, isolate, layerName, value } from "./captions.js";

const TOP = 62; // pixels for the caption, the share of the drawn lines, and headings
const [ROW, TALLEST] = [20, 36]; // smallest and largest height of a row, which grows with the viewport
const [SIZE, LARGEST] = [13, 18];
const GAP = 6;
const LABELS = 0.3; // share of the viewport's width for the labels of one side and a value
const [STRIP, WIDEST_STRIP, STRIPS] = [2, 20, 0.07]; // smallest and largest width of a head's strip beside a partner, and the viewport's share for all strips
const MOST_VALUES = 3; // weights that fit beside a partner, at most; with more heads only the largest is shown
const MOST_DASHED = 300; // lines: more dashed lines are unreadable and slow to draw
const [SHORTEST, LONGEST, SLOPE] = [60, 460, 0.5]; // smallest and largest width of the column of lines, and its width divided by the height of the rows

/** Return the size of the whole drawing in pixels, for a viewport of this size. */
export function measure(width, height) {
  const both = axes();
  return { width, height: TOP + rowHeight(both, height) * rowCount(both) + GAP };
}

/** Return the start and height of rows, for scrolling. */
export function grid(width, height) {
  return { left: 0, top: TOP, cell: rowHeight(axes(), height) };
}

function rowCount({ queries, keys }) {
  return Math.max(queries.length, keys.length);
}

function rowHeight(both, height) {
  return within((height - TOP - GAP) / rowCount(both), ROW, TALLEST);
}

/** Lay out the columns. The layout does not depend on the selected heads, so that selecting others moves nothing. */
function layout(both, width, height) {
  const row = rowHeight(both, height);
  const size = within(Math.min(0.55 * row, width / 40), SIZE, LARGEST);
  const strips = within(STRIPS * width, STRIP * page.heads.length, WIDEST_STRIP * page.heads.length);
  const one = textWidth("0.00000", size - 1) + 2 * GAP;
  const most = Math.max(40, LABELS * width - one);
  const [left, right] = [both.queries, both.keys].map((units) => Math.min(most, Math.max(0, ...units.map((unit) => textWidth(unit.label, size, true)))));
  const room = width - left - right - 2 * (strips + 4 * GAP); // for the lines, and for values on both sides
  const wished = within(SLOPE * Math.min(height - TOP, row * rowCount(both)), 2 * SHORTEST, LONGEST);
  const values = one * within(Math.floor((room - wished) / (2 * one)), 1, MOST_VALUES);
  const lines = Math.max(SHORTEST, Math.min(room - 2 * values, wished));
  const beside = strips + values + 3 * GAP; // width outside of a column of labels
  const from = Math.max(0, (room - 2 * values - lines) / 2) + beside + left + GAP;
  return { row, size, strips, one, values, left, right, beside, from, to: from + lines, middle: (place) => TOP + (place + 0.5) * row };
}

/** Return the token under a point, `{token, side}`, or null. */
export function at(x, y, width, height, area) {
  const both = axes();
  const place = layout(both, width, height);
  const side = x < place.from ? "query" : x > place.to ? "key" : null;
  const unit = side && y - area.y > TOP && (side === "query" ? both.queries : both.keys)[Math.floor((y - TOP) / place.row)];
  const inside = x > place.from - place.left - place.beside && x < place.to + place.right + place.beside;
  return unit && inside ? { token: unit.members[0], side } : null;
}

let shareText = ""; // the result of describeShare in the last drawing

/** Return the share of the weight on the drawn lines, in words; "" if there are none. */
export function lastShare() {
  return shareText;
}

/** Draw the part in `area`. Return false if some data is not decoded yet. */
export function draw(painter, area, pointed, colours) {
  const both = axes();
  const window = area.window ?? area; // a saved drawing keeps the layout of its viewport
  const place = layout(both, window.width, window.height);
  const chosen = choice(both, pointed);
  const rows = [area.y, area.y + area.height - TOP].map((y) => within(Math.round(y / place.row), 0, rowCount(both)));
  const found = linesOf(both, rows, chosen);
  if (found === null) return false;
  shareText = describeShare(found, chosen, rows[1] - rows[0] < both.queries.length);
  drawBorders(painter, area, place, both, colours);
  const partners = chosen ? (partnersOf(chosen, drawnHeads()) ?? []) : [];
  drawLines(painter, place, both, found, chosen);
  const shown = partners.filter((one) => Math.abs(place.middle(one.place) - area.y - area.height / 2) < area.height / 2 + place.row);
  drawPartners(painter, place, shown, chosen?.side, found.largest, colours);
  drawLabels(painter, area, place, both.queries, "query", chosen, colours);
  drawLabels(painter, area, place, both.keys, "key", chosen, colours);
  const [best] = strongest(partners, 1);
  const seen = { left: area.x, right: place.from - GAP, top: area.y + TOP, bottom: area.y + area.height };
  if (chosen?.side === "query") [seen.left, seen.right] = [place.to + GAP, area.x + area.width];
  if (best) pointAway(painter, seen, chosen.side === "query" ? seen.left : seen.right, place.middle(best.place), best, colours);
  drawHeader(painter, area, place, found, chosen, colours);
  return true;
}

/** Return the token whose lines are drawn: the one under the pointer, or the held one, `{token, side, place}`. Null means all lines. */
function choice({ queries, keys }, pointed) {
  const { token, side } = pointed ?? state;
  const place = placeOf(side === "query" ? queries : keys, token);
  return place < 0 ? null : { token, side, place };
}

function describeShare({ lines, count, share }, chosen, scrolled) {
  if (Number.isNaN(share)) return "";
  const which = lines.length < count ? `the strongest ${lines.length} of ${count} lines` : "drawn lines";
  const whose = chosen ? `the ${chosen.side === "query" ? "row" : "column"}'s weight` : scrolled ? "the weight of the visible rows" : "the weight";
  return `${which} carry ${share < 1 ? `${Math.min(100 * share, 99.9).toPrecision(3)} %` : "all"} of ${whose}`;
}

function drawLines(painter, { row, from, to, middle }, { queries, keys }, { lines }, chosen) {
  const isDashed = lines.length <= MOST_DASHED;
  const apart = Math.min(2, (row * 0.7) / state.heads.length);
  for (const { query, key, head, weight, opacity } of lines) {
    const shift = (state.heads.indexOf(head) - (state.heads.length - 1) / 2) * apart;
    painter.line(from, middle(query) + shift, to, middle(key) + shift, {
      stroke: headColour(head),
      alpha: opacity,
      lineWidth: chosen ? 2.5 : 1.8,
      dash: isDashed ? headDash(head) : [],
      data: { layer: state.layer, head, query: queries[query].members[0], key: keys[key].members[0], weight: Number(weight.toPrecision(6)) },
    });
  }
}

/** Draw a strip per head beside each partner, and its weights: one per head, or only the largest. Hatch hidden partners. */
function drawPartners(painter, place, partners, side, largest, colours) {
  const { row, size, strips, one, values, left, right, from, to, middle } = place;
  const [sign, align] = side === "query" ? [1, "left"] : [-1, "right"];
  const edge = side === "query" ? to + 2 * GAP + right : from - 2 * GAP - left; // the inner edge of the strips
  const rect = (x, y, width, height, look) => painter.rect(sign > 0 ? x : x - width, y, width, height, look);
  for (const partner of partners) {
    const y = middle(partner.place);
    const strip = Math.min(WIDEST_STRIP, strips / partner.values.length);
    const wide = strip * partner.values.length;
    if (partner.hidden) painter.hatch(sign > 0 ? edge : edge - wide, y - row / 2, wide, row, colours);
    if (!(partner.best.weight > 0 && partner.best.weight >= state.threshold)) continue;
    partner.values.forEach(({ head, weight }, number) => {
      if (!(weight >= state.threshold)) return; // false for a hidden weight (NaN)
      const data = { head, token: partner.token, weight: Number(weight.toPrecision(6)) };
      rect(edge + sign * strip * number, y - row / 2 + 1, strip, row - 2, { fill: headColour(head), alpha: opacityOf(weight, largest), data });
    });
    const written = one * partner.values.length > values ? [partner.best] : partner.values;
    written.forEach(({ head, weight }, number) => {
      const x = edge + sign * (wide + GAP + one * number);
      rect(x, y - row / 4, 3, row / 2, { fill: headColour(head) });
      painter.text(value(weight), x + sign * GAP, y, { fill: colours.ink, size: size - 1, align });
    });
  }
}

/** Draw a line where a second text begins. */
function drawBorders(painter, { y, height }, { row, left, right, from, to, middle }, { queries, keys }, colours) {
  for (const [units, side, start, end] of [[queries, "query", from - GAP - left, from], [keys, "key", to, to + GAP + right]]) {
    units.forEach((_, place) => {
      const at = middle(place) - row / 2;
      if (beginsText(units, place, side) && at > y && at < y + height) painter.line(start, at, end, at, { stroke: colours.ink, data: { border: side } });
    });
  }
}

function drawLabels(painter, { y, height }, { row, size, left, right, from, to, middle }, units, side, chosen, colours) {
  const [x, width, align] = side === "query" ? [from - GAP, left, "right"] : [to + GAP, right, "left"];
  units.forEach((unit, place) => {
    if (middle(place) < y - row || middle(place) > y + height + row) return;
    const bold = chosen?.side === side && place === chosen.place;
    if (bold) {
      const start = align === "right" ? x - width - GAP / 2 : x - GAP / 2;
      painter.rect(start, middle(place) - row / 2, width + GAP, row, { fill: colours.mark, stroke: state.token === chosen.token ? colours.accent : undefined });
    }
    const fill = unit.special && !bold ? colours.faint : colours.ink;
    painter.text(cut(unit.label, size, width, bold), x, middle(place), { fill, size, align, bold });
  });
}

/** Draw the caption and headings, which stay while tokens scroll under them. */
function drawHeader(painter, area, { from, to }, { lines, largest }, chosen, colours) {
  const heads = drawnHeads();
  const others = fullHeads(state.layer).length < headsOf(state.layer).length ? ["heads without lines have only small maps in this page"] : [];
  const scale = lines.length ? describeOpacity(largest) : "";
  const nothing = heads.length ? "" : "no head is on: switch one on above";
  const said = [caption(layerName(), headName(...heads), ...others, chosen ? hatching() : ""), nothing, shareText, scale].filter(Boolean).join(SEPARATOR);
  painter.rect(area.x, area.y, area.width, TOP, { fill: colours.paper });
  drawCaption(painter, said, area.x + GAP, area.y + 24, area.width - 2 * GAP, colours.faint, 3);
  painter.text("query", from - GAP, area.y + TOP - 10, { fill: colours.faint, size: 12, align: "right" });
  painter.text("key", to + GAP, area.y + TOP - 10, { fill: colours.faint, size: 12 });
}

/** Return the tooltip of a token. */
export function tip({ token, side }) {
  return `${side} ${token}: ${isolate(unitOf(token, side).label)}`;
}
