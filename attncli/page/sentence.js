// The text above the drawing. Each token is shaded by its weight for the token that is held or under the pointer.

import { scrollToToken } from "./chart.js";
import { findingsOf, page, tokensOf } from "./data.js";
import { makeButton, scrollTo } from "./elements.js";
import { drawnHeads } from "./lines.js";
import { partnersOf, promptPartners } from "./partners.js";
import { change, state } from "./state.js";
import { reveal } from "./toolbar.js";
import { axes, beginsText } from "./units.js";

const STRONGEST = 55; // per cent of the accent colour behind a weight of 1, so that the text stays readable

const [strip, note, field, count] = ["sentence", "note", "find", "found"].map((name) => document.getElementById(name));

let listed = ""; // the text and filters of the strip

/** Show the text, or both texts if the keys are those of another text. */
export function showSentence() {
  const name = [state.text, state.words, state.special, state.segments, tokensOf(state.text, "query").tokens.join("\n")].join();
  if (listed !== name) {
    listed = name;
    const { queries, keys } = axes();
    const apart = tokensOf(state.text, "query") !== tokensOf(state.text, "key") || ["AB", "BA"].includes(state.segments);
    strip.replaceChildren(...(apart ? [...line(queries, "query"), ...line(keys, "key")] : line(queries)));
    note.textContent = page.texts[state.text].note;
    note.hidden = note.textContent === "";
    search();
  }
  for (const one of strip.querySelectorAll("button")) {
    const held = isOn(one, state.side, state.token);
    one.setAttribute("aria-pressed", String(held));
    one.tabIndex = held ? 0 : -1;
  }
  const held = strip.querySelector("[aria-pressed='true']");
  if (held === null) strip.querySelector("button")?.setAttribute("tabindex", "0");
  else scrollTo(strip, held);
}

/**
 * Shade the tokens by their weight for `pointed`, `{token, side}`, or else for the held token. Without either, shade the
 * prompt of a written text by its share of attention, the largest share strongest.
 */
export function shade(pointed) {
  const chosen = pointed ?? state;
  const heads = state.view === "heads" ? drawnHeads() : [state.head];
  const partners = chosen.token === null ? promptPartners() : (partnersOf(chosen, heads) ?? []);
  const most = chosen.token === null ? Math.max(...partners.map(({ best }) => best.weight)) : 1;
  const weights = new Map(partners.map(({ token, best }) => [token, best.weight / most]));
  for (const one of strip.querySelectorAll("button")) {
    const side = chosen.token === null ? "query" : chosen.side; // a written token is a query
    const isPartner = one.dataset.side === undefined || one.dataset.side !== side;
    const weight = isPartner ? (weights.get(Number(one.dataset.token)) ?? 0) : 0;
    const shown = `${(STRONGEST * Math.min(weight, 1)).toFixed(1)}%`;
    if (one.style.getPropertyValue("--weight") !== shown) one.style.setProperty("--weight", shown); // setting it each time is slow
  }
}

function isOn(button, side, token) {
  return token !== null && Number(button.dataset.token) === token && (button.dataset.side ?? side) === side;
}

/** Return units as buttons. Pieces of a word touch each other, and a second segment begins a new line. */
function line(units, side) {
  const { words } = tokensOf(state.text, side ?? "query");
  const inner = new Set(words.flatMap(([, members]) => members.slice(1)));
  const before = findingsOf(state.text, state.mask).steps?.[0]?.query ?? Infinity; // the last token of the prompt
  return units.flatMap((unit, place) => {
    const [token] = unit.members;
    const label = state.words || !inner.has(token) ? unit.label : unit.label.replace(/^##/, "");
    const button = makeButton(label, () => hold(token, side), { token, ...(side && { side }) });
    button.classList.toggle("special", unit.special);
    const isWritten = token > before && side !== "key";
    button.classList.toggle("written", isWritten);
    button.title = `Hold token ${token}${isWritten ? ", which the model wrote" : ""}`;
    const begins = beginsText(units, place, side ?? "query");
    const isFirst = place === 0 && side === "key";
    return [...(begins || isFirst ? [document.createElement("hr")] : []), ...(inner.has(token) && !state.words ? [] : [" "]), button];
  });
}

/** Hold a token, or release it. */
function hold(token, side = state.side) {
  const again = state.token === token && state.side === side;
  change({ token: again ? null : token, side });
  scrollToToken();
}

// --- searching ---------------------------------------------------------------------------------------------

/** Mark the tokens that contain the text of the field, and return them. */
function search() {
  const wanted = field.value.trim().toLowerCase();
  const buttons = [...strip.querySelectorAll("button")];
  const hits = wanted ? buttons.filter((one) => one.textContent.toLowerCase().includes(wanted)) : [];
  for (const one of buttons) one.classList.toggle("hit", hits.includes(one));
  count.textContent = wanted ? `${hits.length} found` : "";
  return hits;
}

function keyInField(event) {
  event.stopPropagation(); // keys typed in the field must not control the page
  if (event.key === "Escape") {
    field.value = "";
    search();
    document.getElementById("chart").focus();
  } else if (event.key === "Enter") {
    const hits = search();
    const now = hits.findIndex((one) => isOn(one, state.side, state.token));
    const next = hits[(now + (event.shiftKey ? hits.length - 1 : 1)) % hits.length] ?? hits[0];
    if (!next) return;
    change({ token: Number(next.dataset.token), side: next.dataset.side ?? state.side });
    scrollToToken();
  }
}

/** Focus the search field. */
export function goToSearch() {
  reveal(field);
  field.focus();
  field.select();
}

/** Listen to the search field. */
export function listenToSentence() {
  field.addEventListener("input", search);
  field.addEventListener("keydown", keyInField);
}
