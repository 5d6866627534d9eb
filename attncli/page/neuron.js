// Neuron: one query of one head, from left to right. Its q meets the k of every key; their product, element by element,
// adds up to a sum, which is scaled to a score, to which positions may add terms; softmax makes weights of the scores.

import { headName, layerName, caption, isolated } from "./captions.js";
import { hasVectors, maskOf, tokensOf } from "./data.js";
import * as lacking from "./lacking.js";
import { cut, FAINTEST, textWidth } from "./paint.js";
import { difference, scores } from "./scores.js";
import { change, state } from "./state.js";
import { axes } from "./units.js";

const CAPTION = 26;
const HEADER = 66; // caption and headings
const GAP = 8;
const SIZE = 12;
const [PLAIN, TURNED] = [20, 30]; // height of a row; where positions turn vectors it has them before and after
const [NARROW, WIDE] = [{ number: 44, bar: 8, lines: 12, label: 34 }, { number: 66, bar: 100, lines: 110, label: 110 }];
const ROOMY = 700;
const [THIN, THICK] = [1, 8]; // an element
const [SHORT, LONG] = [36, 120]; // a vector of few of them, where there is little room and where there is much
const [LEAST, VALUE] = [34, 58]; // a column of tokens, one of weights
const STROKE = 3.5; // of a connector
const ROUNDING = 0.001; // by more than this, and what storing them does, a weight of q and k differs from the model's own

/** The query that is shown: the token that is held, else the first that is a word. */
export function shownQuery() {
  const { special } = tokensOf(state.text, "query");
  const other = state.side === "key" && tokensOf(state.text, "key") !== tokensOf(state.text, "query");
  return (other ? null : state.token) ?? Math.max(0, special.indexOf(false));
}

const isHere = () => hasVectors(state.text, state.mask, state.layer, state.head);
const vectors = () => maskOf(state.text, state.mask).vectors;

/** The tokens along one side: pieces, not words, for a word has no q and no k. */
function shown(side) {
  const units = side === "query" ? axes().queries : axes().keys;
  const left = new Set(units.flatMap((unit) => unit.members));
  return [...tokensOf(state.text, side).tokens.keys()].filter((token) => left.has(token));
}

const widths = new WeakMap(); // tokens of a text -> how wide the widest is

function widestToken(side) {
  const { tokens } = tokensOf(state.text, side);
  if (!widths.has(tokens)) widths.set(tokens, tokens.reduce((most, token) => Math.max(most, textWidth(token, SIZE, true)), LEAST));
  return widths.get(tokens);
}

/** Where every column begins, from left to right, and how wide an element of a vector is. */
function layout(width) {
  const { size, terms, turning } = vectors();
  const { number: least, bar, lines, label: widest } = width < ROOMY ? NARROW : WIDE;
  const [queryLabel, keyLabel] = ["query", "key"].map((side) => Math.min(widest, widestToken(side)) + GAP);
  const names = numberNames(terms);
  const number = Math.max(least, ...names.map((name) => textWidth(name, SIZE, true) + GAP));
  const numbers = names.length;
  const rest = queryLabel + lines + keyLabel + numbers * number + bar + VALUE + 6 * GAP;
  const element = Math.min(Math.max(THICK, LONG / size), Math.max(THIN, SHORT / size, (width - rest) / (3 * size)));
  const strip = size * element;
  const q = GAP + queryLabel;
  const key = q + strip + lines;
  const k = key + keyLabel;
  const product = k + strip + GAP;
  const sum = product + strip + number; // numbers end where their column does
  const columns = Array.from({ length: numbers }, (_, place) => sum + place * number);
  const weight = columns.at(-1) + GAP;
  return { size, element, strip, queryLabel, q, key, keyLabel, k, product, columns, weight, bar, end: weight + bar + GAP / 2 + VALUE, row: turning ? TURNED : PLAIN };
}

/** Where rows begin and how high they are: what scrolling has to know. */
export function grid() {
  return { left: 0, top: HEADER, cell: vectors().turning ? TURNED : PLAIN };
}

export function measure(width) {
  if (!isHere()) return lacking.measure(width);
  const { row, end } = layout(width);
  return { width: Math.max(width, end), height: HEADER + row * Math.max(shown("query").length, shown("key").length) + GAP };
}

export function at(x, y, width, height, area) {
  if (!isHere()) return lacking.at(x, y, width);
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

/** The row in which q stands: beside its query, or, where that is out of sight, as near to it as can be seen. */
function queryRow(queries, area, row) {
  const [first, last] = [Math.ceil(area.y / row), Math.floor((area.y + area.height - HEADER) / row) - 1];
  return Math.max(first, Math.min(queries.indexOf(shownQuery()), last));
}

export function draw(painter, area, pointed, colours) {
  if (!isHere()) {
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
  const beside = queryRow(queries, area, place.row);

  painter.clip(area.x, area.y + HEADER, area.width, area.height - HEADER);
  // From q to every key, as strong as its weight.
  const [from, to] = [place.q + place.strip, place.key - GAP / 4];
  keys.forEach((key, row) => {
    if (!(found.weight[key] >= FAINTEST)) return;
    painter.line(from, middle(beside), to, middle(row), { stroke: colours.accent, alpha: found.weight[key], lineWidth: STROKE, data: { query, key, weight: found.weight[key] } });
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
    drawVector(place.q, middle(beside), found.query, query, "query");
  }

  function drawKey(key, row) {
    const { tokens, special } = tokensOf(state.text, "key");
    const y = middle(row);
    if (pointed?.key === key) painter.rect(place.key - GAP / 4, y - place.row / 2, place.end - place.key + GAP / 4, place.row, { fill: colours.mark });
    const fill = found.may[key] && !special[key] ? colours.ink : colours.faint;
    painter.text(cut(tokens[key], SIZE, place.keyLabel - GAP), place.key, y, { fill, size: SIZE });
    drawVector(place.k, y, found.key, key, "key");
    drawStrip(place.product, y, PLAIN - 6, (i) => found.q[i] * found.key[key * place.size + i], most.product);
    const terms = found.parts.map((part) => part[key]); // a score with terms: scaled, every term, and all together
    const steps = [found.score[key], found.scaled[key], ...(terms.length ? [...terms, found.scaled[key] + found.added[key]] : [])];
    steps.forEach((one, column) => painter.text(one.toFixed(2), place.columns[column], y, { fill, size: SIZE, align: "right" }));
    if (!found.may[key]) painter.hatch(place.weight, y - 6, place.bar, 12, colours);
    else {
      const data = { query, key, score: found.score[key], scaled: found.scaled[key], added: found.added[key], weight: found.weight[key] };
      painter.rect(place.weight, y - 6, Math.max(0.5, place.bar * found.weight[key]), 12, { fill: colours.accent, data });
    }
    painter.text(found.may[key] ? share(found.weight[key], digits) : "masked", place.weight + place.bar + GAP / 2, y, { fill, size: SIZE });
  }

  /** A token's q or k; where positions turned it, as it was above, and as it is below. */
  function drawVector(x, y, all, token, name) {
    const of = (numbers) => (i) => numbers[token * place.size + i];
    if (!found.before) drawStrip(x, y, PLAIN - 6, of(all), most.vector);
    else {
      drawStrip(x, y - 6.5, 11, of(found.before[name]), most.vector);
      drawStrip(x, y + 6.5, 11, of(all), most.vector);
    }
  }

  /** Numbers as coloured squares: orange above 0, blue below, the stronger the larger. */
  function drawStrip(x, y, height, element, scale) {
    for (let i = 0; i < place.size; i++) {
      const one = element(i);
      painter.rect(x + i * place.element, y - height / 2, place.element - 0.5, height, { fill: one > 0 ? colours.plus : colours.minus, alpha: Math.min(1, Math.abs(one) / scale) });
    }
    painter.rect(x, y - height / 2, place.strip, height, { stroke: colours.edge, lineWidth: 0.5 });
  }

  /** Caption and headings stay while rows move under them. */
  function drawHeader() {
    const top = area.y;
    const apart = difference(query, found.weight);
    const warning = apart > found.error + ROUNDING ? [`the model rounds more, and its weights differ by up to ${apart.toFixed(3)}`] : [];
    const sink = found.sink === null ? [] : [`its sink takes ${found.taken.toFixed(2)} of this row`];
    const said = caption(layerName(), headName(state.head), ...sink, ...warning, `weights computed from the stored q and k, to within ${found.error}`);
    painter.text(cut(said, SIZE, area.width - 2 * GAP), area.x + GAP, top + 13, { fill: colours.faint, size: SIZE });
    for (const { x, align, name, note } of headings(place, found)) {
      painter.text(name, x, top + CAPTION + 10, { fill: colours.ink, size: SIZE, align, bold: true });
      painter.text(note, x, top + CAPTION + 26, { fill: colours.faint, size: SIZE, align });
    }
  }
}

/** Of the columns of numbers: of a score that positions add terms to, each of these too. */
function numberNames(terms) {
  return terms.length ? ["sum", "scaled", ...terms.map((name) => `+ ${name.split(" ")[0]}`), "= score"] : ["sum", "score"];
}

/** What stands above the columns: what each is, and below that how it is made. */
function headings(place, { scale, before, size }) {
  const { terms } = vectors();
  const how = before ? "before / turned" : `${size} numbers`;
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

/** The largest of all numbers without their signs. */
function largestOf(...lists) {
  return lists.reduce((most, list) => list.reduce((larger, one) => Math.max(larger, Math.abs(one)), most), 0) || 1;
}

/** A weight with so many digits; one that these don't show is no 0. */
function share(weight, digits) {
  return weight > 0 && weight < 10 ** -digits / 2 ? `< ${(10 ** -digits / 2).toFixed(digits + 1)}` : weight.toFixed(digits);
}

/** As many digits behind the point as matter in numbers that are known to within this. */
function decimals(error) {
  return Math.min(4, Math.max(2, Math.round(-Math.log10(error))));
}

export function tip(pointed) {
  if (pointed.open) return lacking.tip(pointed);
  const { key, strip, element } = pointed;
  const token = (side, place) => `${isolated(tokensOf(state.text, side).tokens[place])} (${place})`;
  if (pointed.query !== undefined) return `query ${token("query", pointed.query)}: choose it`;
  const query = shownQuery();
  const found = scores(query);
  if (found === null) return "";
  if (strip === undefined) return `${token("query", query)} → ${token("key", key)}: weight ${found.weight[key].toFixed(decimals(found.error))}`;
  const known = found.steps.map((step) => decimals(step / 2));
  const number = (name, place, digits) => {
    const at = place * found.size + element;
    const before = found.before ? `${found.before[name][at].toFixed(digits)}, turned ` : "";
    return before + found[name][at].toFixed(digits);
  };
  if (strip === "q") return `q[${element}] = ${number("query", query, known[0])}`;
  if (strip === "k") return `k[${element}] = ${number("key", key, known[1])}`;
  const [q, k] = [found.q[element], found.key[key * found.size + element]];
  return `q[${element}] × k[${element}] = ${q.toFixed(known[0])} × ${k.toFixed(known[1])} = ${(q * k).toFixed(Math.min(...known.slice(0, 2)))}`;
}

/** A click chooses a query; where the head has no q and k, one that has. */
export function press(pointed) {
  if (pointed.open) lacking.press(pointed);
  else if (pointed.query !== undefined) change({ token: pointed.query, side: "query" });
}
