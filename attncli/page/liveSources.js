// The sources of the held token of a decoder: the sentences or words before it, shaded by their effect.

import { page } from "./data.js";
import { makeHeading } from "./elements.js";
import { post, refusal } from "./liveAsk.js";
import { live, shownText } from "./liveTexts.js";
import { state } from "./state.js";

const [button, panel] = ["sources", "rests"].map((name) => document.getElementById(name));
const STRONGEST = 50; // per cent of the colour behind the words with the largest effect, which stay readable

let described = ""; // the text and token of the panel

/** Listen to the button and to the key s. `tell(error)` shows an error. */
export function makeSources(tell) {
  const run = async () => {
    const [name, token] = [nameOfToken(), state.token];
    if (button.hidden || button.disabled || name === described) return;
    button.disabled = true;
    try {
      const response = await post("/sources", { ...shownText(), head: null, fresh: false, write: false, token });
      const found = response.ok ? await response.json() : await refusal(response);
      if (found.units && name === nameOfToken()) fillPanel(found, name);
      tell(found.units ? "" : (found.error ?? "The model is busy. Try again."));
    } catch {
      tell("The server does not answer. Is attncli serve still running?");
    }
    button.disabled = false;
  };
  button.addEventListener("click", run);
  document.addEventListener("keydown", (event) => {
    const isFree = !["TEXTAREA", "INPUT", "SELECT"].includes(event.target.tagName) && !document.getElementById("keys").open;
    if (event.key === "s" && isFree && !event.ctrlKey && !event.metaKey && !event.altKey) run();
  });
}

/** Show the button while a token of a decoder is held, and the panel while the token that it describes is held. */
export function showSources() {
  const isDecoder = page.texts[state.text].attention === "decoder";
  button.hidden = !isDecoder || state.token === null || state.words || live.unit !== "token";
  panel.hidden = described !== nameOfToken();
}

/** The key of the shown text, with its silenced heads, and the held token. */
function nameOfToken() {
  return JSON.stringify([shownText(), state.token]);
}

function fillPanel({ token, units, notes }, name) {
  const largest = Math.max(...units.map(({ effect }) => effect), 1e-9);
  const text = document.createElement("p");
  for (const { text: words, effect } of units) {
    const span = document.createElement("span");
    span.textContent = words;
    span.style.background = `color-mix(in srgb, var(--plus) ${Math.round(STRONGEST * Math.max(0, effect / largest))}%, transparent)`;
    text.append(span, " ");
  }
  text.append(Object.assign(document.createElement("strong"), { textContent: token }));
  const table = document.createElement("table");
  table.createTHead().insertRow().append(...["source", "effect", "attention", "by length"].map((title) => makeHeading(title)));
  const rows = table.createTBody();
  for (const { text: words, effect, share, length } of [...units].sort((a, b) => b.effect - a.effect)) {
    const row = rows.insertRow();
    const signed = `${effect < 0 ? "\u2212" : "+"}${Math.abs(effect).toFixed(3)}`;
    for (const cell of [words, signed, share.toFixed(3), length.toFixed(3)]) row.insertCell().textContent = cell;
  }
  const about = document.createElement("small");
  about.textContent = ["Effect: by how many nats the token is less likely if these words are hidden from all other tokens. By length: the share of attention that their length would give.", ...notes].join(" ");
  panel.replaceChildren(text, table, about);
  described = name;
  showSources();
}
