// Beside the maps, in words and as a table: what is held, else where the head differs most.

import { isolated } from "./captions.js";
import { page } from "./data.js";
import { bothNames, cellName, kinds, maps, movedOf, NAMES, numbersAt, written } from "./sides.js";
import { change, state } from "./state.js";
import { axes, placeOf } from "./units.js";

const ROWS = 8;

const said = document.getElementById("said");
const values = document.getElementById("values");

/** Say what the state shows now. */
export function readOut() {
  document.getElementById("about").textContent = page.about.join("\n");
  const head = `Layer ${state.layer}, head ${state.head}: ${movedOf(state.layer, state.head).toFixed(3)} of the weight moved; ${kinds()}.`;
  const numbers = numbersAt(state.token, state.partner);
  const held = numbers ? ` ${cellName(state.token, state.partner)}: ${NAMES.map((name, number) => `${name} ${numbers[number]}`).join(", ")}.` : "";
  tell(head + held);
  const cells = largest();
  values.hidden = cells.length === 0;
  values.tBodies[0].replaceChildren(...cells.map(row));
}

/** Text that has not changed is not said again. */
function tell(text) {
  if (said.textContent !== text) said.textContent = text;
}

/** The cells where A and B differ most, largest first, of the query or else the key that is held, or of all. */
function largest() {
  const all = maps();
  if (all === null) return [];
  const { queries, keys } = axes();
  const [row, column] = [placeOf(queries, state.token), placeOf(keys, state.partner)];
  const [first, last, step] = row >= 0 ? [row * keys.length, (row + 1) * keys.length, 1] : [Math.max(column, 0), all.change.length, column >= 0 ? keys.length : 1];
  const best = [];
  for (let place = first; place < last; place += step) {
    const size = Math.abs(all.change[place]);
    if (!(size > (best[ROWS - 1]?.size ?? 0))) continue; // nor where it is hidden
    best.splice(best.findLastIndex((one) => one.size >= size) + 1, 0, { place, size });
    best.length = Math.min(best.length, ROWS);
  }
  return best.map(({ place }) => ({
    query: queries[Math.floor(place / keys.length)], key: keys[place % keys.length],
    numbers: [all.a, all.b, all.change].map((map) => map[place]),
  }));
}

function row({ query, key, numbers }) {
  const line = document.createElement("tr");
  const hold = document.createElement("button");
  const name = document.createElement("bdi");
  name.dir = "ltr"; // as it is drawn
  name.textContent = `${query.members[0]} ${isolated(bothNames(query, "query"))} → ${key.members[0]} ${isolated(bothNames(key, "key"))}`;
  hold.type = "button";
  hold.append(name);
  hold.addEventListener("click", () => change({ token: query.members[0], partner: key.members[0] }));
  line.insertCell().append(hold);
  for (const text of written(numbers)) line.insertCell().textContent = text;
  return line;
}
