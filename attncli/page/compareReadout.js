// The side panel, in words and as a table: the held cell, and the largest differences or effects.

import { isolate } from "./captions.js";
import { page } from "./data.js";
import { makeHeading, makeNameButton, tell } from "./elements.js";
import { cellName, joinNumbers, maps, nameOf, numbersAt, OF_RECORDS, describeMaps, formatCell } from "./panels.js";
import { change, state } from "./state.js";
import { nextAt } from "./stepping.js";
import { axes, placeOf } from "./units.js";

const ROWS = 8;
const MANY = page.panels.length > 4; // panels: too many for a column each, so a row has the largest number and its panel

const [said, values, findings] = ["said", "values", "largest"].map((name) => document.getElementById(name));

/** Update the side panel from the state. */
export function readOut() {
  const titles = OF_RECORDS ? [] : page.panels.filter(({ about }) => about).map(({ name, about }) => `${name}: ${about}`); // cut where there is no room
  document.getElementById("about").textContent = [...titles, ...page.about].join("\n");
  const numbers = numbersAt(state.token, state.partner);
  tell(said, numbers ? `${describeMaps()} ${OF_RECORDS ? "" : "Held: "}${cellName(state.token, state.partner)}: ${joinNumbers(numbers, ", ")}.` : describeMaps());
  const isHeld = state.token !== null || state.partner !== null;
  const cells = isHeld || OF_RECORDS ? largest(state) : [];
  values.hidden = cells.length === 0;
  values.tBodies[0].replaceChildren(...cells.map(row));
  values.tHead.rows[0].cells[0].textContent = isHeld ? `of ${nameOfHeld()}` : "largest";
  if (!OF_RECORDS) findings.tBodies[0].replaceChildren(...largest().map(row));
}

/** Go to the next (1) or previous (-1) of the largest cells. */
export function stepFinding(step) {
  const cells = largest();
  const next = nextAt(cells, cells.findIndex(isHeldCell), step);
  if (next) change({ token: next.query.members[0], partner: next.key.members[0] });
}

/** Return the name of the held query, or else of the held key. */
function nameOfHeld() {
  const { queries, keys } = axes();
  const [row, column] = [placeOf(queries, state.token), placeOf(keys, state.partner)];
  if (row < 0 && column < 0) return "what the filters hide";
  return isolate(row >= 0 ? nameOf(queries[row], "query") : nameOf(keys[column], "key"));
}

function isHeldCell({ query, key }) {
  return query.members[0] === state.token && key.members[0] === state.partner;
}

/** Fill the headings of the tables, a column per panel. */
export function makeReadOut() {
  const names = MANY ? ["in", "number"] : page.panels.map((panel) => panel.name);
  for (const [table, first] of [[values, ""], [findings, "largest"]]) {
    const line = document.createElement("tr");
    line.append(...[first, ...names].map((name) => makeHeading(name)));
    table.tHead.append(line);
  }
}

/** Return the largest cells, of the held query or else of the held key, if any; in the signed map or else in any map. */
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
    if (!(size > (best[ROWS - 1]?.size ?? 0))) continue; // false for a hidden cell (NaN)
    best.splice(best.findLastIndex((one) => one.size >= size) + 1, 0, { place, size });
    best.length = Math.min(best.length, ROWS);
  }
  return best.map(({ place }) => ({
    query: queries[Math.floor(place / keys.length)], key: keys[place % keys.length],
    numbers: MANY ? [largestIn(all.panels, place)].flatMap((panel) => [page.panels[panel].name, formatCell(all.panels[panel], place)])
      : all.panels.map((panel) => formatCell(panel, place)),
  }));
}

/** Return the number of the panel in which this cell has the largest size. */
function largestIn(panels, place) {
  const size = (number) => Math.abs(panels[number].values[place]) || 0; // NaN: hidden
  return panels.reduce((best, _, number) => (size(number) > size(best) ? number : best), 0);
}

function row({ query, key, numbers }) {
  const line = document.createElement("tr");
  line.classList.toggle("held", isHeldCell({ query, key }));
  const named = (unit, side) => `${OF_RECORDS ? `${unit.members[0]}\u00a0` : ""}${isolate(nameOf(unit, side))}`;
  const name = `${named(query, "query")}${page.between}${named(key, "key")}`;
  const hold = () => change({ token: query.members[0], partner: key.members[0] });
  line.insertCell().append(makeNameButton(name, "ltr", hold)); // in the direction that is drawn
  for (const text of numbers) line.insertCell().textContent = text;
  return line;
}
