// Model: all layers and heads as thumbnails; a row is a layer.

import { headColour, pixelOf, pixelTable } from "./colour.js";
import { kindOf, page } from "./data.js";
import { CanvasPainter, cut, picture } from "./paint.js";
import { state } from "./state.js";
import { axes, isHidden, pooled, shownWeights } from "./units.js";
import { caption, hatching, kind } from "./captions.js";

const TOP = 44;
const LEFT = 30;
const GAP = 6;
const LABEL = 14; // height of the words under a thumbnail, where there is room
const [SMALLEST, LARGEST, ROOM_FOR_WORDS] = [24, 150, 70];
const MOST_LINES_ROWS = 32; // tokens of a thumbnail in lines; of more the largest weight of each block
const LEAST = 0.02;
const KEPT = 600;
const PATIENCE = 40; // milliseconds of a drawing for new thumbnails; the rest come with the next one

const thumbs = new Map(); // everything that a thumbnail depends on -> its picture

export function measure(width, height) {
  const { side, step } = layout(width, height);
  return { width: Math.max(width, LEFT + page.heads.length * (side + GAP)), height: TOP + page.layers.length * step };
}

function layout(width, height) {
  const wide = (width - LEFT) / page.heads.length - GAP;
  const high = (height - TOP) / page.layers.length - GAP - LABEL;
  const side = Math.floor(Math.min(LARGEST, Math.max(SMALLEST, page.layers.length === 1 ? wide : Math.min(wide, Math.max(high, ROOM_FOR_WORDS)))));
  return { side, step: side + GAP + (side >= ROOM_FOR_WORDS ? LABEL : 0) };
}

export function at(x, y, width, height) {
  const { side, step } = layout(width, height);
  const [column, row] = [Math.floor((x - LEFT) / (side + GAP)), Math.floor((y - TOP) / step)];
  const inside = column >= 0 && row >= 0 && column < page.heads.length && row < page.layers.length;
  return inside ? { layer: page.layers[row], head: page.heads[column] } : null;
}

export function draw(painter, area, pointed, colours, dark) {
  const { side, step } = layout(area.width, area.height);
  painter.text(cut(caption("all heads of this page", state.thumbs === "matrix" ? hatching() : ""), 12, area.width - GAP), GAP, 13, { fill: colours.faint, size: 12 });
  page.heads.forEach((head, column) => {
    painter.text(String(head), LEFT + column * (side + GAP) + side / 2, TOP - 10, { fill: colours.faint, size: 12, align: "center" });
  });
  let complete = true;
  const until = performance.now() + PATIENCE;
  page.layers.forEach((layer, row) => {
    const y = TOP + row * step;
    if (y + step < area.y || y > area.y + area.height) return;
    painter.text(String(layer), LEFT - GAP, y + side / 2, { fill: colours.faint, size: 12, align: "right" });
    page.heads.forEach((head, column) => {
      const x = LEFT + column * (side + GAP);
      complete = drawThumb(painter, x, y, side, layer, head, colours, dark, until) && complete;
      const current = layer === state.layer && head === state.head;
      const under = pointed?.layer === layer && pointed?.head === head;
      painter.rect(x, y, side, side, { stroke: current ? colours.accent : under ? colours.ink : colours.edge, lineWidth: under || current ? 2.5 : 1, data: describe(layer, head) });
      if (side >= ROOM_FOR_WORDS) painter.text(cut(kind(layer, head), 11, side), x, y + side + 8, { fill: colours.faint, size: 11 });
    });
  });
  return complete;
}

function describe(layer, head) {
  return { layer, head, kind: kindOf(state.text, state.mask, layer, head).label };
}

function drawThumb(painter, x, y, side, layer, head, colours, dark, until) {
  const scale = Math.min(2, Math.ceil(window.devicePixelRatio || 1));
  const name = [state.text, state.mask, layer, head, state.special, state.segments, state.words, state.threshold, state.thumbs, side * scale, dark].join();
  if (!thumbs.has(name)) {
    if (performance.now() > until) return false;
    const { queries, keys } = axes();
    const weights = shownWeights(queries, keys, layer, head);
    if (weights === null) return false;
    if (thumbs.size >= KEPT) thumbs.clear();
    const small = pooled(weights, queries.length, keys.length, state.thumbs === "lines" ? MOST_LINES_ROWS : side * scale);
    thumbs.set(name, { small, image: state.thumbs === "lines" ? lineImage(small, side, scale, head) : matrixImage(small, dark) });
  }
  const { small, image } = thumbs.get(name);
  if (state.thumbs === "matrix" && small.weights.some(isHidden)) painter.hatch(x, y, side, side, colours);
  if (painter.vector && state.thumbs === "lines") drawLines(painter, small, x, y, side, head);
  else painter.image(image, x, y, side, side);
  return true;
}

/** Brightness is the square root of the weight: a weight of 0.05 should still be seen. */
function matrixImage({ weights, rows, columns }, dark) {
  const table = pixelTable(dark);
  const pixels = Uint32Array.from(weights, (weight) => pixelOf(table, weight < state.threshold ? 0 : Math.sqrt(Math.min(weight, 1))));
  return picture(pixels, rows, columns);
}

function lineImage(small, side, scale, head) {
  const canvas = document.createElement("canvas");
  canvas.width = canvas.height = side * scale;
  const context = canvas.getContext("2d");
  context.scale(scale, scale);
  drawLines(new CanvasPainter(context), small, 0, 0, side, head);
  return canvas;
}

function drawLines(painter, { weights, rows, columns }, x, y, side, head) {
  for (let row = 0; row < rows; row++) {
    for (let column = 0; column < columns; column++) {
      const weight = weights[row * columns + column];
      if (!(weight >= Math.max(state.threshold, LEAST))) continue; // nor is there a line of what is hidden
      painter.line(x + 2, y + ((row + 0.5) * side) / rows, x + side - 2, y + ((column + 0.5) * side) / columns, { stroke: headColour(head), alpha: Math.min(weight, 1) });
    }
  }
}

export function tip({ layer, head }) {
  const { entropy } = kindOf(state.text, state.mask, layer, head);
  return `layer ${layer}, head ${head}: ${kind(layer, head)}\nentropy ${entropy.toFixed(2)} nats`;
}
