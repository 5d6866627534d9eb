// Model: all layers and heads as thumbnails, a row a layer; beside them, where there is room, one of them large.

import { pixelOf, pixelTable } from "./colour.js";
import { headsOf, kindOf, maskOf, page, smallOf } from "./data.js";
import * as map from "./map.js";
import { CanvasPainter, cut, FAINTEST, picture } from "./paint.js";
import { Recent } from "./recent.js";
import { drawBar, largestOf, scaled, shareOf } from "./scale.js";
import { state } from "./state.js";
import { axes, isHidden, leastDrawn, pooled, showsAll, shownWeights } from "./units.js";
import { caption, headName, kind, layerName, pooling } from "./captions.js";
import { isFinding } from "./findings.js";

const TOP = 44;
const LEFT = 30;
const GAP = 6;
const LABEL = 14; // height of the words under a thumbnail, where there is room
const [SMALLEST, LARGEST, ROOM_FOR_WORDS] = [24, 150, 70];
const [WIDE, BESIDE] = [760, 0.42]; // of a window with room for one head beside the others; how much of it that takes
const MOST_LINES_ROWS = 32; // tokens of a thumbnail in lines; of more the largest weight of each block
const [LEAST, LEASTS] = [0.02, 5]; // of lines in thumbnails: a weight, or so many of the least of the text, if that is less
const [PREVIEW, MOST_PREVIEW] = [0.6, 420]; // of the window, and in pixels: a head that is pointed at
const KEPT = 600;
const PATIENCE = 80; // milliseconds of a drawing for new thumbnails; the rest come with the next one

const smalls = new Recent(KEPT); // what of a map does not depend on how it is drawn -> its thumbnail's weights, and the largest
const images = new Recent(KEPT); // everything that a thumbnail depends on -> its picture

export function measure(width, height) {
  const { side, step, beside } = layout(width, height);
  const high = TOP + page.layers.length * step;
  return { width: Math.max(width, LEFT + page.heads.length * (side + GAP)), height: beside ? Math.max(high, height) : high };
}

/** Whether a window of this width has room for one head beside all of them. */
export function hasRoom(width) {
  return width >= WIDE && width * (1 - BESIDE) >= LEFT + page.heads.length * (SMALLEST + GAP);
}

/** The side of a thumbnail, from one row to the next, how wide all of them are, and how wide what is beside them. */
function layout(window, height) {
  const beside = state.detail && hasRoom(window) ? Math.floor(window * BESIDE) : 0;
  const width = window - beside;
  const wide = (width - LEFT) / page.heads.length - GAP;
  const high = (height - TOP) / page.layers.length - GAP - LABEL;
  const side = Math.floor(Math.min(LARGEST, Math.max(SMALLEST, page.layers.length === 1 ? wide : Math.min(wide, Math.max(high, ROOM_FOR_WORDS)))));
  return { side, step: side + GAP + (side >= ROOM_FOR_WORDS ? LABEL : 0), width, beside };
}

/** Where the thumbnail of a head is, `{y, side}`. */
export function placeOfHead(window, height, layer) {
  const { side, step } = layout(window, height);
  return { y: TOP + page.layers.indexOf(layer) * step, side };
}

/** A head, `{layer, head}`, or, of the one beside them, what map.js says. */
export function at(x, y, window, height, area) {
  const { side, step, width, beside } = layout(window, height);
  if (beside && x - area.x >= width) return map.at(x - area.x - width, y - area.y, map.layout(beside, height), { x: 0, y: 0 });
  const [column, row] = [Math.floor((x - LEFT) / (side + GAP)), Math.floor((y - TOP) / step)];
  const inside = column >= 0 && row >= 0 && column < page.heads.length && row < page.layers.length;
  return inside && headsOf(page.layers[row]).includes(page.heads[column]) ? { layer: page.layers[row], head: page.heads[column] } : null;
}

export function draw(painter, area, pointed, colours, dark) {
  const { side, step, width, beside } = layout(area.width, area.height);
  const coloured = state.thumbs === "matrix";
  const { hides } = maskOf(state.text, state.mask);
  const end = coloured ? drawBar(painter, width - GAP, 3, { largest: null, hidden: hides }, colours, dark) : width;
  const said = caption("all heads of this page", coloured ? scaled("each head's") : "", "orange frame: a finding");
  painter.text(cut(said, 12, end - 2 * GAP), GAP, 13, { fill: colours.faint, size: 12 });
  page.heads.forEach((head, column) => {
    painter.text(String(head), LEFT + column * (side + GAP) + side / 2, TOP - 10, { fill: colours.faint, size: 12, align: "center" });
  });
  let complete = true;
  const until = performance.now() + PATIENCE;
  const [along, table] = [axes(), pixelTable(dark)];
  page.layers.forEach((layer, row) => {
    const y = TOP + row * step;
    if (y + step < area.y || y > area.y + area.height) return;
    painter.text(String(layer), LEFT - GAP, y + side / 2, { fill: colours.faint, size: 12, align: "right" });
    headsOf(layer).forEach((head) => {
      const x = LEFT + page.heads.indexOf(head) * (side + GAP);
      complete = drawThumb(x, y, layer, head) && complete;
      const current = layer === state.layer && head === state.head;
      const under = pointed?.layer === layer && pointed?.head === head;
      if (isFinding(layer, head)) painter.rect(x - 2, y - 2, side + 4, side + 4, { stroke: colours.plus, lineWidth: 2, data: { finding: `${layer}.${head}` } });
      painter.rect(x, y, side, side, { stroke: current ? colours.accent : under ? colours.ink : colours.edge, lineWidth: under || current ? 2.5 : 1, data: { layer, head, kind: kindOf(state.text, state.mask, layer, head).label } });
      if (side >= ROOM_FOR_WORDS) painter.text(cut(kind(layer, head), 11, side), x, y + side + 8, { fill: colours.faint, size: 11 });
    });
  });
  const under = pointed?.layer === undefined ? null : pointed;
  if (beside) return drawBeside(under ?? state) && complete;
  return (under === null || drawPreview(under)) && complete;

  /** Whether it could be drawn: its weights may not be decoded yet, or have to wait for the next drawing. */
  function drawThumb(x, y, layer, head) {
    const scale = Math.min(2, Math.ceil(window.devicePixelRatio || 1));
    const inLines = state.thumbs === "lines";
    const most = inLines ? MOST_LINES_ROWS : side * scale;
    const what = [state.text, state.mask, layer, head, state.special, state.segments, state.words, most].join();
    const how = [what, state.threshold, state.thumbs, state.scale, side * scale, dark].join();
    if (!images.has(how) && performance.now() > until) return false;
    const small = smalls.get(what, () => smallMap(along, layer, head, side, most));
    if (small === null) return false;
    const image = images.get(how, () => (inLines ? lineImage(small, side, scale) : matrixImage(small, table)));
    if (!inLines && small.hides) painter.hatch(x, y, side, side, colours);
    if (painter.vector && inLines) drawLines(painter, small, x, y, side);
    else painter.image(image, x, y, side, side);
    return true;
  }

  /** The head that is pointed at, or else looked at, beside the others. */
  function drawBeside(of) {
    const box = { x: area.x + width, y: area.y, width: beside, height: area.height };
    painter.line(box.x, box.y, box.x, box.y + box.height, { stroke: colours.edge });
    return drawLarge(of, box);
  }

  /** The head that is pointed at, large, in the half of the window where the pointer is not. */
  function drawPreview(of) {
    const place = Math.floor(Math.min(PREVIEW * Math.min(area.width, area.height), MOST_PREVIEW));
    const middle = LEFT + (page.heads.indexOf(of.head) + 0.5) * (side + GAP);
    const isLeft = middle - area.x > area.width / 2;
    const box = { x: isLeft ? area.x + GAP : area.x + area.width - place - GAP, y: area.y + area.height - place - GAP, width: place, height: place };
    painter.rect(box.x, box.y, place, place, { fill: colours.paper, stroke: colours.ink, lineWidth: 2, data: { preview: `${of.layer}.${of.head}` } });
    return drawLarge(of, box);
  }

  function drawLarge(of, box) {
    const words = [layerName(of.layer), headName(of.head), kind(of.layer, of.head), pooling(of.layer, of.head)].filter(Boolean).join(" · ");
    return map.drawMap(painter, box, box, map.layout(box.width, box.height), { said: words, pointed, of }, colours, dark);
  }
}

/** A map's weights with at most so many rows and columns, the largest of all, and whether any is hidden; null if it is not decoded yet. */
function smallMap(along, layer, head, side, most) {
  const { weights, rows, columns } = source(along, layer, head, side) ?? {};
  if (weights === undefined) return null;
  const small = pooled(weights, rows, columns, most);
  return { ...small, largest: largestOf(small.weights), hides: small.weights.some(isHidden) };
}

/** What a thumbnail is made of: a small map as fine as its pixels, where there is one and nothing is filtered; else the whole one. */
function source({ queries, keys }, layer, head, side) {
  if (showsAll(queries, keys)) {
    const small = smallOf(state.text, state.mask, layer, head, side);
    if (small !== undefined) return small;
  }
  const weights = shownWeights(queries, keys, layer, head);
  return weights && { weights, rows: queries.length, columns: keys.length };
}

function matrixImage({ weights, rows, columns, largest }, table) {
  const pixels = new Uint32Array(weights.length).map((_, place) => pixelOf(table, shareOf(weights[place], largest)));
  return picture(pixels, rows, columns);
}

function lineImage(small, side, scale) {
  const canvas = document.createElement("canvas");
  canvas.width = canvas.height = side * scale;
  const context = canvas.getContext("2d");
  context.scale(scale, scale);
  drawLines(new CanvasPainter(context), small, 0, 0, side);
  return canvas;
}

function drawLines(painter, { weights, rows, columns }, x, y, side) {
  const least = Math.max(state.threshold, FAINTEST, Math.min(LEAST, LEASTS * leastDrawn()));
  for (let row = 0; row < rows; row++) {
    for (let column = 0; column < columns; column++) {
      const weight = weights[row * columns + column];
      if (!(weight >= least)) continue; // nor is there a line of what is hidden
      painter.line(x + 2, y + ((row + 0.5) * side) / rows, x + side - 2, y + ((column + 0.5) * side) / columns, { stroke: page.colours[0], alpha: Math.min(weight, 1) });
    }
  }
}

export function tip({ layer, head, ...cell }) {
  if (layer === undefined) return map.tip(cell);
  const { entropy } = kindOf(state.text, state.mask, layer, head);
  return `${layerName(layer)}, ${headName(head)}: ${kind(layer, head)}\nentropy ${entropy.toFixed(2)} nats`;
}
