// The scale of weights: the position of a weight among the colours, the scale in words, and the colour bar.

import { rgb, shareColour } from "./colour.js";
import { state } from "./state.js";
import { value } from "./captions.js";

const [BAR, HIGH, STEP] = [90, 9, 2];
const SAMPLE = 74; // width of the sample of the hatching and its label, in pixels
const LAST = 20; // half the width of the last label, in pixels

/** Return the position of a weight on the colour scale, 0 to 1, in a map with this largest weight; NaN if it is hidden. */
export function shareOf(weight, largest) {
  if (weight < state.threshold) return 0;
  if (state.scale === "head") return weight / largest;
  return state.scale === "root" ? Math.sqrt(Math.min(weight, 1)) : Math.min(weight, 1);
}

/** Return the opacity, 0 to 1, of a line of Heads among lines with this largest weight. */
export function opacityOf(weight, largest) {
  const share = state.opacity === "head" ? weight / (largest || 1) : weight;
  return Math.min(state.opacity === "root" ? Math.sqrt(share) : share, 1);
}

/** Return the weight of a line with this opacity: the inverse of `opacityOf`. */
export function weightOf(opacity, largest) {
  return { head: opacity * largest, shared: opacity, root: opacity ** 2 }[state.opacity];
}

/** Return the largest weight, the divisor of `shareOf`; 1 if all are 0. */
export function largestOf(weights) {
  return weights.reduce((most, weight) => (weight > most ? weight : most), 0) || 1;
}

/** Explain the opacity of the lines in the view Heads, for a caption. */
export function describeOpacity(largest) {
  return { head: `opacity from 0 to ${value(largest)}, the largest`, shared: "opacity from 0 to 1", root: "opacity by square root, 0 to 1" }[state.opacity];
}

/**
 * Draw the colour bar with its weights below, and a sample of the hatching if anything is hidden. The bar ends at `right`.
 * Return where it begins. `largest` is null if every map has its own scale.
 */
export function drawBar(painter, right, y, { largest, hidden }, colours, dark) {
  const x = right - BAR - LAST;
  for (let step = 0; step < BAR; step += STEP) painter.rect(x + step, y, STEP + 0.3, HIGH, { fill: rgb(shareColour(step / (BAR - STEP), dark)) });
  painter.rect(x, y, BAR, HIGH, { stroke: colours.edge });
  for (const [share, label] of ticks(largest)) {
    painter.text(label, x + share * BAR, y + HIGH + 7, { fill: colours.faint, size: 10, align: "center" });
  }
  if (!hidden) return x - LAST;
  painter.hatch(x - SAMPLE, y, 14, HIGH, colours);
  painter.text("hidden", x - SAMPLE + 18, y + HIGH / 2, { fill: colours.faint, size: 11 });
  return x - SAMPLE - 6;
}

/** Return the ticks of the colour bar, `[share, label]`. */
function ticks(largest) {
  if (state.scale === "root") return [0, 0.1, 0.5, 1].map((weight) => [Math.sqrt(weight), String(weight)]);
  if (state.scale === "shared") return [0, 0.5, 1].map((weight) => [weight, String(weight)]);
  return [[0, "0"], ...(largest === null ? [[1, "largest"]] : [[0.5, value(largest / 2)], [1, value(largest)]])];
}
