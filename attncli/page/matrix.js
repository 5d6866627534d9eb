// Matrix: one head as a heat map that fills the viewport, or is larger and scrolls.

import { SMALLEST_CELL } from "./cells.js";
import * as map from "./map.js";
import { state } from "./state.js";
import { caption, headName, kind, layerName, describePooling } from "./captions.js";

function layout(width, height) {
  const laid = map.layout(width, height);
  return { ...laid, cell: state.cell || Math.max(laid.cell, SMALLEST_CELL) };
}

export function measure(width, height) {
  const { queries, keys, label, top, cell } = layout(width, height);
  return { width: Math.max(width, label + keys.length * cell + map.MARGIN), height: top + queries.length * cell + map.MARGIN };
}

/** Return the side of a cell and where the cells begin, for zooming. */
export function grid(width, height) {
  const { label, top, cell } = layout(width, height);
  return { left: label, top, cell };
}

export function at(x, y, width, height, area) {
  return map.at(x, y, layout(width, height), area);
}

export function draw(painter, area, pointed, colours, dark) {
  const { layer, head } = state;
  const said = caption(layerName(), headName(head), kind(layer, head), describePooling(layer, head));
  return map.drawMap(painter, area, { x: 0, y: 0 }, layout(area.width, area.height), { said, pointed }, colours, dark);
}

export function tip(found) {
  return map.tip(found);
}
