// The page of every head, offline and served. This file puts the others together.
//
//   data.js    what the page holds                    units.js    tokens or words, after the filters
//   recent.js  what is kept of what takes long to make  state.js   what is being looked at
//   colour.js  colours of theme, heads and weights
//   heads.js, model.js, matrix.js, neuron.js          the four views, which draw with paint.js; scores.js computes for
//                                                     Neuron, and lacking.js is what it shows of a head without q and k
//   partners.js  of a token    lines.js  of Heads    away.js   a partner out of sight
//   chart.js   the canvas and the pointer             controls.js, keys.js, common.js   buttons, menus, keyboard
//   map.js   one head's map, in Matrix and Model       scale.js    how strong a weight's colour is
//   findings.js   the heads that stand out            sentence.js, guide.js    the text, how to read the page
//   captions.js   captions and values                 readout.js, save.js    the side panel, SVG and PNG
//   toolbar.js    what has no room, what is filtered

import { listen, onDrawn, redraw } from "./chart.js";
import { listenToControls } from "./common.js";
import { makeControls, showState } from "./controls.js";
import { decodeAhead, onDecoded, readAhead } from "./data.js";
import { showFindings } from "./findings.js";
import { makeGuide } from "./guide.js";
import * as heads from "./heads.js";
import { KEYS } from "./keys.js";
import * as matrix from "./matrix.js";
import * as model from "./model.js";
import * as neuron from "./neuron.js";
import { readOut } from "./readout.js";
import { listenToSentence, shade, showSentence } from "./sentence.js";
import { onChange, state } from "./state.js";

/** Controls, views, pointer and keys, which follow the state from now on. */
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
    setTimeout(() => decodeAhead(state.text, state.mask, state.layer)); // after that drawing
  });
  listen({ heads, model, matrix, neuron });
  listenToControls(KEYS);
  listenToSentence();
  makeGuide();
}
