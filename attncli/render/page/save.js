// Saving what is seen as a file. Nothing leaves the page: the file is made in it and handed to the browser.

import { asPixels, asSvg } from "./chart.js";
import { state } from "./state.js";

export function saveSvg() {
  hand(new Blob([asSvg()], { type: "image/svg+xml" }), "svg");
}

export function savePng() {
  asPixels().toBlob((blob) => hand(blob, "png"), "image/png");
}

function hand(blob, suffix) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = `attention-${state.view}-layer${state.layer}-head${state.head}.${suffix}`;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
}
