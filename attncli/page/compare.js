// The page of maps side by side: two records, or effects. This file puts the others together, as assemble.js does.
//
//   data.js, state.js, units.js, colour.js, paint.js, chart.js, save.js    shared with the page of one record
//   panels.js            the maps and their names           signed.js            colours around 0
//   compareMaps.js       the drawn maps, with one cursor    compareHeads.js      the difference of each head
//   compareReadout.js    the side panel                     compareControls.js   buttons, menus, keyboard

import { listen, redraw } from "./chart.js";
import { showCommon } from "./common.js";
import { makeControls } from "./compareControls.js";
import { makeHeads, showHeads } from "./compareHeads.js";
import * as matrix from "./compareMaps.js";
import { makeReadOut, readOut } from "./compareReadout.js";
import { decodeAhead, onDecoded, page } from "./data.js";
import { OF_RECORDS } from "./panels.js";
import { onChange, readHash, state } from "./state.js";

makeControls();
makeReadOut();
onChange(showCommon);
if (OF_RECORDS) {
  makeHeads();
  onChange(showHeads);
}
onChange(readOut);
onChange(redraw);
onDecoded(() => {
  readOut();
  redraw();
  if (OF_RECORDS) setTimeout(() => page.texts.forEach((text, number) => decodeAhead(number, text.masks[0].name, state.layer)));
});
listen({ matrix });
addEventListener("hashchange", readHash);
readHash();
