// Model: all heads as thumbnails, a row per layer. A wide viewport also shows one head large.

import { pixelOf, pixelTable } from "./colour.js";
import { headsOf, patternOf, maskOf, page, smallOf } from "./data.js";
import * as map from "./map.js";
import { CanvasPainter, cut, drawCaption, FAINTEST, picture } from "./paint.js";
import { Recent } from "./recent.js";
import { drawBar, largestOf, shareOf } from "./scale.js";
import { state } from "./state.js";
import { axes, isHidden, leastDrawn, pooled, showsAll, shownWeights } from "./units.js";
import { caption, headName, kind, layerName, describePooling } from "./captions.js";
import { isFinding } from "./findings.js";

const TOP = 44;
const LEFT = 30;
const GAP = 6;
const LABEL = 14; // height of the text under a large thumbnail
const [SMALLEST, LARGEST, ROOM_FOR_WORDS] = [24, 150, 70];
const [WIDE, BESIDE] = [760, 0.42]; // minimum width of a viewport that shows one head beside the thumbnails, and the share of the width for that head
const MOST_LINES_ROWS = 32; // rows of a thumbnail drawn as lines; longer maps are pooled to this size
const [LEAST_WEIGHT, LEAST_FACTOR] = [0.02, 5]; // minimum weight of a line in a thumbnail: the first number, or the second times `leastDrawn` if that is less
const [PREVIEW, MOST_PREVIEW] = [0.6, 420]; // size of the head under the pointer: as a share of the viewport, and at most in pixels
const KEPT = 600; // thumbnails that stay in memory
const PATIENCE = 80; // milliseconds that one drawing may spend on new thumbnails; the next drawing continues

const smalls = new Recent(KEPT); // map and filters -> the weights of a thumbnail, and the largest
const images = new Recent(KEPT); // map, filters and colours -> the picture of a thumbnail

export function measure(width, height) {
  const { side, step, beside } = layout(width, height);
  const high = TOP + page.layers.length * step;
  return { width: Math.max(width, LEFT + page.heads.length * (side + GAP)), height: beside ? Math.max(high, height) : high };
}

/** Return true if a viewport of this width has room for one head beside all thumbnails. */
export function hasRoom(width) {
  return width >= WIDE && width * (1 - BESIDE) >= LEFT + page.heads.length * (SMALLEST + GAP);
}

/** Lay out a viewport of this width and height: the side of a thumbnail, the distance between rows, the width of all thumbnails, and the width of the head beside them. */
function layout(viewport, height) {
  const beside = state.detail && hasRoom(viewport) ? Math.floor(viewport * BESIDE) : 0;
  const width = viewport - beside;
  const wide = (width - LEFT) / page.heads.length - GAP;
  const high = (height - TOP) / page.layers.length - GAP - LABEL;
  const side = Math.floor(Math.min(LARGEST, Math.max(SMALLEST, page.layers.length === 1 ? wide : Math.min(wide, Math.max(high, ROOM_FOR_WORDS)))));
  return { side, step: side + GAP + (side >= ROOM_FOR_WORDS ? LABEL : 0), width, beside };
}

/** Return the position and side of the thumbnails of a layer, `{y, side}`. */
export function placeOfLayer(viewport, height, layer) {
  const { side, step } = layout(viewport, height);
  return { y: TOP + page.layers.indexOf(layer) * step, side };
}

/** Return the head under a point, `{layer, head}`, or the cell of the head beside the others, as map.js does. */
export function at(x, y, viewport, height, area) {
  const { side, step, width, beside } = layout(viewport, height);
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
  drawCaption(painter, caption("orange frame: a finding"), GAP, 13, end - 2 * GAP, colours.faint);
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
      painter.rect(x, y, side, side, { stroke: current ? colours.accent : under ? colours.ink : colours.edge, lineWidth: under || current ? 2.5 : 1, data: { layer, head, kind: patternOf(state.text, state.mask, layer, head).label } });
      if (side >= ROOM_FOR_WORDS) painter.text(cut(kind(layer, head), 11, side), x, y + side + 8, { fill: colours.faint, size: 11 });
    });
  });
  const under = pointed?.layer === undefined ? null : pointed;
  if (beside) return drawBeside(under ?? state) && complete;
  return (under === null || drawPreview(under)) && complete;

  /** Draw a thumbnail. Return false if its weights are not decoded yet, or if it must wait for the next drawing. */
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

  /** Draw the head under the pointer, or else the selected one, beside the others. */
  function drawBeside(of) {
    const box = { x: area.x + width, y: area.y, width: beside, height: area.height };
    painter.line(box.x, box.y, box.x, box.y + box.height, { stroke: colours.edge });
    return drawLarge(of, box);
  }

  /** Draw the head under the pointer large, in the half of the viewport without the pointer. */
  function drawPreview(of) {
    const place = Math.floor(Math.min(PREVIEW * Math.min(area.width, area.height), MOST_PREVIEW));
    const middle = LEFT + (page.heads.indexOf(of.head) + 0.5) * (side + GAP);
    const isLeft = middle - area.x > area.width / 2;
    const box = { x: isLeft ? area.x + GAP : area.x + area.width - place - GAP, y: area.y + area.height - place - GAP, width: place, height: place };
    painter.rect(box.x, box.y, place, place, { fill: colours.paper, stroke: colours.ink, lineWidth: 2, data: { preview: `${of.layer}.${of.head}` } });
    return drawLarge(of, box);
  }

  function drawLarge(of, box) {
    const words = [layerName(of.layer), headName(of.head), kind(of.layer, of.head), describePooling(of.layer, of.head)].filter(Boolean).join(" · ");
    return map.drawMap(painter, box, box, map.layout(box.width, box.height), { said: words, pointed, of }, colours, dark);
  }
}

/** Pool a map to at most `most` rows and columns. Return its weights, the largest, and whether any is hidden; null if not decoded yet. */
function smallMap(along, layer, head, side, most) {
  const { weights, rows, columns } = source(along, layer, head, side) ?? {};
  if (weights === undefined) return null;
  const small = pooled(weights, rows, columns, most);
  return { ...small, largest: largestOf(small.weights), hides: small.weights.some(isHidden) };
}

/** Return the map for a thumbnail: without filters a stored small map that is fine enough, otherwise the full map. */
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
  const least = Math.max(state.threshold, FAINTEST, Math.min(LEAST_WEIGHT, LEAST_FACTOR * leastDrawn()));
  for (let row = 0; row < rows; row++) {
    for (let column = 0; column < columns; column++) {
      const weight = weights[row * columns + column];
      if (!(weight >= least)) continue; // false for a hidden weight (NaN)
      painter.line(x + 2, y + ((row + 0.5) * side) / rows, x + side - 2, y + ((column + 0.5) * side) / columns, { stroke: page.colours[0], alpha: Math.min(weight, 1) });
    }
  }
}

export function tip({ layer, head, ...cell }) {
  if (layer === undefined) return map.tip(cell);
  const { entropy } = patternOf(state.text, state.mask, layer, head);
  return `${layerName(layer)}, ${headName(head)}: ${kind(layer, head)}\nentropy ${entropy.toFixed(2)} nats`;
}
