// Neuron: how one query of one head gets its weights, from left to right. Its q is multiplied by the k of every key, element
// by element. The sum of the products is scaled, and positions may add terms: this is the score. Softmax turns scores into
// weights.

import { headName, layerName, caption, isolate } from "./captions.js";
import { hasVectors, maskOf, tokensOf } from "./data.js";
import * as lacking from "./lacking.js";
import { cut, drawCaption, FAINTEST, textWidth } from "./paint.js";
import { difference, scores } from "./scores.js";
import { change, state } from "./state.js";
import { within } from "./stepping.js";
import { axes } from "./units.js";

const CAPTION = 26;
const HEADER = 66; // height of the caption and the headings in pixels
const GAP = 8;
const SIZE = 12;
const [PLAIN, ROTARY] = [20, 30]; // heights of a row; with rotary positions it shows vectors before and after the rotation
const [NARROW, WIDE] = [{ number: 38, bar: 4, lines: 10, value: 48 }, { number: 66, bar: 100, lines: 110, value: 58 }];
const LABELS = { rest: 180, least: 52, most: 110 }; // widths of a label: a quarter of the viewport beyond `rest`, within bounds
const ROOMY = 700; // the width of a viewport from which columns are WIDE
const THICK = 8; // minimum width of an element in pixels, if there is room
const [SHORT, LONG] = [28, 120]; // widths of a short vector in pixels, in a narrow and in a wide viewport
const LEAST = 34; // minimum width of a column of tokens in pixels
const STROKE = 3.5; // width of a line from q to a key in pixels
const ROUNDING = 0.001; // warn of weights that differ from the model's by more than this and the storage error together

/** Return the shown query: the held token, or else the first token that is not special. */
export function shownQuery() {
  const { special } = tokensOf(state.text, "query");
  const other = state.side === "key" && tokensOf(state.text, "key") !== tokensOf(state.text, "query");
  return (other ? null : state.token) ?? Math.max(0, special.indexOf(false));
}

const isStored = () => hasVectors(state.text, state.mask, state.layer, state.head);
const vectors = () => maskOf(state.text, state.mask).vectors;

/** Return the visible tokens along one side. These are tokens even if the page shows words, since a word has no q and k. */
function shown(side) {
  const units = side === "query" ? axes().queries : axes().keys;
  const kept = new Set(units.flatMap((unit) => unit.members));
  return [...tokensOf(state.text, side).tokens.keys()].filter((token) => kept.has(token));
}

const widths = new WeakMap(); // tokens of a text -> the width of the widest

function widestToken(side) {
  const { tokens } = tokensOf(state.text, side);
  if (!widths.has(tokens)) widths.set(tokens, tokens.reduce((most, token) => Math.max(most, textWidth(token, SIZE, true)), LEAST));
  return widths.get(tokens);
}

/** Return where each column starts, from left to right, and the width of an element. */
function layout(width) {
  const { size, terms, rotation } = vectors();
  const { number: least, bar, lines, value } = width < ROOMY ? NARROW : WIDE;
  const widest = within((width - LABELS.rest) / 4, LABELS.least, LABELS.most);
  const [queryLabel, keyLabel] = ["query", "key"].map((side) => Math.min(widest, widestToken(side)) + GAP);
  const names = numberNames(terms);
  const number = Math.max(least, ...names.map((name) => textWidth(name, SIZE, true) + GAP));
  const numbers = names.length;
  const rest = queryLabel + lines + keyLabel + numbers * number + bar + value + 6 * GAP;
  const element = Math.min(Math.max(THICK, LONG / size), Math.max(SHORT / size, (width - rest) / (3 * size)));
  const strip = size * element;
  const q = GAP + queryLabel;
  const key = q + strip + lines;
  const k = key + keyLabel;
  const product = k + strip + GAP;
  const sum = product + strip + number; // numbers are aligned right
  const columns = Array.from({ length: numbers }, (_, place) => sum + place * number);
  const weight = columns.at(-1) + GAP;
  return { size, element, strip, queryLabel, q, key, keyLabel, k, product, columns, weight, bar, end: weight + bar + GAP / 2 + value, row: rotation ? ROTARY : PLAIN };
}

/** Return the start and height of rows, for scrolling. */
export function grid() {
  return { left: 0, top: HEADER, cell: vectors().rotation ? ROTARY : PLAIN };
}

export function measure(width) {
  if (!isStored()) return lacking.measure(width);
  const { row, end } = layout(width);
  return { width: Math.max(width, end), height: HEADER + row * Math.max(shown("query").length, shown("key").length) + GAP };
}

export function at(x, y, width, height, area) {
  if (!isStored()) return lacking.at(x, y, width);
  if (y - area.y <= HEADER) return null;
  const place = layout(width);
  const row = Math.floor((y - HEADER) / place.row);
  if (x < place.q) return shown("query")[row] === undefined ? null : { query: shown("query")[row] };
  const strip = ["q", "k", "product"].find((name) => x >= place[name] && x < place[name] + place.strip);
  const element = strip && Math.floor((x - place[strip]) / place.element);
  if (strip === "q") return row === queryRow(shown("query"), area, place.row) ? { strip, element } : null;
  const key = x < place.key ? undefined : shown("key")[row];
  return key === undefined ? null : { key, strip, element };
}

/** Return the row in which q is drawn: that of its query, or the nearest visible row. */
function queryRow(queries, area, row) {
  const [first, last] = [Math.ceil(area.y / row), Math.floor((area.y + area.height - HEADER) / row) - 1];
  return Math.max(first, Math.min(queries.indexOf(shownQuery()), last));
}

export function draw(painter, area, pointed, colours) {
  if (!isStored()) {
    lacking.draw(painter, area, pointed, colours);
    return true;
  }
  const query = shownQuery();
  const found = scores(query);
  if (found === null) return false;
  const place = layout(area.width);
  const [queries, keys] = [shown("query"), shown("key")];
  const middle = (row) => HEADER + (row + 0.5) * place.row;
  const inSight = (row) => middle(row) > area.y + HEADER - place.row && middle(row) < area.y + area.height + place.row;
  const digits = decimals(found.error);
  const most = { vector: largestOf(found.q, found.key), product: largestOf(found.key.map((one, i) => one * found.q[i % place.size])) };
  const rowOfQ = queryRow(queries, area, place.row);

  painter.clip(area.x, area.y + HEADER, area.width, area.height - HEADER);
  // A line from q to every key. A larger weight is more opaque.
  const [from, to] = [place.q + place.strip, place.key - GAP / 4];
  keys.forEach((key, row) => {
    if (!(found.weight[key] >= FAINTEST)) return;
    painter.line(from, middle(rowOfQ), to, middle(row), { stroke: colours.accent, alpha: found.weight[key], lineWidth: STROKE, data: { query, key, weight: found.weight[key] } });
  });
  drawQueries();
  keys.forEach((key, row) => inSight(row) && drawKey(key, row));
  painter.endClip();
  drawHeader();
  return true;

  function drawQueries() {
    const { tokens, special } = tokensOf(state.text, "query");
    queries.forEach((one, number) => {
      if (!inSight(number)) return;
      const chosen = one === query;
      const width = place.queryLabel;
      if (chosen || pointed?.query === one) painter.rect(GAP / 2, middle(number) - PLAIN / 2, width, PLAIN, { fill: colours.mark, stroke: chosen ? colours.accent : undefined });
      painter.text(cut(tokens[one], SIZE, width - GAP), width, middle(number), { fill: special[one] && !chosen ? colours.faint : colours.ink, size: SIZE, align: "right", bold: chosen });
    });
    drawVector(place.q, middle(rowOfQ), found.query, query, "query");
  }

  function drawKey(key, row) {
    const { tokens, special } = tokensOf(state.text, "key");
    const y = middle(row);
    if (pointed?.key === key) painter.rect(place.key - GAP / 4, y - place.row / 2, place.end - place.key + GAP / 4, place.row, { fill: colours.mark });
    const fill = found.may[key] && !special[key] ? colours.ink : colours.faint;
    painter.text(cut(tokens[key], SIZE, place.keyLabel - GAP), place.key, y, { fill, size: SIZE });
    drawVector(place.k, y, found.key, key, "key");
    drawStrip(place.product, y, PLAIN - 6, (i) => found.q[i] * found.key[key * place.size + i], most.product);
    const terms = found.parts.map((part) => part[key]); // columns with terms: sum, scaled, each term, score
    const steps = [found.score[key], found.scaled[key], ...(terms.length ? [...terms, found.scaled[key] + found.added[key]] : [])];
    steps.forEach((one, column) => painter.text(one.toFixed(2), place.columns[column], y, { fill, size: SIZE, align: "right" }));
    if (!found.may[key]) painter.hatch(place.weight, y - 6, place.bar, 12, colours);
    else {
      const data = { query, key, score: found.score[key], scaled: found.scaled[key], added: found.added[key], weight: found.weight[key] };
      painter.rect(place.weight, y - 6, Math.max(0.5, place.bar * found.weight[key]), 12, { fill: colours.accent, data });
    }
    painter.text(found.may[key] ? formatWeight(found.weight[key], digits) : "masked", place.weight + place.bar + GAP / 2, y, { fill, size: SIZE });
  }

  /** Draw the q or k of a token. With rotary positions, draw two: before the rotation (above) and after it (below). */
  function drawVector(x, y, all, token, name) {
    const of = (numbers) => (i) => numbers[token * place.size + i];
    if (!found.before) drawStrip(x, y, PLAIN - 6, of(all), most.vector);
    else {
      drawStrip(x, y - 6.5, 11, of(found.before[name]), most.vector);
      drawStrip(x, y + 6.5, 11, of(all), most.vector);
    }
  }

  /** Draw numbers as coloured squares: orange above 0, blue below. A larger number is more opaque. */
  function drawStrip(x, y, height, element, scale) {
    for (let i = 0; i < place.size; i++) {
      const one = element(i);
      painter.rect(x + i * place.element, y - height / 2, Math.max(place.element - 0.5, place.element / 2), height, { fill: one > 0 ? colours.plus : colours.minus, alpha: Math.min(1, Math.abs(one) / scale) });
    }
    painter.rect(x, y - height / 2, place.strip, height, { stroke: colours.edge, lineWidth: 0.5 });
  }

  /** Draw the caption and headings, which stay while rows scroll under them. */
  function drawHeader() {
    const top = area.y;
    const apart = difference(query, found.weight);
    const warning = apart > found.error + ROUNDING ? [`the model rounds more coarsely: its own weights differ from these by up to ${apart.toFixed(3)}`] : [];
    const sink = found.sink === null ? [] : [`the head's sink takes ${found.taken.toFixed(2)} of this row's weight`];
    const said = caption(layerName(), headName(state.head), "orange: above 0, blue: below", ...sink, ...warning, `weights computed from the stored q and k, with an error of at most ${found.error}`);
    drawCaption(painter, said, area.x + GAP, top + 13, area.width - 2 * GAP, colours.faint);
    for (const { x, align, name, note } of headings(place, found)) {
      painter.text(name, x, top + CAPTION + 10, { fill: colours.ink, size: SIZE, align, bold: true });
      painter.text(note, x, top + CAPTION + 26, { fill: colours.faint, size: SIZE, align });
    }
  }
}

/** Return the headings of the columns of numbers, with one for each term that positions add to a score. */
function numberNames(terms) {
  return terms.length ? ["sum", "scaled", ...terms.map((name) => `+ ${name.split(" ")[0]}`), "= score"] : ["sum", "score"];
}

/** Return the headings of the columns: a name, with the formula below. */
function headings(place, { scale, before, size }) {
  const { terms } = vectors();
  const how = before ? "plain / rotated" : `${size} numbers`;
  const scaled = `/ √${+(scale ** -2).toFixed(2)}`;
  const notes = ["q · k", scaled, ...terms.map((name) => name.split(" ").slice(1).join(" ")), ""];
  const vector = (x, name, note) => ({ x, name, note: textWidth(note, SIZE) <= place.strip ? note : "", align: "left" });
  return [
    { x: place.queryLabel, name: "query", note: "choose", align: "right" },
    vector(place.q, "q", how),
    { x: place.key, name: "key", note: "", align: "left" },
    vector(place.k, "k", how),
    vector(place.product, "q × k", "product"),
    ...numberNames(terms).map((name, column) => ({ x: place.columns[column], name, note: notes[column], align: "right" })),
    { x: place.weight, name: "weight", note: "softmax", align: "left" },
  ];
}

/** Return the largest absolute number. */
function largestOf(...lists) {
  return lists.reduce((most, list) => list.reduce((larger, one) => Math.max(larger, Math.abs(one)), most), 0) || 1;
}

/** Format a weight with this number of digits; "<.0001" if it rounds to 0. */
function formatWeight(weight, digits) {
  return weight > 0 && weight < 10 ** -digits / 2 ? `<${(10 ** -digits).toFixed(digits).slice(1)}` : weight.toFixed(digits);
}

/** Return the number of decimals for numbers with this error. */
function decimals(error) {
  return Math.min(4, Math.max(2, Math.round(-Math.log10(error))));
}

export function tip(pointed) {
  if (pointed.open) return lacking.tip(pointed);
  const { key, strip, element } = pointed;
  const token = (side, place) => `${isolate(tokensOf(state.text, side).tokens[place])} (${place})`;
  if (pointed.query !== undefined) return `query ${token("query", pointed.query)}: choose it`;
  const query = shownQuery();
  const found = scores(query);
  if (found === null) return "";
  if (strip === undefined) return `${token("query", query)} → ${token("key", key)}: weight ${found.weight[key].toFixed(decimals(found.error))}`;
  const known = found.steps.map((step) => decimals(step / 2));
  const number = (name, place, digits) => {
    const at = place * found.size + element;
    const before = found.before ? `${found.before[name][at].toFixed(digits)}, rotated ` : "";
    return before + found[name][at].toFixed(digits);
  };
  if (strip === "q") return `q[${element}] = ${number("query", query, known[0])}`;
  if (strip === "k") return `k[${element}] = ${number("key", key, known[1])}`;
  const [q, k] = [found.q[element], found.key[key * found.size + element]];
  return `q[${element}] × k[${element}] = ${q.toFixed(known[0])} × ${k.toFixed(known[1])} = ${(q * k).toFixed(Math.min(...known.slice(0, 2)))}`;
}

/** Handle a click: select a query, or a head that has q and k. */
export function press(pointed) {
  if (pointed.open) lacking.press(pointed);
  else if (pointed.query !== undefined) change({ token: pointed.query, side: "query" });
}
