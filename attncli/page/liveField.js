// The field to type in, the menus of models and of what was looked at before, and what is said of a text that is asked for.
// What the model writes on is in liveWrite.js.

import { hasVectors, maskOf } from "./data.js";
import { ask, stop } from "./liveAsk.js";
import { savePage } from "./liveSave.js";
import { makeWriting, noteReplaced, onlyTyped, showWriting, writing } from "./liveWrite.js";
import { find, hasThem, isShown, knows, live, show, take } from "./liveTexts.js";
import { state } from "./state.js";

const element = (name) => document.getElementById(name);
const [typed, paired, models, earlier, progress, problem] = ["typed", "paired", "model", "earlier", "progress", "problem"].map(element);
const SETTLED = 1000; // milliseconds after which a text was looked at
const MOST = 50; // texts in the menu
const LABEL = 60; // characters

let before = [...live.texts]; // that were looked at, the newest first
let settling; // a timer
let tried = ""; // the head and text whose q and k were asked for last

/** Make the fields and menus, and begin to listen. */
export function makeField() {
  [typed.value, paired.value] = [live.texts[0].text, live.texts[0].pair ?? ""];
  models.replaceChildren(...live.models.map((name) => new Option(name, name)));
  models.value = live.model;
  element("models").hidden = live.models.length === 1;
  fillEarlier();
  for (const field of [typed, paired]) {
    field.addEventListener("input", () => {
      onlyTyped();
      look();
      clearTimeout(settling);
      settling = setTimeout(remember, SETTLED);
    });
    field.addEventListener("change", remember);
    field.addEventListener("keydown", keyInField);
  }
  models.addEventListener("change", () => {
    onlyTyped();
    look();
  });
  makeWriting(look, write);
  earlier.addEventListener("change", () => {
    const chosen = before[Number(earlier.value)];
    earlier.value = "";
    if (chosen === undefined) return;
    [typed.value, paired.value] = [chosen.text, chosen.pair ?? ""];
    onlyTyped();
    look();
  });
  element("asking").addEventListener("submit", (event) => event.preventDefault());
  element("stop").addEventListener("click", () => {
    stop();
    tell("Stopped. The drawing still shows the previous text.");
  });
  element("save-page").addEventListener("click", () => savePage(wish(), tell));
  document.addEventListener("keydown", (event) => {
    const isFree = !["TEXTAREA", "INPUT", "SELECT"].includes(event.target.tagName) && !element("keys").open;
    if (event.key !== "/" || !isFree || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    typed.focus();
  });
}

/** Letters are the field's own, and no keys of the page. */
function keyInField(event) {
  event.stopPropagation();
  if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
    event.preventDefault();
    remember();
  } else if (event.key === "Escape") {
    element("chart").focus();
  }
}

/** What is in the fields, with what the model wrote after it and the silenced heads. */
function text() {
  return { text: typed.value, pair: paired.value || null, ...writing() };
}

function wish() {
  const head = state.view === "neuron" ? [state.layer, state.head] : null;
  return { model: models.value, ...text(), head, fresh: !knows(models.value), write: false };
}

/** Show what is in the fields: at once if it is here, else as soon as it comes. */
function look() {
  const [model, what] = [models.value, text()];
  document.body.classList.toggle("empty", what.text.trim() === "");
  if (what.text.trim() === "") {
    stop();
    tell("");
    return;
  }
  const found = find(model, what);
  if (found) show(found);
  if (found && (state.view !== "neuron" || hasThem(found))) {
    tell("");
    return;
  }
  request(model, what);
}

/** Let the model write on after the first `kept` of its tokens. */
function write(kept) {
  const [model, what] = [models.value, text()];
  const written = what.written.slice(0, kept);
  ask({ ...wish(), written, write: true }, heard((page, chunks) => {
    noteReplaced(kept, page.texts[0].written);
    take(model, { ...what, written: page.texts[0].written }, page, chunks);
  }));
}

/** In Neuron, ask for q and k of a head that lacks them, once. */
export function lookAgain() {
  showWriting();
  if (state.view !== "neuron" || !maskOf(state.text, state.mask) || hasVectors(state.text, state.mask, state.layer, state.head)) return;
  const [model, what] = [models.value, text()];
  const name = JSON.stringify([model, what, state.layer, state.head]);
  if (name === tried || !isShown(model, what)) return;
  tried = name;
  request(model, what);
}

function request(model, what) {
  const asked = wish();
  if (asked.head) tried = JSON.stringify([model, what, ...asked.head]);
  ask(asked, heard((page, chunks) => take(model, what, page, chunks)));
}

/** What is told of an answer that is waited for. `took(page, chunks)` gets it. */
function heard(took) {
  return {
    share: (share) => {
      problem.hidden = true;
      progress.hidden = element("stop").hidden = false;
      if (share > 0) progress.value = share;
      else progress.removeAttribute("value");
    },
    answer: (page, chunks) => {
      tell("");
      took(page, chunks);
    },
    error: tell,
  };
}

/** Say what is wrong; nothing, if nothing is. */
function tell(error) {
  progress.hidden = element("stop").hidden = true;
  problem.textContent = error;
  problem.hidden = error === "";
}

// --- earlier texts -----------------------------------------------------------------------------------------

/** What was typed on from an earlier text takes its place in the menu. */
function remember() {
  clearTimeout(settling);
  const now = { text: typed.value, pair: paired.value || null };
  if (!isShown(models.value, text())) return;
  const same = (one) => one.text === now.text && (one.pair ?? null) === now.pair;
  const [last] = before;
  const wasTypedOn = last && !live.texts.includes(last) && last.text !== "" && now.text.startsWith(last.text) && (last.pair ?? null) === now.pair;
  before = [now, ...before.slice(wasTypedOn ? 1 : 0).filter((one) => !same(one))].slice(0, MOST);
  fillEarlier();
}

function fillEarlier() {
  const label = ({ text: one, pair }) => [one, pair].filter(Boolean).join(" | ").replace(/\s+/g, " ").slice(0, LABEL) || "(nothing)";
  earlier.replaceChildren(new Option("…", ""), ...before.map((one, number) => new Option(label(one), number)));
}
