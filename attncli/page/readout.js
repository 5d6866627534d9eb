// Beside the chart, in words and as a table: what can be seen there, for whoever reads rather than looks.

import { scrollToToken } from "./chart.js";
import { headColour } from "./colour.js";
import { carried } from "./heads.js";
import { makeHeading, makeNameButton, tell } from "./elements.js";
import { drawnHeads } from "./lines.js";
import { shownQuery } from "./neuron.js";
import { partnersOf, strongest } from "./partners.js";
import { change, state } from "./state.js";
import { axes, unitOf } from "./units.js";
import { about, headName, isolated, kind, layerName, pooling, value } from "./captions.js";
import { isWhole, MEAN } from "./data.js";

const ROWS = 10;

const said = document.getElementById("said");
const values = document.getElementById("values");

let listed = ""; // what the table shows

/** Say what is drawn now, with the token `{token, side}` that is pointed at, if there is one. */
export function readOut(pointed) {
  document.getElementById("about").textContent = about();
  const heads = state.view === "heads" ? drawnHeads() : [state.head].filter((head) => isWhole(state.layer, head));
  const chosen = pointed ?? (state.view === "neuron" ? { token: shownQuery(), side: "query" } : state);
  const partners = chosen.token === null ? null : partnersOf(chosen, heads);
  const carries = state.view === "heads" ? carried() : "";
  const found = Object.values(axes()).some((units) => !units.length)
    ? ["The filters leave nothing to draw."]
    : [partners === null ? invitation(heads) : sentence(chosen, partners, heads), carries && `${carries[0].toUpperCase()}${carries.slice(1)}.`];
  tell(said, [names(heads), ...found].filter(Boolean).join(" "));
  values.hidden = partners === null;
  if (partners !== null) list(chosen.side, strongest(partners, ROWS), heads);
}

/** Which heads are spoken of. */
function names(heads) {
  const layer = `${layerName()[0].toUpperCase()}${layerName().slice(1)}`;
  if (heads.length > 1) return `${layer}, ${headName(...heads)}.`;
  const [head] = heads.length ? heads : [state.head];
  if (state.view === "heads" && !heads.length) return `${layer}, no head.`;
  return `${layer}, ${[headName(head), kind(state.layer, head)].filter(Boolean).join(": ")}.`;
}

function invitation(heads) {
  if (heads.length) return "Point at a token to see its weights. Click it, or press j and k, to hold it.";
  if (state.view === "heads" && !state.heads.length) return "Switch on a head above.";
  return `This page has a small map of it, in which ${pooling(state.layer, state.head)}. record.page("all.html") writes all of it.`;
}

function sentence({ token, side }, partners, heads) {
  const [best] = strongest(partners, 1);
  const hidden = partners.filter((one) => one.hidden).length;
  const by = best && heads.length > 1 ? ` (head ${best.best.head})` : "";
  const found = best ? `${best.token} “${isolated(best.label)}” ${value(best.best.weight)}${by}` : "none";
  const partner = side === "query" ? "key" : "query";
  return `${side} ${token} “${isolated(unitOf(token, side).label)}”: strongest ${partner} ${found}.${hidden ? ` Hidden: ${hidden} of ${partners.length}.` : ""}`;
}

/** The partners of a token on this side, a row each with its weight; of several heads the largest, and the head that gives it. */
function list(side, partners, heads) {
  const name = JSON.stringify([side, heads, partners]);
  if (listed === name) return;
  listed = name;
  const focused = values.contains(document.activeElement);
  const columns = heads.length > 1 ? ["largest weight", "head"] : ["weight"];
  values.tHead.rows[0].replaceChildren(...[side === "query" ? "attends to" : "attended to by", ...columns].map((name) => makeHeading(name)));
  values.tBodies[0].replaceChildren(...partners.map((one) => row(one, side === "query" ? "key" : "query")));
  if (focused) values.tBodies[0].querySelector("button")?.focus();
}

/** A row that goes to its token and holds it. */
function row({ label, token, values: weights, best }, side) {
  const line = document.createElement("tr");
  const button = makeNameButton(label, "auto", () => {}); // as it is drawn; the row hears the click
  button.title = `Go to ${side} ${token} and hold it`;
  line.insertCell().append(button, ` ${token}`);
  line.insertCell().textContent = value(best.weight);
  if (weights.length > 1) {
    const cell = line.insertCell();
    cell.style.setProperty("--head", headColour(best.head));
    cell.textContent = best.head === MEAN ? "mean" : best.head;
  }
  line.addEventListener("click", () => {
    change({ token, side });
    scrollToToken();
  });
  return line;
}
