// The page of `attncli serve`: the page of `view` with a field to type in.
//
//   liveAsk.js     requests to the server              liveTexts.js     the answers, and which one is shown
//   liveField.js   fields, menus, progress, errors     liveSave.js      the offline page
//   liveWrite.js   written tokens, silenced heads      liveSources.js   the sources of a token

import { assemble } from "./assemble.js";
import { requestVectors, makeField } from "./liveField.js";
import { opening } from "./liveTexts.js";
import { change, onChange, readHash } from "./state.js";

/** Go to the state in the hash. Without a hash, go to the first state of this model. */
function go() {
  if (location.hash.length > 1) readHash();
  else change(opening());
}

assemble();
makeField();
onChange(requestVectors);
addEventListener("hashchange", go);
readHash();
