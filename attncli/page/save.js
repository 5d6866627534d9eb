// Save the drawing as a file: all of it, or with Shift the visible part. The page makes the file without any request.

import { area, drawOn, drawView, wholeArea } from "./chart.js";
import { theme } from "./colour.js";
import { Bounds, SvgPainter } from "./paint.js";
import { state } from "./state.js";

const MARGIN = 8;
const FINE = 2; // pixels of a saved PNG per pixel of the screen
const [LONGEST, LARGEST] = [16_384, 100_000_000]; // the most pixels of a canvas in browsers: per side, and in all

export async function saveSvg({ shiftKey }) {
  const colours = theme();
  const { all, drawn } = await measureDrawing(true, shiftKey);
  const painter = new SvgPainter(drawn, colours.paper);
  drawView(painter, all, null, colours);
  download(new Blob([painter.document()], { type: "image/svg+xml" }), `${nameOfPicture()}.svg`);
}

export async function savePng({ shiftKey }) {
  const { all, drawn } = await measureDrawing(false, shiftKey);
  const { width, height } = drawn;
  const scale = Math.min(FINE, LONGEST / width, LONGEST / height, Math.sqrt(LARGEST / (width * height)));
  const canvas = document.createElement("canvas");
  [canvas.width, canvas.height] = [Math.floor(width * scale), Math.floor(height * scale)];
  drawOn(canvas.getContext("2d"), drawn, scale, null, all);
  canvas.toBlob((blob) => download(blob, `${nameOfPicture()}.png`), "image/png");
}

/** Return the area of the drawing, or of its visible part, once it is decoded, and the bounds of what is drawn in it. */
async function measureDrawing(vector, seen) {
  for (;;) {
    const bounds = new Bounds(vector, theme().paper);
    const all = seen ? area() : wholeArea();
    if (seen) bounds.clip(all.x, all.y, all.width, all.height);
    if (drawView(bounds, all, null, theme())) return { all, drawn: bounds.area(MARGIN) };
    await new Promise(requestAnimationFrame);
  }
}

function nameOfPicture() {
  return `attention-${state.view}-layer${state.layer}-head${state.head}`;
}

/** Let the browser save a file under this name. */
export function download(blob, name) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
}
