// Colours around 0: below it blue, above it red, and 0 the paper's own. The two get dark (or light) alike, so that in
// grey they are the same: there the signs tell, which stand in cells and at the ends of the scale.

import { channels, inkOn, mixed, rgb } from "./colour.js";
import { page } from "./data.js";

const [LIGHT, DARK] = [page.signed.light.map(channels), page.signed.dark.map(channels)];
const HALF = 255; // colours on each side of 0
const LEAST = 0.1; // of the largest: what is smaller is so pale that its sign is of no account
const ARM = 0.22; // of a cell, the half of a sign's stroke

/** [red, green, blue] of a share from -1 to 1. */
export function signedColour(share, dark) {
  return mixed(dark ? DARK : LIGHT, (share + 1) / 2);
}

/** Numbers from -`most` to `most` as pixels; of what is hidden (NaN) none, for it is hatched below. */
export function signedPixels(numbers, most, dark) {
  const table = new Uint32Array(2 * HALF + 1);
  const bytes = new Uint8ClampedArray(table.buffer);
  for (let step = 0; step <= 2 * HALF; step++) bytes.set([...signedColour(step / HALF - 1, dark), 255], step * 4);
  const pixels = new Uint32Array(numbers.length);
  for (let place = 0; place < numbers.length; place++) {
    pixels[place] = Number.isNaN(numbers[place]) ? 0 : table[Math.round(HALF * (numbers[place] / most + 1))];
  }
  return pixels;
}

/** The sign of a share in the middle of its cell, where it is large enough to have one. */
export function drawSign(painter, x, y, cell, share, dark) {
  if (!(Math.abs(share) >= LEAST)) return;
  const [middle, level, arm] = [x + cell / 2, y + cell / 2, cell * ARM];
  const stroke = inkOn(signedColour(share, dark));
  painter.line(middle - arm, level, middle + arm, level, { stroke });
  if (share > 0) painter.line(middle, level - arm, middle, level + arm, { stroke });
}

/** A scale from -1 to 1, `width` pixels long. */
export function drawSignedBar(painter, x, y, width, height, dark) {
  for (let step = 0; step < width; step += 2) {
    painter.rect(x + step, y, Math.min(2.3, width - step), height, { fill: rgb(signedColour((2 * step) / width - 1, dark)) });
  }
}

/** A number with its sign as it is shown, its size as `write` writes it: with three digits that count. */
export function signedValue(number, write = (size) => (size >= 1 ? size.toFixed(3) : size.toPrecision(3))) {
  if (number === 0) return "0";
  const shown = write(Math.abs(number));
  return shown.startsWith("<") ? shown : `${number < 0 ? "−" : "+"}${shown}`;
}
