// The colours of the theme, of heads and of weights.

import { page } from "./data.js";
import { state } from "./state.js";
import { within } from "./stepping.js";

const DASHES = [[], [9, 4], [2, 3], [10, 3, 2, 3]]; // pixels: dash, gap, ...

const RAMP = page.ramp.map(channels);
const LIGHT = 0.179; // luminance on which black and white have the same contrast

/** Return true if the page is dark, by its own switch or by the system. */
export function isDark() {
  return state.theme === "system" ? matchMedia("(prefers-color-scheme: dark)").matches : state.theme === "dark";
}

/** Return the colours of the theme by their names in style.css. */
export function theme() {
  const style = getComputedStyle(document.documentElement);
  const colour = (name) => style.getPropertyValue(`--${name}`).trim();
  return Object.fromEntries(
    ["paper", "ink", "faint", "edge", "panel", "accent", "mark", "plus", "minus"].map((name) => [name, colour(name)]),
  );
}

/** Return the colour of a head, by its place among the drawn heads. The first eight differ for all kinds of vision. */
export function headColour(head) {
  return page.colours[placeOf(head) % page.colours.length];
}

/** Return the dashes of a head's lines, which tell heads apart without colours. */
export function headDash(head) {
  const place = placeOf(head);
  return DASHES[(place + Math.floor(place / page.colours.length)) % DASHES.length];
}

function placeOf(head) {
  return Math.max(state.heads.indexOf(head), 0);
}

/** Return [red, green, blue] of "#3f7fe0". */
export function channels(colour) {
  return [1, 3, 5].map((place) => Number.parseInt(colour.slice(place, place + 2), 16));
}

/** Return [red, green, blue] of a share from 0 to 1. 0 is white on a light page, and nearly black on a dark one. */
export function shareColour(share, dark) {
  return mixed(RAMP, dark ? 1 - share : share);
}

/** Interpolate these colours at a share from 0 to 1. Return [red, green, blue]. */
export function mixed(colours, share) {
  const place = within(share, 0, 1) * (colours.length - 1);
  const low = Math.min(Math.floor(place), colours.length - 2);
  return colours[low].map((value, part) => Math.round(value + (colours[low + 1][part] - value) * (place - low)));
}

/** Return a lookup table of 256 pixels, for shares from 0 to 1. */
export function pixelTable(dark) {
  const table = new Uint32Array(256);
  const bytes = new Uint8ClampedArray(table.buffer);
  for (let step = 0; step < 256; step++) bytes.set([...shareColour(step / 255, dark), 255], step * 4);
  return table;
}

/** Look up the pixel of a share in a `pixelTable`. A hidden cell (NaN) is transparent, over the hatching. */
export function pixelOf(table, share) {
  return Number.isNaN(share) ? 0 : table[Math.round(255 * share)];
}

/** Format a colour for CSS. */
export function rgb([red, green, blue]) {
  return `rgb(${red},${green},${blue})`;
}

/** Return black or white, whichever has more contrast with [red, green, blue]: at least 4.5 : 1 (WCAG 2). */
export function inkOn(colour) {
  const [red, green, blue] = colour.map((part) => (part <= 10 ? part / 3294.6 : ((part / 255 + 0.055) / 1.055) ** 2.4));
  return red * 0.2126 + green * 0.7152 + blue * 0.0722 > LIGHT ? "#000000" : "#ffffff";
}
