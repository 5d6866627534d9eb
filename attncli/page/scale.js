// The scale of weights: how far along the colours a weight is, in words, and as a bar beside what is drawn.

import { rgb, shareColour } from "./colour.js";
import { state } from "./state.js";
import { value } from "./captions.js";

const [BAR, HIGH, STEP] = [90, 9, 2];
const SAMPLE = 74; // how what is hidden looks
const LAST = 20; // half of the last label

/** How far along the colours, from 0 to 1, a weight is in a map of which `largest` is the largest; NaN if it is hidden. */
export function shareOf(weight, largest) {
  if (weight < state.threshold) return 0;
  if (state.scale === "head") return weight / largest;
  return state.scale === "root" ? Math.sqrt(Math.min(weight, 1)) : Math.min(weight, 1);
}

/** How opaque a line of Heads is, from 0 to 1, of lines of which `largest` is the largest weight. */
export function opacityOf(weight, largest) {
  const share = state.opacity === "head" ? weight / (largest || 1) : weight;
  return Math.min(state.opacity === "root" ? Math.sqrt(share) : share, 1);
}

/** The weight of a line that is so opaque: the inverse of `opacityOf`. */
export function weightOf(opacity, largest) {
  return { head: opacity * largest, shared: opacity, root: opacity ** 2 }[state.opacity];
}

/** What `shareOf` divides by where all of a map is 0 too: never 0. */
export function largestOf(weights) {
  return weights.reduce((most, weight) => (weight > most ? weight : most), 0) || 1;
}

/** What opaque stands for in Heads, for a caption. */
export function opaque(largest) {
  return { head: `opaque: ${value(largest)}, the largest`, shared: "opaque: 1", root: "opacity by square root, 0 to 1" }[state.opacity];
}

/** What a colour stands for, for a caption; `whose` largest it is where it is a map's. */
export function scaled(whose) {
  return { head: `colours from 0 to ${whose} largest`, shared: "colours from 0 to 1", root: "colours by square root, 0 to 1" }[state.scale];
}

/**
 * The colours with their weights below, and how what is hidden looks if anything is, up to `right`; gives where that begins.
 * `largest` is null where every map has its own.
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

/** Where along the bar which weights are, `[share, label]`. */
function ticks(largest) {
  if (state.scale === "root") return [0, 0.1, 0.5, 1].map((weight) => [Math.sqrt(weight), String(weight)]);
  if (state.scale === "shared") return [0, 0.5, 1].map((weight) => [weight, String(weight)]);
  return [[0, "0"], ...(largest === null ? [[1, "largest"]] : [[0.5, value(largest / 2)], [1, value(largest)]])];
}
