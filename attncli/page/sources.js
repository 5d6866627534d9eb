// The page of a prompt and its answer: parts are shaded by their effect on the chosen piece of the answer, or by their
// share of the attention that wrote it.

const page = JSON.parse(document.getElementById("page").textContent);
const byId = (id) => document.getElementById(id);
const state = { measure: "effect", piece: 0, part: null };

/** The numbers of the parts for the chosen piece; null where one is not known. */
const numbers = (measure) => page.answer[state.piece][measure];

/** A number as it is printed. */
const written = (number, measure) => (number === null ? "–" : `${measure === "effect" && number > 0 ? "+" : ""}${number.toPrecision(3)}`);

/** An element with a text. */
function element(name, text, attributes = {}) {
  const made = document.createElement(name);
  made.textContent = text;
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  return made;
}

function make() {
  let before = null;
  for (const [part, text] of page.prompt) {
    if (part !== null && part !== before) byId("prompt").append(element("span", page.names[part], { class: "name" }));
    byId("prompt").append(element("span", text, part === null ? {} : { "data-part": part }));
    before = part;
  }
  const pieces = page.answer.length > 1 ? page.answer.slice(1).map((one, place) => [one, place + 1]) : [[page.answer[0], 0]];
  for (const [one, place] of pieces) byId("answer").append(element("button", one.text, { type: "button", "data-piece": place }));
  for (const text of page.about) byId("about").append(`${text}\n`);
  const head = byId("parts").tHead.insertRow();
  for (const name of ["part", "attention", "effect"]) head.append(element("th", name));
  page.names.forEach((name, part) => {
    const row = byId("parts").tBodies[0].insertRow();
    row.dataset.part = part;
    row.tabIndex = 0;
    for (let place = 0; place < 3; place += 1) row.insertCell();
    row.cells[0].textContent = name;
  });
}

function show() {
  const shown = numbers(state.measure);
  const largest = Math.max(...shown.map((one) => one ?? 0), 1e-9);
  for (const span of byId("prompt").querySelectorAll("[data-part]")) {
    const share = Math.max(0, shown[span.dataset.part] ?? 0) / largest;
    span.style.background = `color-mix(in srgb, var(--plus) ${Math.round(70 * share)}%, transparent)`;
    span.classList.toggle("held", Number(span.dataset.part) === state.part);
  }
  for (const button of document.querySelectorAll("[data-measure]")) button.ariaPressed = button.dataset.measure === state.measure;
  for (const button of document.querySelectorAll("[data-piece]")) button.ariaPressed = Number(button.dataset.piece) === state.piece && page.answer.length > 1;
  for (const row of byId("parts").tBodies[0].rows) {
    const part = Number(row.dataset.part);
    for (const [place, measure] of [[1, "share"], [2, "effect"]]) row.cells[place].textContent = written(numbers(measure)[part], measure);
    row.classList.toggle("held", part === state.part);
  }
  byId("facts").textContent = state.part === null ? "" : page.facts[state.part].join(" ");
  byId("said").textContent = state.piece === 0 ? page.says.join(" ") : `Of "${page.answer[state.piece].text.trim()}".`;
}

function hold(part) {
  state.part = state.part === part ? null : part;
  show();
}

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
  d: turn,
};

/** Turn light to dark and back. */
function turn() {
  const dark = document.documentElement.dataset.theme === "dark"
    || (!document.documentElement.dataset.theme && matchMedia("(prefers-color-scheme: dark)").matches);
  document.documentElement.dataset.theme = dark ? "light" : "dark";
}

make();
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
byId("theme").addEventListener("click", turn);
show();
