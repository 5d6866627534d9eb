// The page of a prompt and its answer. Parts are shaded by their effect on the selected piece of the answer, or by their
// share of its attention. In the selected part, each sentence has its own shade.

const page = JSON.parse(document.getElementById("page").textContent);
const STRONGEST = 50; // per cent of the colour behind the largest number: the text stays readable
const byId = (id) => document.getElementById(id);
const state = { measure: "effect", piece: 0, part: null };

/** Return the numbers of the parts for the selected piece; null for unknown ones. */
const numbers = (measure) => page.answer[state.piece].parts[measure];

/** Return the largest number, at least a billionth. */
const largestOf = (some) => Math.max(...some.map((one) => one ?? 0), 1e-9);

/** Return the shade, 0 to 1, of every span of the prompt: that of its part, or of its sentence in the selected part. */
function shades() {
  const shown = numbers(state.measure);
  const inner = page.answer[state.piece].sentences[state.measure];
  const within = page.prompt.filter(([part, sentence]) => part === state.part && sentence !== null && inner[sentence] !== null);
  const largest = largestOf(within.map(([, sentence]) => inner[sentence]));
  return page.prompt.map(([part, sentence]) => {
    const apart = part === state.part && within.length > 1;
    return Math.max(0, (apart ? inner[sentence] : shown[part]) ?? 0) / (apart ? largest : largestOf(shown));
  });
}

/** Format a number with three decimals; "0" if it rounds to 0. */
function formatNumber(number, measure) {
  if (number === null) return "–";
  const size = Math.abs(number).toFixed(3);
  if (Number(size) === 0) return "0";
  return `${number < 0 ? "−" : measure === "effect" ? "+" : ""}${size}`;
}

/** Return an element with a text. */
function element(name, text, attributes = {}) {
  const made = document.createElement(name);
  made.textContent = text;
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  return made;
}

/** Fill the page. */
function build() {
  let before = null;
  for (const [part, , text] of page.prompt) {
    if (part !== before) byId("prompt").append(element("span", page.names[part], { class: "name" }));
    byId("prompt").append(element("span", text, { "data-part": part }));
    before = part;
  }
  const pieces = page.answer.length > 1 ? page.answer.slice(1).map((one, place) => [one, place + 1]) : [[page.answer[0], 0]];
  for (const [one, place] of pieces) {
    const lines = place ? one.text.split("\n").length - 1 : 0; // a button can't break the line around it
    byId("answer").append(element("button", place ? one.text.replaceAll("\n", "\\n") : one.text, { type: "button", "data-piece": place }), "\n".repeat(lines));
  }
  byId("about").textContent = page.about.join("\n");
  const head = byId("parts").tHead.insertRow();
  for (const name of ["part", "share", "effect"]) head.append(element("th", name));
  page.names.forEach((name, part) => {
    const row = byId("parts").tBodies[0].insertRow();
    row.dataset.part = part;
    row.tabIndex = 0;
    for (let place = 0; place < 3; place += 1) row.insertCell();
    row.cells[0].textContent = name;
  });
}

/** Show the state. */
function show() {
  const shaded = shades();
  byId("prompt").querySelectorAll("[data-part]").forEach((span, place) => {
    const [part, sentence] = page.prompt[place];
    const number = sentence === null ? null : page.answer[state.piece].sentences[state.measure][sentence];
    span.style.background = `color-mix(in srgb, var(--plus) ${Math.round(STRONGEST * shaded[place])}%, transparent)`;
    span.classList.toggle("held", part === state.part);
    span.title = number === null ? "" : `this sentence: ${state.measure} ${formatNumber(number, state.measure)}`;
  });
  for (const button of document.querySelectorAll("[data-measure]")) button.ariaPressed = button.dataset.measure === state.measure;
  for (const button of document.querySelectorAll("[data-piece]")) button.ariaPressed = Number(button.dataset.piece) === state.piece && page.answer.length > 1;
  for (const row of byId("parts").tBodies[0].rows) {
    const part = Number(row.dataset.part);
    for (const [place, measure] of [[1, "share"], [2, "effect"]]) row.cells[place].textContent = formatNumber(numbers(measure)[part], measure);
    row.classList.toggle("held", part === state.part);
  }
  byId("facts").textContent = state.part === null ? "" : page.facts[state.part].join(" ");
  byId("said").textContent = state.piece === 0 ? page.says.join(" ") : `These numbers are for "${page.answer[state.piece].text.trim()}".`;
}

/** Select a part, or deselect it. */
function hold(part) {
  state.part = state.part === part ? null : part;
  show();
}

/** Select a later or earlier piece of the answer. */
function step(by) {
  state.piece = Math.min(Math.max(state.piece + by, page.answer.length > 1 ? 1 : 0), page.answer.length - 1);
  show();
}

const KEYS = {
  ArrowRight: () => step(1),
  ArrowLeft: () => step(-1),
  Escape: () => { Object.assign(state, { piece: 0, part: null }); show(); },
  e: () => { state.measure = "effect"; show(); },
  a: () => { state.measure = "share"; show(); },
  d: switchTheme,
};

/** Switch between light and dark. */
function switchTheme() {
  const dark = document.documentElement.dataset.theme === "dark"
    || (!document.documentElement.dataset.theme && matchMedia("(prefers-color-scheme: dark)").matches);
  document.documentElement.dataset.theme = dark ? "light" : "dark";
}

build();
document.addEventListener("click", ({ target }) => {
  const { measure, piece } = target.dataset ?? {};
  const part = target.closest?.("[data-part]")?.dataset.part;
  if (measure) Object.assign(state, { measure });
  else if (piece !== undefined) state.piece = state.piece === Number(piece) ? 0 : Number(piece);
  else if (part !== undefined) return hold(Number(part));
  else return;
  show();
});
document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.key === "Enter" && event.target.dataset?.part !== undefined) return hold(Number(event.target.dataset.part));
  KEYS[event.key]?.();
});
byId("theme").addEventListener("click", switchTheme);
show();
