// Beside the chart, in words and as a table: what can be seen there, for whoever reads rather than looks.

import { shownQuery } from "./neuron.js";
import { state } from "./state.js";
import { axes, isHidden, placeOf, shownWeights, unitOf } from "./units.js";
import { about, isolated, kind, pooling, value } from "./captions.js";
import { isWhole } from "./data.js";

const ROWS = 8;

const said = document.getElementById("said");
const values = document.getElementById("values");

/** Say what the state shows now. */
export function readOut() {
  document.getElementById("about").textContent = about();
  const token = state.view === "neuron" ? shownQuery() : state.token;
  const side = state.view === "neuron" ? "query" : state.side;
  const found = token === null ? null : partnersOf(token, side);
  values.hidden = found === null;
  const head = `Layer ${state.layer}, head ${state.head}: ${kind(state.layer, state.head)}.`;
  if (!isWhole(state.layer, state.head)) {
    tell(`${head} It is here small only: ${pooling(state.layer, state.head)}. record.page("all.html") has all of it.`);
    return;
  }
  if (found === null) {
    tell(`${head} Point at a token, or hold one: j and k, or a click.`);
    return;
  }
  const partner = side === "query" ? "key" : "query";
  const shown = strongest(found);
  const [best] = shown;
  const hidden = found.filter((one) => isHidden(one.weight)).length;
  const others = hidden ? ` Hidden: ${hidden} of ${found.length}.` : "";
  tell(`${head} ${side} ${token} “${isolated(unitOf(token, side).label)}”: strongest ${partner} ${best ? `“${isolated(best.label)}” ${value(best.weight)}` : "none"}.${others}`);
  values.tHead.rows[0].cells[0].textContent = side === "query" ? "looks at" : "is looked at by";
  values.tBodies[0].replaceChildren(...shown.map(row));
}

/** Text that has not changed is not said again. */
function tell(text) {
  if (said.textContent !== text) said.textContent = text;
}

/** All partners, `[{label, place, weight}]`; null where the token is filtered out. */
function partnersOf(token, side) {
  const { queries, keys } = axes();
  const place = placeOf(side === "query" ? queries : keys, token);
  const weights = place < 0 || !isWhole(state.layer, state.head) ? null : shownWeights(queries, keys, state.layer, state.head);
  if (weights === null) return null;
  const cell = (other) => (side === "query" ? place * keys.length + other : other * keys.length + place);
  return (side === "query" ? keys : queries).map((unit, other) => ({ label: unit.label, place: unit.members[0], weight: weights[cell(other)] }));
}

/** Those with the largest weights. */
function strongest(partners) {
  return partners
    .filter((one) => one.weight > 0 && one.weight >= state.threshold)
    .sort((a, b) => b.weight - a.weight)
    .slice(0, ROWS);
}

function row({ label, place, weight }) {
  const line = document.createElement("tr");
  const name = document.createElement("bdi");
  name.dir = "auto"; // as it is drawn
  name.textContent = label;
  line.insertCell().append(name, ` ${place}`);
  line.insertCell().textContent = value(weight);
  return line;
}
