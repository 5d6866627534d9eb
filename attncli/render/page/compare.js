// The page of two records, A and B: main.js for `attncli diff`. This file puts the others together.
//
//   data.js, state.js, units.js, colour.js, paint.js, chart.js, save.js    as in the page of one record
//   sides.js           the maps of A and B, and B - A       signed.js       colours around 0
//   compareMaps.js     the three maps, with one cursor      compareHeads.js    how much each head differs
//   compareReadout.js  what is said beside them             compareControls.js    buttons, menus, keyboard

import { listen, redraw } from "./chart.js";
import { makeControls, showState } from "./compareControls.js";
import { makeHeads, showHeads } from "./compareHeads.js";
import * as matrix from "./compareMaps.js";
import { readOut } from "./compareReadout.js";
import { decodeAhead, onDecoded, page } from "./data.js";
import { onChange, readHash, state } from "./state.js";

makeControls();
makeHeads();
onChange(showState);
onChange(showHeads);
onChange(readOut);
onChange(redraw);
onDecoded(() => {
  readOut();
  redraw();
  setTimeout(() => page.texts.forEach((text, number) => decodeAhead(number, text.masks[0].name, state.layer)));
});
listen({ matrix });
addEventListener("hashchange", readHash);
readHash();
