// Matrix: one head as a heat map, as large as the window or larger.

import { SMALLEST_CELL } from "./cells.js";
import * as map from "./map.js";
import { scaled } from "./scale.js";
import { state } from "./state.js";
import { caption, headName, kind, layerName, pooling } from "./captions.js";

function layout(width, height) {
  const laid = map.layout(width, height);
  return { ...laid, cell: state.cell || Math.max(laid.cell, SMALLEST_CELL) };
}

export function measure(width, height) {
  const { queries, keys, label, top, cell } = layout(width, height);
  return { width: Math.max(width, label + keys.length * cell + map.MARGIN), height: top + queries.length * cell + map.MARGIN };
}

/** The side of a cell now, and where the cells begin: what zooming has to know. */
export function grid(width, height) {
  const { label, top, cell } = layout(width, height);
  return { left: label, top, cell };
}

export function at(x, y, width, height, area) {
  return map.at(x, y, layout(width, height), area);
}

export function draw(painter, area, pointed, colours, dark) {
  const { layer, head } = state;
  const said = caption(layerName(), headName(head), kind(layer, head), pooling(layer, head), scaled("its"));
  return map.drawMap(painter, area, { x: 0, y: 0 }, layout(area.width, area.height), { said, pointed }, colours, dark);
}

export function tip(found) {
  return map.tip(found);
}
