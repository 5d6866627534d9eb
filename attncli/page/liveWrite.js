// The tokens that the model writes after the text, and the silenced heads.

import { findingsOf, maskOf, MEAN, page, tokensOf } from "./data.js";
import { state } from "./state.js";

const [silence, on, again, replaced] = ["silence", "write", "rewrite", "replaced"].map((name) => document.getElementById(name));

let written = []; // ids of the written tokens
let without = []; // [layer, head] of each silenced head

/** Return the ids of the written tokens, and the silenced heads. */
export function writing() {
  return { written, without };
}

/** Forget the written tokens and restore all heads, for another text. */
export function forgetWriting() {
  [written, without] = [[], []];
  replaced.hidden = true;
}

/** Listen to the buttons. `show()` requests the current text; `write(kept)` writes on after `kept` of the written tokens. */
export function makeWriting(show, write) {
  silence.addEventListener("click", () => {
    const others = without.filter((one) => !isSelected(one));
    without = others.length < without.length ? others : [...without, [state.layer, state.head]];
    show();
  });
  on.addEventListener("click", () => write(written.length));
  again.addEventListener("click", () => write(heldStep()));
}

/** Show the buttons that have an effect here. */
export function showWriting() {
  silence.hidden = state.layer === MEAN || state.head === MEAN;
  silence.textContent = `${without.some(isSelected) ? "Restore" : "Silence"} head ${state.layer}.${state.head}`;
  on.hidden = page.texts[state.text].attention === "encoder";
  again.hidden = heldStep() < 0;
}

/** Store newly written tokens, after `kept` of the earlier ones. Show the earlier text above the drawing. */
export function noteReplaced(kept, ids) {
  if (kept < written.length) {
    const steps = findingsOf(state.text, state.mask).steps ?? [];
    const { tokens } = tokensOf(state.text, "query");
    replaced.textContent = `Earlier: ${steps.map((step) => tokens[step.token]).join("").replaceAll("\u2423", " ").trim()}`;
    replaced.hidden = false;
  }
  written = ids;
}

function isSelected([layer, head]) {
  return layer === state.layer && head === state.head;
}

/** Return the place of the written token whose query is held; -1 if none is held. */
function heldStep() {
  if (state.side !== "query" || !maskOf(state.text, state.mask)) return -1;
  return findingsOf(state.text, state.mask).steps?.findIndex((step) => step.query === state.token) ?? -1;
}
