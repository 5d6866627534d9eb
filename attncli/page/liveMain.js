// The page of `attncli serve`: that of `view`, with a field to type in.
//
//   liveAsk.js     asks the server, the newest next    liveTexts.js   what has come, and which of it is shown
//   liveField.js   field, menus, progress, errors      liveSave.js    the page of what is on the screen

import { assemble } from "./assemble.js";
import { lookAgain, makeField } from "./liveField.js";
import { opening } from "./liveTexts.js";
import { change, onChange, readHash } from "./state.js";

/** An address that says nothing is where the model that is looked at began. */
function go() {
  if (location.hash.length > 1) readHash();
  else change(opening());
}

assemble();
makeField();
onChange(lookAgain);
addEventListener("hashchange", go);
readHash();
