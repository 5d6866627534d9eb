// Colours: of the theme, of heads, and of weights.

import { page } from "./data.js";
import { state } from "./state.js";
import { within } from "./stepping.js";

const DASHES = [[], [9, 4], [2, 3], [10, 3, 2, 3]]; // pixels of a line, and between

const RAMP = page.ramp.map(channels);
const LIGHT = 0.179; // luminance on which black and white can be read alike

/** Whether the page is dark now: by its switch, else by the system. */
export function isDark() {
  return state.theme === "system" ? matchMedia("(prefers-color-scheme: dark)").matches : state.theme === "dark";
}

/** The theme's colours, by the names that style.css gives them. */
export function theme() {
  const style = getComputedStyle(document.documentElement);
  const colour = (name) => style.getPropertyValue(`--${name}`).trim();
  return Object.fromEntries(
    ["paper", "ink", "faint", "edge", "panel", "accent", "mark", "plus", "minus"].map((name) => [name, colour(name)]),
  );
}

/** The colour of a head: by its place among the chosen ones, so that the first eight differ for every kind of vision. */
export function headColour(head) {
  return page.colours[placeOf(head) % page.colours.length];
}

/** The dashes of a head's lines, so that heads can be told apart without colours too. */
export function headDash(head) {
  const place = placeOf(head);
  return DASHES[(place + Math.floor(place / page.colours.length)) % DASHES.length];
}

function placeOf(head) {
  return Math.max(state.heads.indexOf(head), 0);
}

/** [red, green, blue] of "#3f7fe0". */
export function channels(colour) {
  return [1, 3, 5].map((place) => Number.parseInt(colour.slice(place, place + 2), 16));
}

/** [red, green, blue] of a share from 0 to 1: nothing is white on light paper, nearly black on dark. */
export function shareColour(share, dark) {
  return mixed(RAMP, dark ? 1 - share : share);
}

/** [red, green, blue] at a share, from 0 to 1, of the way along these colours. */
export function mixed(colours, share) {
  const place = within(share, 0, 1) * (colours.length - 1);
  const low = Math.min(Math.floor(place), colours.length - 2);
  return colours[low].map((value, part) => Math.round(value + (colours[low + 1][part] - value) * (place - low)));
}

/** 256 colours from 0 to 1 as pixels, to look up. */
export function pixelTable(dark) {
  const table = new Uint32Array(256);
  const bytes = new Uint8ClampedArray(table.buffer);
  for (let step = 0; step < 256; step++) bytes.set([...shareColour(step / 255, dark), 255], step * 4);
  return table;
}

/** The pixel of a share from 0 to 1, by `pixelTable`; of what is hidden none, for it is hatched below. */
export function pixelOf(table, share) {
  return Number.isNaN(share) ? 0 : table[Math.round(255 * share)];
}

/** How a colour is written. */
export function rgb([red, green, blue]) {
  return `rgb(${red},${green},${blue})`;
}

/** Black or white, whichever has more contrast with [red, green, blue]: at least 4.5 : 1 (WCAG 2, relative luminance). */
export function inkOn(colour) {
  const [red, green, blue] = colour.map((part) => (part <= 10 ? part / 3294.6 : ((part / 255 + 0.055) / 1.055) ** 2.4));
  return red * 0.2126 + green * 0.7152 + blue * 0.0722 > LIGHT ? "#000000" : "#ffffff";
}
