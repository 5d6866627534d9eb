// The side panel: the drawing in words and as a table.

import { scrollToToken } from "./chart.js";
import { headColour } from "./colour.js";
import { lastShare } from "./heads.js";
import { makeHeading, makeNameButton, tell } from "./elements.js";
import { drawnHeads } from "./lines.js";
import { shownQuery } from "./neuron.js";
import { partnersOf, promptPartners, strongest } from "./partners.js";
import { change, state } from "./state.js";
import { axes, unitOf } from "./units.js";
import { capitalised, describeSource, headName, isolate, kind, layerName, describePooling, value } from "./captions.js";
import { hasFullMap, MEAN } from "./data.js";

const ROWS = 10;

const said = document.getElementById("said");
const values = document.getElementById("values");

let listed = ""; // the content of the table

/** Describe the drawing. pointed: the token under the pointer, `{token, side}`, or null. */
export function readOut(pointed) {
  document.getElementById("about").textContent = describeSource();
  const heads = state.view === "heads" ? drawnHeads() : [state.head].filter((head) => hasFullMap(state.layer, head));
  const chosen = pointed ?? (state.view === "neuron" ? { token: shownQuery(), side: "query" } : state);
  const prompt = chosen.token === null ? promptPartners() : [];
  const partners = prompt.length ? prompt : chosen.token === null ? null : partnersOf(chosen, heads);
  const carries = state.view === "heads" ? lastShare() : "";
  const found = Object.values(axes()).some((units) => !units.length)
    ? ["The filters leave nothing to draw."]
    : [prompt.length ? describePrompt(prompt) : partners === null ? describeNothingHeld(heads) : describeToken(chosen, partners, heads), carries && `${capitalised(carries)}.`];
  tell(said, [names(heads), ...found].filter(Boolean).join(" "));
  values.hidden = partners === null;
  if (prompt.length) list("query", strongest(prompt, ROWS), ["prompt", "share", "uniform"]);
  else if (partners !== null) {
    const title = chosen.side === "query" ? "attends to" : "attended to by";
    list(chosen.side, strongest(partners, ROWS), [title, ...(heads.length > 1 ? ["largest weight", "head"] : ["weight"])]);
  }
}

/** Name the layer and heads. */
function names(heads) {
  const layer = capitalised(layerName());
  if (heads.length > 1) return `${layer}, ${headName(...heads)}.`;
  const [head] = heads.length ? heads : [state.head];
  if (state.view === "heads" && !heads.length) return `${layer}, no head.`;
  return `${layer}, ${[headName(head), kind(state.layer, head)].filter(Boolean).join(": ")}.`;
}

function describeNothingHeld(heads) {
  if (heads.length) return "Point at a token to see its weights. Click it, or press j and k, to hold it.";
  if (state.view === "heads" && !state.heads.length) return "Switch on a head above.";
  return `This page has a small map of it, in which ${describePooling(state.layer, state.head)}. record.page("all.html") writes all of it.`;
}

function describeToken({ token, side }, partners, heads) {
  const [best] = strongest(partners, 1);
  const hidden = partners.filter((one) => one.hidden).length;
  const by = best && heads.length > 1 ? ` (head ${best.best.head})` : "";
  const found = best ? `${best.token} “${isolate(best.label)}” ${value(best.best.weight)}${by}` : "none";
  const partner = side === "query" ? "key" : "query";
  return `${capitalised(side)} ${token} “${isolate(unitOf(token, side).label)}”: strongest ${partner} ${found}.${hidden ? ` Hidden: ${hidden} of ${partners.length}.` : ""}`;
}

/** Describe the share of the whole prompt in the attention of all written tokens. */
function describePrompt(prompt) {
  const [share, uniform] = [prompt.map(({ best }) => best.weight), prompt.map((one) => one.uniform)].map((all) => all.reduce((sum, one) => sum + one, 0));
  return `All written tokens, over all layers and heads: ${share.toFixed(2)} of the attention goes to the prompt, not counting sinks. Uniform attention would give it ${uniform.toFixed(2)}.`;
}

/** List the partners of a token on this side, a row each with its weight; for several heads the largest weight and its head. */
function list(side, partners, headings) {
  const name = JSON.stringify([side, headings, partners]);
  if (listed === name) return;
  listed = name;
  const focused = values.contains(document.activeElement);
  values.tHead.rows[0].replaceChildren(...headings.map((name) => makeHeading(name)));
  values.tBodies[0].replaceChildren(...partners.map((one) => row(one, side === "query" ? "key" : "query")));
  if (focused) values.tBodies[0].querySelector("button")?.focus();
}

/** Return a row. A click goes to its token and holds it. */
function row({ label, token, values: weights, best, uniform }, side) {
  const line = document.createElement("tr");
  const button = makeNameButton(label, "auto", () => {}); // the row handles the click
  button.title = `Go to ${side} ${token} and hold it`;
  line.insertCell().append(button, ` ${token}`);
  line.insertCell().textContent = value(best.weight);
  if (uniform !== undefined) line.insertCell().textContent = value(uniform);
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
