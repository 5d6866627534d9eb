// Colours around 0: blue below, red above, and the colour of the paper at 0. In grey, blue and red look the same, so cells
// and the ends of the scale have signs.

import { channels, inkOn, mixed, rgb } from "./colour.js";
import { page } from "./data.js";

const [LIGHT, DARK] = [page.signed.light.map(channels), page.signed.dark.map(channels)];
const HALF = 255; // colours on each side of 0
const LEAST = 0.1; // a cell has a sign only if its number is at least this share of the largest
const ARM = 0.22; // half the length of a sign's stroke, as a share of a cell

/** Return [red, green, blue] of a share from -1 to 1. */
export function signedColour(share, dark) {
  return mixed(dark ? DARK : LIGHT, (share + 1) / 2);
}

/** Return the pixels of numbers from -`most` to `most`. A hidden cell (NaN) is transparent, over the hatching. */
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

/** Draw the sign of a share in the middle of its cell, unless the share is small. */
export function drawSign(painter, x, y, cell, share, dark) {
  if (!(Math.abs(share) >= LEAST)) return;
  const [middle, level, arm] = [x + cell / 2, y + cell / 2, cell * ARM];
  const stroke = inkOn(signedColour(share, dark));
  painter.line(middle - arm, level, middle + arm, level, { stroke });
  if (share > 0) painter.line(middle, level - arm, middle, level + arm, { stroke });
}

/** Draw a scale from -1 to 1, `width` pixels long. */
export function drawSignedBar(painter, x, y, width, height, dark) {
  for (let step = 0; step < width; step += 2) {
    painter.rect(x + step, y, Math.min(2.3, width - step), height, { fill: rgb(signedColour((2 * step) / width - 1, dark)) });
  }
}

/**
 * Format a size with the decimals that give `most`, the largest, three digits, and at least three; "<.001" if that is 0. A size
 * below a billionth is rounding: "0".
 */
export function fixed(size, most) {
  if (size < 1e-9) return "0";
  const decimals = Math.max(3, 2 - Math.floor(Math.log10(most)));
  const least = 10 ** -decimals;
  return size < least / 2 ? `<${least.toFixed(decimals).slice(1)}` : size.toFixed(decimals);
}

/** Format a number with its sign; `write` formats its size. */
export function signedValue(number, write) {
  if (number === 0) return "0";
  const shown = write(Math.abs(number));
  return shown.startsWith("<") || shown === "0" ? shown : `${number < 0 ? "−" : "+"}${shown}`;
}
