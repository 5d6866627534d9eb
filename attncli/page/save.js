// Saving the drawing as a file: all of it, or with Shift what is seen of it, and nothing around it. Nothing leaves the
// page: the file is made in it and handed to the browser.

import { area, drawOn, drawView, whole } from "./chart.js";
import { theme } from "./colour.js";
import { Bounds, SvgPainter } from "./paint.js";
import { state } from "./state.js";

const MARGIN = 8;
const FINE = 2; // pixels of a saved PNG for one on the screen
const [LONGEST, LARGEST] = [16_384, 100_000_000]; // pixels of a canvas, a side and in all, that browsers draw on

export async function saveSvg({ shiftKey }) {
  const colours = theme();
  const { all, drawn } = await bounded(true, shiftKey);
  const painter = new SvgPainter(drawn, colours.paper);
  drawView(painter, all, null, colours);
  hand(new Blob([painter.document()], { type: "image/svg+xml" }), `${nameOfPicture()}.svg`);
}

export async function savePng({ shiftKey }) {
  const { all, drawn } = await bounded(false, shiftKey);
  const { width, height } = drawn;
  const scale = Math.min(FINE, LONGEST / width, LONGEST / height, Math.sqrt(LARGEST / (width * height)));
  const canvas = document.createElement("canvas");
  [canvas.width, canvas.height] = [Math.floor(width * scale), Math.floor(height * scale)];
  drawOn(canvas.getContext("2d"), drawn, scale, null, all);
  canvas.toBlob((blob) => hand(blob, `${nameOfPicture()}.png`), "image/png");
}

/** All of the drawing, or of what is `seen`, once it is decoded, and the part of it where anything is drawn, with a margin. */
async function bounded(vector, seen) {
  for (;;) {
    const bounds = new Bounds(vector, theme().paper);
    const all = seen ? area() : whole();
    if (seen) bounds.clip(all.x, all.y, all.width, all.height);
    if (drawView(bounds, all, null, theme())) return { all, drawn: bounds.area(MARGIN) };
    await new Promise(requestAnimationFrame);
  }
}

function nameOfPicture() {
  return `attention-${state.view}-layer${state.layer}-head${state.head}`;
}

/** Hand a file of this name to the browser. */
export function hand(blob, name) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
}
