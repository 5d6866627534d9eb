// Beside the maps, in words and as a table: what is held, and where differences or effects are largest.

import { isolated } from "./captions.js";
import { page } from "./data.js";
import { makeHeading, makeNameButton, tell } from "./elements.js";
import { cellName, listed, maps, nameOf, numbersAt, OF_RECORDS, sentence, written } from "./panels.js";
import { change, state } from "./state.js";
import { nextAt } from "./stepping.js";
import { axes, placeOf } from "./units.js";

const ROWS = 8;
const MANY = page.panels.length > 4; // too many for a column each: the largest, and where it is

const [said, values, findings] = ["said", "values", "largest"].map((name) => document.getElementById(name));

/** Say what the state shows now. */
export function readOut() {
  document.getElementById("about").textContent = page.about.join("\n");
  const numbers = numbersAt(state.token, state.partner);
  tell(said, numbers ? `${sentence()} ${cellName(state.token, state.partner)}: ${listed(numbers, ", ")}.` : sentence());
  const isHeld = state.token !== null || state.partner !== null;
  const cells = isHeld || OF_RECORDS ? largest(state) : [];
  values.hidden = cells.length === 0;
  values.tBodies[0].replaceChildren(...cells.map(row));
  values.tHead.rows[0].cells[0].textContent = isHeld ? `of ${held()}` : "largest";
  if (!OF_RECORDS) findings.tBodies[0].replaceChildren(...largest().map(row));
}

/** Go to the next (1) of the largest cells, or to the one before (-1). */
export function stepFinding(step) {
  const cells = largest();
  const next = nextAt(cells, cells.findIndex(isHere), step);
  if (next) change({ token: next.query.members[0], partner: next.key.members[0] });
}

/** The query that is held, or else the key. */
function held() {
  const { queries, keys } = axes();
  const [row, column] = [placeOf(queries, state.token), placeOf(keys, state.partner)];
  if (row < 0 && column < 0) return "what the filters hide";
  return isolated(row >= 0 ? nameOf(queries[row], "query") : nameOf(keys[column], "key"));
}

function isHere({ query, key }) {
  return query.members[0] === state.token && key.members[0] === state.partner;
}

/** Make the headings of the tables: a column a panel. */
export function makeReadOut() {
  const names = MANY ? ["in", "number"] : page.panels.map((panel) => panel.name);
  for (const [table, first] of [[values, ""], [findings, "largest"]]) {
    const line = document.createElement("tr");
    line.append(...[first, ...names].map((name) => makeHeading(name)));
    table.tHead.append(line);
  }
}

/** Where the signed map, or else any map, is largest in size, that first: of this query, or else of this key, or of all. */
function largest({ token, partner } = { token: null, partner: null }) {
  const all = maps();
  if (all === null) return [];
  const { queries, keys } = axes();
  const signed = all.panels.find((panel) => panel.signed);
  const ranked = signed ? [signed] : page.apart ? all.panels.slice(0, 1) : all.panels;
  const sizes = ranked.length === 1 ? ranked[0].values : ranked[0].values.map((_, place) => ranked[largestIn(ranked, place)].values[place]);
  const [row, column] = [placeOf(queries, token), placeOf(keys, partner)];
  const [first, last, step] = row >= 0 ? [row * keys.length, (row + 1) * keys.length, 1] : [Math.max(column, 0), sizes.length, column >= 0 ? keys.length : 1];
  const best = [];
  for (let place = first; place < last; place += step) {
    const size = Math.abs(sizes[place]);
    if (!(size > (best[ROWS - 1]?.size ?? 0))) continue; // nor where it is hidden
    best.splice(best.findLastIndex((one) => one.size >= size) + 1, 0, { place, size });
    best.length = Math.min(best.length, ROWS);
  }
  return best.map(({ place }) => ({
    query: queries[Math.floor(place / keys.length)], key: keys[place % keys.length],
    numbers: MANY ? [largestIn(all.panels, place)].flatMap((panel) => [page.panels[panel].name, written(all.panels[panel], place)])
      : all.panels.map((panel) => written(panel, place)),
  }));
}

/** The number of the panel whose cell is largest in size. */
function largestIn(panels, place) {
  const size = (number) => Math.abs(panels[number].values[place]) || 0; // hidden: NaN
  return panels.reduce((best, _, number) => (size(number) > size(best) ? number : best), 0);
}

function row({ query, key, numbers }) {
  const line = document.createElement("tr");
  line.classList.toggle("held", isHere({ query, key }));
  const named = (unit, side) => `${OF_RECORDS ? `${unit.members[0]}\u00a0` : ""}${isolated(nameOf(unit, side))}`;
  const name = `${named(query, "query")}${page.between}${named(key, "key")}`;
  const hold = () => change({ token: query.members[0], partner: key.members[0] });
  line.insertCell().append(makeNameButton(name, "ltr", hold)); // as it is drawn
  for (const text of numbers) line.insertCell().textContent = text;
  return line;
}
