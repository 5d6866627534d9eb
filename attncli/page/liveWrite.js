// What the model writes on after the text, and the heads that are silenced for it.

import { findingsOf, maskOf, MEAN, page, tokensOf } from "./data.js";
import { state } from "./state.js";

const [silence, on, again, replaced] = ["silence", "write", "rewrite", "replaced"].map((name) => document.getElementById(name));

let written = []; // ids
let without = []; // [layer, head] of each silenced head

/** What was written after the text, and without which heads. */
export function writing() {
  return { written, without };
}

/** Forget what was written, and hear every head again: another text is typed. */
export function onlyTyped() {
  [written, without] = [[], []];
  replaced.hidden = true;
}

/** Begin to listen. `look()` asks for what is to be seen; `write(kept)` writes on after so many of the written tokens. */
export function makeWriting(look, write) {
  silence.addEventListener("click", () => {
    const others = without.filter((one) => !isHere(one));
    without = others.length < without.length ? others : [...without, [state.layer, state.head]];
    look();
  });
  on.addEventListener("click", () => write(written.length));
  again.addEventListener("click", () => write(heldStep()));
}

/** Show the buttons that can do something here. */
export function showWriting() {
  silence.hidden = state.layer === MEAN || state.head === MEAN;
  silence.textContent = `${without.some(isHere) ? "Restore" : "Silence"} head ${state.layer}.${state.head}`;
  on.hidden = page.texts[state.text].attention === "encoder";
  again.hidden = heldStep() < 0;
}

/** Take what was written. What it takes the place of stays above the drawing; `kept` tokens of it are the same. */
export function noteReplaced(kept, ids) {
  if (kept < written.length) {
    const steps = findingsOf(state.text, state.mask).steps ?? [];
    const { tokens } = tokensOf(state.text, "query");
    replaced.textContent = `Earlier: ${steps.map((step) => tokens[step.token]).join("").replaceAll("\u2423", " ").trim()}`;
    replaced.hidden = false;
  }
  written = ids;
}

function isHere([layer, head]) {
  return layer === state.layer && head === state.head;
}

/** The written token whose row is held; -1 if none is. */
function heldStep() {
  if (state.side !== "query" || !maskOf(state.text, state.mask)) return -1;
  return findingsOf(state.text, state.mask).steps?.findIndex((step) => step.query === state.token) ?? -1;
}
