// The text itself above the drawing: each token shaded by the weight between it and the token that is held or pointed at.

import { scrollToToken } from "./chart.js";
import { page, tokensOf } from "./data.js";
import { makeButton } from "./elements.js";
import { drawnHeads } from "./lines.js";
import { partnersOf } from "./partners.js";
import { change, state } from "./state.js";
import { axes, beginsText } from "./units.js";

const STRONGEST = 55; // per cent of the accent's colour that a weight of 1 has behind it: the text stays readable

const [strip, note, field, count] = ["sentence", "note", "find", "found"].map((name) => document.getElementById(name));

let listed = ""; // what the strip was made for

/** Show the text, or both texts where the keys are of another one. */
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
  if (strip.querySelector("[tabindex='0']") === null) strip.querySelector("button")?.setAttribute("tabindex", "0");
}

/** Shade the tokens for the token `{token, side}`: that which is pointed at, else that which is held. */
export function shade(pointed) {
  const chosen = pointed ?? state;
  const heads = state.view === "heads" ? drawnHeads() : [state.head];
  const partners = chosen.token === null ? [] : (partnersOf(chosen, heads) ?? []);
  const weights = new Map(partners.map(({ token, best }) => [token, best.weight]));
  for (const one of strip.querySelectorAll("button")) {
    const isPartner = one.dataset.side === undefined || one.dataset.side !== chosen.side;
    const weight = isPartner ? (weights.get(Number(one.dataset.token)) ?? 0) : 0;
    const shown = `${(STRONGEST * Math.min(weight, 1)).toFixed(1)}%`;
    if (one.style.getPropertyValue("--weight") !== shown) one.style.setProperty("--weight", shown); // else it is slow
  }
}

function isOn(button, side, token) {
  return token !== null && Number(button.dataset.token) === token && (button.dataset.side ?? side) === side;
}

/** The units of a line as buttons; pieces of a word touch each other, and a second segment begins a new line. */
function line(units, side) {
  const { words } = tokensOf(state.text, side ?? "query");
  const inner = new Set(words.flatMap(([, members]) => members.slice(1)));
  return units.flatMap((unit, place) => {
    const [token] = unit.members;
    const label = state.words || !inner.has(token) ? unit.label : unit.label.replace(/^##/, "");
    const button = makeButton(label, () => hold(token, side), { token, ...(side && { side }) });
    button.classList.toggle("special", unit.special);
    button.title = `Hold token ${token}`;
    const begins = beginsText(units, place, side ?? "query");
    const isFirst = place === 0 && side === "key";
    return [...(begins || isFirst ? [document.createElement("hr")] : []), ...(inner.has(token) && !state.words ? [] : [" "]), button];
  });
}

/** Hold a token, or let go of it. */
function hold(token, side = state.side) {
  const again = state.token === token && state.side === side;
  change({ token: again ? null : token, side });
  scrollToToken();
}

// --- searching ---------------------------------------------------------------------------------------------

/** Mark the tokens that contain what is in the field; gives them. */
function search() {
  const wanted = field.value.trim().toLowerCase();
  const buttons = [...strip.querySelectorAll("button")];
  const hits = wanted ? buttons.filter((one) => one.textContent.toLowerCase().includes(wanted)) : [];
  for (const one of buttons) one.classList.toggle("hit", hits.includes(one));
  count.textContent = wanted ? `${hits.length} found` : "";
  return hits;
}

function keyInField(event) {
  event.stopPropagation(); // letters are the field's own, and no keys of the page
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
    next.scrollIntoView({ block: "nearest" });
    scrollToToken();
  }
}

/** Go to the field that finds tokens. */
export function goToSearch() {
  field.focus();
  field.select();
}

/** Begin to listen. */
export function listenToSentence() {
  field.addEventListener("input", search);
  field.addEventListener("keydown", keyInField);
}
