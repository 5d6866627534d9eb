// The text fields, the menus of models and earlier texts, and the progress of a request.
// The text that the model writes is in liveWrite.js.

import { hasVectors, maskOf } from "./data.js";
import { ask, stop } from "./liveAsk.js";
import { savePage } from "./liveSave.js";
import { makeSources, showSources } from "./liveSources.js";
import { makeWriting, noteReplaced, forgetWriting, showWriting, writing } from "./liveWrite.js";
import { find, hasSelectedVectors, isShown, hasAnswerOf, live, showAnswer, shownText, storeAnswer } from "./liveTexts.js";
import { state } from "./state.js";

const element = (name) => document.getElementById(name);
const [typed, paired, models, earlier, progress, problem] = ["typed", "paired", "model", "earlier", "progress", "problem"].map(element);
const SETTLED = 1000; // milliseconds after the last key until a text is added to the history
const MOST = 50; // texts in the history, at most
const LABEL = 60; // characters of a text in the menu, at most

let pastTexts = [...live.texts]; // the texts of the history, the newest first
let settling; // a timer
let tried = ""; // the last text and head whose q and k were requested

/** Fill the fields and menus, and listen to them. */
export function makeField() {
  [typed.value, paired.value] = [live.texts[0].text, live.texts[0].pair ?? ""];
  models.replaceChildren(...live.models.map((name) => new Option(name, name)));
  models.value = live.model;
  element("models").hidden = live.models.length === 1;
  fillHistory();
  for (const field of [typed, paired]) {
    field.addEventListener("input", () => {
      forgetWriting();
      showTyped();
      clearTimeout(settling);
      settling = setTimeout(addToHistory, SETTLED);
    });
    field.addEventListener("change", addToHistory);
    field.addEventListener("keydown", keyInField);
  }
  models.addEventListener("change", () => {
    forgetWriting();
    showTyped();
  });
  makeWriting(showTyped, write);
  makeSources(showError);
  earlier.addEventListener("change", () => {
    const chosen = pastTexts[Number(earlier.value)];
    earlier.value = "";
    if (chosen === undefined) return;
    [typed.value, paired.value] = [chosen.text, chosen.pair ?? ""];
    forgetWriting();
    showTyped();
  });
  element("unfold").addEventListener("click", ({ target }) => target.setAttribute("aria-expanded", String(target.ariaExpanded !== "true")));
  element("asking").addEventListener("submit", (event) => event.preventDefault());
  element("stop").addEventListener("click", () => {
    stop();
    showError("Stopped. The drawing still shows the previous text.");
  });
  element("save-page").addEventListener("click", () => savePage({ ...makeRequest(), ...shownText() }, showError));
  document.addEventListener("keydown", (event) => {
    const isFree = !["TEXTAREA", "INPUT", "SELECT"].includes(event.target.tagName) && !element("keys").open;
    if (event.key !== "/" || !isFree || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    typed.focus();
  });
}

/** Keep keys typed in the field from controlling the page. */
function keyInField(event) {
  event.stopPropagation();
  if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
    event.preventDefault();
    addToHistory();
  } else if (event.key === "Escape") {
    element("chart").focus();
  }
}

/** Return the texts in the fields, with the written tokens and the silenced heads. */
function text() {
  return { text: typed.value, pair: paired.value || null, ...writing() };
}

function makeRequest() {
  const head = state.view === "neuron" ? [state.layer, state.head] : null;
  return { model: models.value, ...text(), head, fresh: !hasAnswerOf(models.value), write: false };
}

/** Show the text in the fields: immediately if its answer is stored, otherwise when the answer arrives. */
function showTyped() {
  const [model, what] = [models.value, text()];
  document.body.classList.toggle("empty", what.text.trim() === "");
  if (what.text.trim() === "") {
    stop();
    showError("");
    return;
  }
  const found = find(model, what);
  if (found) showAnswer(found);
  if (found && (state.view !== "neuron" || hasSelectedVectors(found))) {
    showError("");
    return;
  }
  request(model, what);
}

/** Keep the first `kept` of the model's tokens, and let the model continue after them. */
function write(kept) {
  const [model, what] = [models.value, text()];
  const written = what.written.slice(0, kept);
  ask({ ...makeRequest(), written, write: true }, makeHandlers((page, chunks) => {
    noteReplaced(kept, page.texts[0].written);
    storeAnswer(model, { ...what, written: page.texts[0].written }, page, chunks);
  }));
}

/** In Neuron, request q and k of a head that lacks them, once. */
export function requestVectors() {
  showWriting();
  showSources();
  if (state.view !== "neuron" || !maskOf(state.text, state.mask) || hasVectors(state.text, state.mask, state.layer, state.head)) return;
  const [model, what] = [models.value, text()];
  const name = JSON.stringify([model, what, state.layer, state.head]);
  if (name === tried || !isShown(model, what)) return;
  tried = name;
  request(model, what);
}

function request(model, what) {
  const made = makeRequest();
  if (made.head) tried = JSON.stringify([model, what, ...made.head]);
  ask(made, makeHandlers((page, chunks) => storeAnswer(model, what, page, chunks)));
}

/** Return functions that show the progress of a request. `receive(page, chunks)` gets the answer. */
function makeHandlers(receive) {
  return {
    share: (share) => {
      problem.hidden = true;
      progress.hidden = element("stop").hidden = false;
      if (share > 0) progress.value = share;
      else progress.removeAttribute("value");
    },
    answer: (page, chunks) => {
      showError("");
      receive(page, chunks);
    },
    error: showError,
  };
}

/** Show an error; hide it for "". */
function showError(error) {
  progress.hidden = element("stop").hidden = true;
  problem.textContent = error;
  problem.hidden = error === "";
}

// --- earlier texts -----------------------------------------------------------------------------------------

/** Add the text in the fields to the history, in place of a text that it continues. */
function addToHistory() {
  clearTimeout(settling);
  const now = { text: typed.value, pair: paired.value || null };
  if (!isShown(models.value, text())) return;
  const same = (one) => one.text === now.text && (one.pair ?? null) === now.pair;
  const [last] = pastTexts;
  const wasTypedOn = last && !live.texts.includes(last) && last.text !== "" && now.text.startsWith(last.text) && (last.pair ?? null) === now.pair;
  pastTexts = [now, ...pastTexts.slice(wasTypedOn ? 1 : 0).filter((one) => !same(one))].slice(0, MOST);
  fillHistory();
}

function fillHistory() {
  const label = ({ text: one, pair }) => [one, pair].filter(Boolean).join(" | ").replace(/\s+/g, " ").slice(0, LABEL) || "(nothing)";
  earlier.replaceChildren(new Option("…", ""), ...pastTexts.map((one, number) => new Option(label(one), number)));
}
