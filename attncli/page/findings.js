// The heads that stand out: each has an edge between two words far above its usual weight. The page opens on the first.
// Of a text that a model wrote, its steps are listed instead: each token with what it was made of.

import { isolated, value } from "./captions.js";
import { scrollToToken } from "./chart.js";
import { findingsOf, headsOf, page, tokensOf } from "./data.js";
import { change, state } from "./state.js";
import { nextAt } from "./stepping.js";

const [section, title, note, list, next] = ["findings", "findings-title", "findings-note", "findings-list", "findings-next"].map((name) => document.getElementById(name));

let listed = ""; // what the list was made for

/** Whether a head stands out. */
export function isFinding(layer, head) {
  return found().heads.some((one) => one.layer === layer && one.head === head);
}

function found() {
  return findingsOf(state.text, state.mask);
}

/** The finding or step that is looked at; -1 if it is none. */
function current({ heads, steps }) {
  if (steps) return state.side === "query" ? steps.findIndex(({ query }) => query === state.token) : -1;
  return heads.findIndex(({ layer, head }) => layer === state.layer && head === state.head);
}

/** Show the list, with the finding that is looked at marked. */
export function showFindings() {
  const all = found();
  const name = [state.text, state.mask, tokensOf(state.text, "query").tokens.length].join();
  if (listed !== name) {
    listed = name;
    note.textContent = describe(all);
    title.textContent = all.steps ? "Written" : "Findings";
    list.replaceChildren(...(all.steps ? all.steps.map(stepEntry) : all.heads.map(entry)));
    list.classList.toggle("steps", Boolean(all.steps));
    list.hidden = list.children.length === 0;
  }
  const now = current(all);
  const likely = all.steps?.[now]?.likely ?? [];
  next.textContent = likely.map(([word, probability]) => `${isolated(word)} ${percent(probability)}`).join("  ");
  next.hidden = likely.length === 0;
  [...list.querySelectorAll("button")].forEach((button, place) => {
    button.setAttribute("aria-pressed", String(place === now));
    button.tabIndex = place === Math.max(now, 0) ? 0 : -1;
  });
  const marked = list.children[now];
  if (marked) list.scrollTop = Math.min(Math.max(list.scrollTop, marked.offsetTop + marked.offsetHeight - list.clientHeight), marked.offsetTop);
  section.hidden = page.texts[state.text].tokens.length === 0;
}

function describe({ heads, count, texts, steps }) {
  const usual = texts > 1 ? `this text and ${texts - 1} sample texts` : "this text alone";
  if (steps) return `Each written token with its probability. Then the edge farthest above its usual weight, in the row that the token was chosen from. Usual: over ${usual}.`;
  if (count === 0) return `No head gives a word far more weight than usual in ${usual}.`;
  const shown = heads.length < count ? ` Listed: the first ${heads.length}.` : "";
  return `${count} of ${page.layers.flatMap(headsOf).length} heads give a word far more weight than usual. In brackets: the usual weight, over ${usual}.${shown}`;
}

function entry(finding) {
  const { layer, head, query, key, weight, usual } = finding;
  const [from, to] = [tokensOf(state.text, "query").tokens[query], tokensOf(state.text, "key").tokens[key]].map(isolated);
  return item([`${layer}.${head}`, `${from} → ${to}`, value(weight), `(${value(usual)})`], () => goTo(finding));
}

function stepEntry(step) {
  const { tokens } = tokensOf(state.text, "query");
  const [written, key] = [tokens[step.token], step.edge && tokensOf(state.text, "key").tokens[step.edge.key]];
  const edge = step.edge ? [`${step.edge.layer}.${step.edge.head}`, `→ ${isolated(key)}`, value(step.edge.weight)] : ["", "", ""];
  return item([isolated(written), step.probability === null ? "" : percent(step.probability), ...edge], () => goToStep(step));
}

function percent(probability) {
  return `${(100 * probability).toFixed(probability < 0.0995 ? 1 : 0)}%`;
}

function item(texts, act) {
  const button = document.createElement("button");
  button.type = "button";
  const parts = texts.map((text) => {
    const part = document.createElement("span");
    part.textContent = text;
    return part;
  });
  button.append(...parts.flatMap((part) => [part, " "]));
  button.addEventListener("click", act);
  const made = document.createElement("li");
  made.append(button);
  return made;
}

/** Hold the row that a token was chosen from, in the head with its farthest edge. */
function goToStep({ query, edge }) {
  goTo({ layer: edge?.layer ?? state.layer, head: edge?.head ?? state.head, query });
}

/** Look at a head and hold the query that makes it stand out. */
function goTo({ layer, head, query }) {
  const { segments } = tokensOf(state.text, "query");
  const kept = state.segments === "all" || state.segments[0] === "AB"[segments[query]] ? {} : { segments: "all" };
  change({ layer, head, heads: [head], token: query, side: "query", ...kept });
  scrollToToken();
}

/** Go to the next finding or step (1) or to the one before (-1). */
export function stepFinding(step) {
  const all = found();
  const [places, go] = all.steps ? [all.steps, goToStep] : [all.heads, goTo];
  const chosen = nextAt(places, current(all), step);
  if (chosen) go(chosen);
}
