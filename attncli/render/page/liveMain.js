// The page of `attncli serve`: that of `view`, with a field to type in. This file puts it together, as main.js does the other.
//
//   liveAsk.js     asks the server, the newest next    liveTexts.js   what has come, and which of it is shown
//   liveField.js   field, menus, progress, errors      liveSave.js    the page of what is on the screen

import { listen, onDrawn, redraw } from "./chart.js";
import { makeControls, showState } from "./controls.js";
import { decodeAhead, onDecoded, readAhead } from "./data.js";
import * as heads from "./heads.js";
import { listenToKeys } from "./keys.js";
import { lookAgain, makeField } from "./liveField.js";
import { opening } from "./liveTexts.js";
import * as matrix from "./matrix.js";
import * as model from "./model.js";
import * as neuron from "./neuron.js";
import { makeRoom, readOut } from "./readout.js";
import { change, onChange, readHash, state } from "./state.js";

/** An address that says nothing is where the model that is looked at began. */
function go() {
  if (location.hash.length > 1) readHash();
  else change(opening());
}

makeControls();
makeField();
onChange(showState);
onChange(makeRoom);
onChange(redraw);
onChange(lookAgain);
onDrawn((token) => {
  readOut(token);
  if (state.view === "heads") readAhead(state.text, state.mask, state.layer, state.heads);
});
onDecoded(() => {
  redraw();
  setTimeout(() => decodeAhead(state.text, state.mask, state.layer)); // after that drawing
});
listen({ heads, model, matrix, neuron });
listenToKeys();
addEventListener("hashchange", go);
readHash();
