// Heads: tokens in two columns, queries left, keys right, and a line for every weight, as opaque as it is large.

import { headColour } from "./colour.js";
import { isWhole, page, wholeHeads } from "./data.js";
import { cut, textWidth } from "./paint.js";
import { state } from "./state.js";
import { axes, isHidden, placeOf, shownWeights, unitOf } from "./units.js";
import { caption, hatching, isolated, numberList, value } from "./captions.js";

const TOP = 46; // caption and headings
const ROW = 20;
const SIZE = 13; // of labels
const GAP = 6;
const VALUE = 50; // width of a column of values
const VALUES = 0.2; // of the width, for the values of each head; where they need more, the largest stands alone
const WIDEST = 460; // of the lines
const LEAST = 1 / 255; // a weight below this is no opacity at all
const MOST_LINES = 2000;

/** The size of the whole drawing, in pixels, where so much can be seen at once. */
export function measure(width) {
  const { queries, keys } = axes();
  return { width, height: TOP + ROW * Math.max(queries.length, keys.length) + GAP };
}

/** The heads that are drawn: those chosen of which the page holds all weights. */
function drawnHeads() {
  return state.heads.filter((head) => isWhole(state.layer, head));
}

function layout({ queries, keys }, width) {
  const widest = (units) => Math.max(0, ...units.map((unit) => textWidth(unit.label, SIZE, true)));
  const each = VALUE * Math.max(1, drawnHeads().length);
  const values = each > VALUES * width ? VALUE : each;
  const most = Math.max(40, width * 0.3 - values);
  const [left, right] = [Math.min(widest(queries), most), Math.min(widest(keys), most)];
  const lines = Math.min(WIDEST, Math.max(60, width - left - right - 2 * (values + 3 * GAP)));
  const start = Math.max(0, (width - lines - left - right - 2 * (values + 3 * GAP)) / 2);
  const from = start + values + 2 * GAP + left + GAP;
  return { left, right, from, to: from + lines, values, outerLeft: from - left - 2 * GAP, outerRight: from + lines + right + 2 * GAP };
}

/** Where rows begin and how high they are: what scrolling has to know. */
export function grid() {
  return { left: 0, top: TOP, cell: ROW };
}

/** What is under a point: a token and its side. */
export function at(x, y, width, height, area) {
  const both = axes();
  const place = layout(both, width);
  const row = Math.floor((y - TOP) / ROW);
  const side = x < place.from ? "query" : x > place.to ? "key" : null;
  const unit = side && y - area.y > TOP && (side === "query" ? both.queries : both.keys)[row];
  const inside = x > place.outerLeft - place.values && x < place.outerRight + place.values;
  return unit && inside ? { token: unit.members[0], side } : null;
}

/** Draw what is in `area`; false if something is not decoded yet. */
export function draw(painter, area, pointed, colours) {
  const { queries, keys } = axes();
  const place = layout({ queries, keys }, area.width);
  const chosen = pointed ?? (state.token === null ? null : state);
  const held = chosen && placeOf(chosen.side === "query" ? queries : keys, chosen.token);
  const found = lines(queries, keys, area, chosen?.side, held);
  if (found === null) return false;

  const middle = (row) => TOP + (row + 0.5) * ROW;
  const shown = found.kept.length < found.count ? [`the strongest ${found.kept.length} of ${found.count} lines`] : [];
  if (chosen && held >= 0) drawValues(painter, place, queries, keys, chosen.side, held, middle, colours);
  for (const { query, key, head, weight } of found.kept) {
    const shift = (state.heads.indexOf(head) - (state.heads.length - 1) / 2) * Math.min(2, (ROW * 0.7) / state.heads.length);
    painter.line(place.from, middle(query) + shift, place.to, middle(key) + shift, {
      stroke: headColour(head),
      alpha: Math.min(weight, 1),
      lineWidth: chosen ? 2.5 : 1.8,
      data: { layer: state.layer, head, query: queries[query].members[0], key: keys[key].members[0], weight: Number(weight.toPrecision(6)) },
    });
  }
  drawLabels(painter, area, queries, "query", place.from - GAP, place.left, "right");
  drawLabels(painter, area, keys, "key", place.to + GAP, place.right, "left");
  drawHeader();
  return true;

  /** Caption and headings stay while tokens move under them. */
  function drawHeader() {
    const others = wholeHeads(state.layer).length < page.heads.length ? ["heads without lines are here small only"] : [];
    const said = caption(`layer ${state.layer}`, `heads ${numberList(drawnHeads()) || "none"}`, ...others, ...shown, chosen && held >= 0 ? hatching() : "");
    painter.rect(area.x, area.y, area.width, TOP, { fill: colours.paper });
    painter.text(cut(said, 12, area.width - 2 * GAP), GAP, area.y + 13, { fill: colours.faint, size: 12 });
    painter.text("query", place.from - GAP, area.y + TOP - 10, { fill: colours.faint, size: 12, align: "right" });
    painter.text("key", place.to + GAP, area.y + TOP - 10, { fill: colours.faint, size: 12 });
  }

  function drawLabels(target, { y, height }, units, side, x, width, align) {
    units.forEach((unit, row) => {
      if (middle(row) < y - ROW || middle(row) > y + height + ROW) return;
      const bold = chosen !== null && chosen.side === side && row === held;
      if (bold) {
        const left = align === "right" ? x - width - GAP / 2 : x - GAP / 2;
        target.rect(left, middle(row) - ROW / 2, width + GAP, ROW, { fill: colours.mark, stroke: state.token === chosen.token ? colours.accent : undefined });
      }
      const fill = unit.special && !bold ? colours.faint : colours.ink;
      target.text(cut(unit.label, SIZE, width), x, middle(row), { fill, size: SIZE, align, bold });
    });
  }
}

/** The lines to draw: `{kept: [{query, key, head, weight}], count}`, or null if maps are not decoded yet. */
function lines(queries, keys, area, side, held) {
  const visible = (row) => TOP + (row + 1) * ROW >= area.y && TOP + row * ROW <= area.y + area.height;
  const seen = keys.map((_, key) => visible(key));
  const [all, none, some] = [[0, keys.length], [0, 0], [Math.max(0, seen.indexOf(true)), seen.lastIndexOf(true) + 1]];
  const columns = queries.map((_, query) => {
    if (side === "query") return query === held ? all : none;
    if (side === "key") return held < 0 ? none : [held, held + 1];
    return visible(query) ? all : some; // a line is seen if one of its ends is
  });
  const least = Math.max(state.threshold, LEAST);
  const found = [];
  for (const head of drawnHeads()) {
    const weights = shownWeights(queries, keys, state.layer, head);
    if (weights === null) return null;
    columns.forEach(([start, end], query) => {
      for (let key = start; key < end; key++) {
        const weight = weights[query * keys.length + key];
        if (weight >= least) found.push({ query, key, head, weight });
      }
    });
  }
  const strongest = found.length <= MOST_LINES ? found : largest(found, MOST_LINES);
  return { kept: strongest.sort((a, b) => a.weight - b.weight), count: found.length };
}

/** The so many lines with the largest weights; of those that are alike at the limit some from everywhere. */
function largest(all, most) {
  const limit = Float32Array.from(all, (line) => line.weight).sort()[all.length - most];
  const [above, alike] = [all.filter((line) => line.weight > limit), all.filter((line) => line.weight === limit)];
  const room = most - above.length;
  return above.concat(Array.from({ length: room }, (_, number) => alike[Math.floor((number * alike.length) / room)]));
}

/** Beside every partner of the held token its weights: of a few heads each, of many the largest; hatched, if hidden. */
function drawValues(painter, place, queries, keys, side, held, middle, colours) {
  const maps = drawnHeads().map((head) => ({ head, weights: shownWeights(queries, keys, state.layer, head) }));
  const partners = side === "query" ? keys : queries;
  partners.forEach((_, row) => {
    const cell = side === "query" ? held * keys.length + row : row * keys.length + held;
    let values = maps.map(({ head, weights }) => ({ head, weight: weights[cell] }));
    const strongest = values.reduce((best, one) => (one.weight > best.weight ? one : best), { weight: 0 });
    if (values.length * VALUE > place.values) values = [strongest];
    const background = side === "query" ? place.to + GAP / 2 : place.outerLeft + GAP / 2;
    const wide = (side === "query" ? place.right : place.left) + GAP;
    if (maps.length && maps.every(({ weights }) => isHidden(weights[cell]))) painter.hatch(background, middle(row) - ROW / 2, wide, ROW, colours);
    if (!(strongest.weight >= Math.max(state.threshold, LEAST))) return;
    const [x, step, align] = side === "query" ? [place.outerRight, VALUE, "left"] : [place.outerLeft, -VALUE, "right"];
    painter.rect(background, middle(row) - ROW / 2, wide, ROW, {
      fill: headColour(strongest.head),
      alpha: Math.min(strongest.weight, 1) * 0.5,
    });
    values.forEach(({ head, weight }, number) => {
      painter.rect(x + step * number + (align === "left" ? 0 : -3), middle(row) - ROW / 4, 3, ROW / 2, { fill: headColour(head) });
      painter.text(value(weight), x + step * number + (align === "left" ? GAP : -GAP), middle(row), { fill: colours.ink, size: 12, align });
    });
  });
}

/** What is said of a point. */
export function tip({ token, side }) {
  return `${side} ${token}: ${isolated(unitOf(token, side).label)}`;
}
