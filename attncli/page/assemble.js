// The page of every head, offline and served. This file puts the others together.
//
//   data.js       the data of the page                 units.js      tokens or words, after the filters
//   recent.js     a cache of slow results              state.js      the state of the page, and the URL hash
//   colour.js     colours of theme, heads and weights  scale.js      the scale of a weight's colour
//   heads.js, model.js, matrix.js, neuron.js           the four views, which draw with paint.js
//   map.js        one head's map, in Matrix and Model  lines.js      the lines of Heads
//   scores.js     the numbers of Neuron                lacking.js    Neuron for a head without q and k
//   partners.js   the partners of a token              away.js       the arrow to a partner out of sight
//   chart.js      the canvas and the pointer           controls.js, keys.js, common.js   buttons, menus, keyboard
//   findings.js   the heads that stand out             sentence.js, guide.js    the text, how to read the page
//   captions.js   captions and values                  readout.js, save.js      the side panel, SVG and PNG
//   toolbar.js    the toolbar's menu and the active filters

import { listen, onDrawn, redraw } from "./chart.js";
import { listenToControls } from "./common.js";
import { makeControls, showState } from "./controls.js";
import { decodeAhead, onDecoded, readAhead } from "./data.js";
import { listenToFindings, showFindings } from "./findings.js";
import { makeGuide } from "./guide.js";
import * as heads from "./heads.js";
import { KEYS } from "./keys.js";
import * as matrix from "./matrix.js";
import * as model from "./model.js";
import * as neuron from "./neuron.js";
import { readOut } from "./readout.js";
import { listenToSentence, shade, showSentence } from "./sentence.js";
import { onChange, state } from "./state.js";

/** Set up controls, views, pointer and keys. From now on they follow the state. */
export function assemble() {
  makeControls();
  onChange(showState);
  onChange(showFindings);
  onChange(showSentence);
  onChange(redraw);
  onDrawn((token) => {
    readOut(token);
    shade(token);
    if (state.view === "heads") readAhead(state.text, state.mask, state.layer, state.heads);
  });
  onDecoded(() => {
    redraw();
    setTimeout(() => decodeAhead(state.text, state.mask, state.layer)); // after the drawing
  });
  listen({ heads, model, matrix, neuron });
  listenToControls(KEYS);
  listenToSentence();
  listenToFindings();
  makeGuide();
}
