// The findings: heads with an edge far above its usual weight. The page opens on the first.
// For a text that a model wrote, the list has the written tokens instead, each with its edge farthest above usual.

import { isolate, value } from "./captions.js";
import { scrollToToken } from "./chart.js";
import { findingsOf, headsOf, page, tokensOf } from "./data.js";
import { change, state } from "./state.js";
import { makeButton, scrollTo } from "./elements.js";
import { nextAt } from "./stepping.js";

const [section, title, note, list, next] = ["findings", "findings-title", "findings-note", "findings-list", "findings-next"].map((name) => document.getElementById(name));

const together = document.getElementById("all-written");

let listed = ""; // the text and mask of the list

/** Return true if a head is a finding. */
export function isFinding(layer, head) {
  return found().heads.some((one) => one.layer === layer && one.head === head);
}

function found() {
  return findingsOf(state.text, state.mask);
}

/** Return the place of the selected finding or written token; -1 if none is selected. */
function current({ heads, steps }) {
  if (steps) return state.side === "query" && state.token !== null ? steps.findIndex(({ query }) => query === state.token) : -1;
  return heads.findIndex(({ layer, head }) => layer === state.layer && head === state.head);
}

/** Show the list, and mark the selected entry. */
export function showFindings() {
  const all = found();
  const name = [state.text, state.mask, tokensOf(state.text, "query").tokens.length].join();
  if (listed !== name) {
    listed = name;
    note.textContent = describe(all);
    title.textContent = all.steps ? "Written" : "Findings";
    list.replaceChildren(...(all.steps ? all.steps.map(stepEntry) : all.heads.map(entry)));
    together.hidden = !all.steps;
    list.classList.toggle("steps", Boolean(all.steps));
    list.hidden = list.children.length === 0;
  }
  const now = current(all);
  together.setAttribute("aria-pressed", String(state.token === null));
  const likely = all.steps?.[now]?.likely ?? [];
  next.textContent = likely.map(([word, probability]) => `${isolate(word)} ${percent(probability)}`).join("  ");
  next.hidden = likely.length === 0;
  [...list.querySelectorAll("button")].forEach((button, place) => {
    button.setAttribute("aria-pressed", String(place === now));
    button.tabIndex = place === Math.max(now, 0) ? 0 : -1;
  });
  if (now >= 0) scrollTo(list, list.children[now]);
  section.hidden = page.texts[state.text].tokens.length === 0;
}

function describe({ heads, count, texts, steps }) {
  const usual = texts > 1 ? `this text and ${texts - 1} sample texts` : "this text alone";
  if (steps) return `Each written token with its probability. Then the edge farthest above its usual weight, at the position that predicted the token. Usual: over ${usual}.`;
  if (count === 0) return `No head gives any key far more weight than usual. Usual: over ${usual}.`;
  const shown = heads.length < count ? ` Listed: the first ${heads.length}.` : "";
  return `${count} of ${page.layers.flatMap(headsOf).length} heads ${count === 1 ? "gives" : "give"} a key far more weight than usual. In brackets: the usual weight, over ${usual}.${shown}`;
}

function entry(finding) {
  const { layer, head, query, key, weight, usual } = finding;
  const [from, to] = [tokensOf(state.text, "query").tokens[query], tokensOf(state.text, "key").tokens[key]].map(isolate);
  return item([`${layer}.${head}`, `${from} → ${to}`, value(weight), `(${value(usual)})`], () => goTo(finding));
}

function stepEntry(step) {
  const { tokens } = tokensOf(state.text, "query");
  const [written, key] = [tokens[step.token], step.edge && tokensOf(state.text, "key").tokens[step.edge.key]];
  const edge = step.edge ? [`${step.edge.layer}.${step.edge.head}`, `→ ${isolate(key)}`, value(step.edge.weight)] : ["", "", ""];
  return item([isolate(written), step.probability === null ? "" : percent(step.probability), ...edge], () => goToStep(step));
}

function percent(probability) {
  return `${(100 * probability).toFixed(probability < 0.0995 ? 1 : 0)}%`;
}

function item(texts, act) {
  const button = makeButton("", act);
  for (const text of texts) {
    const part = document.createElement("span");
    part.textContent = text;
    button.append(part, " ");
  }
  const made = document.createElement("li");
  made.append(button);
  return made;
}

/** Hold the query that predicted a written token, in the head with the edge farthest above usual. */
function goToStep({ query, edge }) {
  goTo({ layer: edge?.layer ?? state.layer, head: edge?.head ?? state.head, query });
}

/** Select a head and hold the query of its edge. */
function goTo({ layer, head, query }) {
  const { segments } = tokensOf(state.text, "query");
  const kept = state.segments === "all" || state.segments[0] === "AB"[segments[query]] ? {} : { segments: "all" };
  change({ layer, head, heads: [head], token: query, side: "query", ...kept });
  scrollToToken();
}

/** Listen to the button that shows the attention of all written tokens together. */
export function listenToFindings() {
  together.addEventListener("click", () => change({ token: null }));
}

/** Go to the next (1) or previous (-1) finding or written token. */
export function stepFinding(step) {
  const all = found();
  const [places, go] = all.steps ? [all.steps, goToStep] : [all.heads, goTo];
  const chosen = nextAt(places, current(all), step);
  if (chosen) go(chosen);
}
