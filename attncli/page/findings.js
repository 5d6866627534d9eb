// The heads that stand out: each has an edge between two words far above its usual weight. The page opens on the first.

import { isolated, value } from "./captions.js";
import { scrollToToken } from "./chart.js";
import { findingsOf, page, tokensOf } from "./data.js";
import { change, state } from "./state.js";

const [section, note, list] = ["findings", "findings-note", "findings-list"].map((name) => document.getElementById(name));

let listed = ""; // what the list was made for

/** Whether a head stands out. */
export function isFinding(layer, head) {
  return found().heads.some((one) => one.layer === layer && one.head === head);
}

function found() {
  return findingsOf(state.text, state.mask);
}

/** The finding that is looked at; -1 if it is none. */
function current({ heads }) {
  return heads.findIndex(({ layer, head }) => layer === state.layer && head === state.head);
}

/** Show the list, with the finding that is looked at marked. */
export function showFindings() {
  const all = found();
  const name = [state.text, state.mask, tokensOf(state.text, "query").tokens.length].join();
  if (listed !== name) {
    listed = name;
    note.textContent = describe(all);
    list.replaceChildren(...all.heads.map(entry));
    list.hidden = all.heads.length === 0;
  }
  const now = current(all);
  [...list.querySelectorAll("button")].forEach((button, place) => {
    button.setAttribute("aria-pressed", String(place === now));
    button.tabIndex = place === Math.max(now, 0) ? 0 : -1;
  });
  const marked = list.children[now];
  if (marked) list.scrollTop = Math.min(Math.max(list.scrollTop, marked.offsetTop + marked.offsetHeight - list.clientHeight), marked.offsetTop);
  section.hidden = page.texts[state.text].tokens.length === 0;
}

function describe({ heads, count, texts }) {
  const usual = texts > 1 ? `this text and ${texts - 1} sample texts` : "this text alone";
  if (count === 0) return `No head gives a word far more weight than usual in ${usual}.`;
  const shown = heads.length < count ? ` The first ${heads.length}:` : "";
  return `${count} of ${page.layers.length * page.heads.length} heads give a word far more weight than usual. In brackets: usual, over ${usual}.${shown}`;
}

function entry(finding) {
  const { layer, head, query, key, weight, usual } = finding;
  const [from, to] = [tokensOf(state.text, "query").tokens[query], tokensOf(state.text, "key").tokens[key]].map(isolated);
  const button = document.createElement("button");
  button.type = "button";
  const parts = [`${layer}.${head}`, `${from} → ${to}`, value(weight), `(${value(usual)})`].map((text) => {
    const part = document.createElement("span");
    part.textContent = text;
    return part;
  });
  button.append(...parts.flatMap((part) => [part, " "]));
  button.addEventListener("click", () => goTo(finding));
  const item = document.createElement("li");
  item.append(button);
  return item;
}

/** Look at a head and hold the query that makes it stand out. */
function goTo({ layer, head, query }) {
  const { segments } = tokensOf(state.text, "query");
  const kept = state.segments === "all" || state.segments[0] === "AB"[segments[query]] ? {} : { segments: "all" };
  change({ layer, head, heads: [head], token: query, side: "query", ...kept });
  scrollToToken();
}

/** Go to the next finding (1) or to the one before (-1). */
export function stepFinding(step) {
  const all = found();
  const now = current(all);
  const next = all.heads[now < 0 ? 0 : Math.min(Math.max(now + step, 0), all.heads.length - 1)];
  if (next) goTo(next);
}
