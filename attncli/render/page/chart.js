// The chart: a canvas as large as its window, that shows a part of a drawing which may be larger, and what the
// pointer does there. The views draw; this file scrolls, zooms, and says what is pointed at.

import { isDark, theme } from "./colour.js";
import { isWhole, page } from "./data.js";
import * as heads from "./heads.js";
import * as matrix from "./matrix.js";
import * as model from "./model.js";
import * as neuron from "./neuron.js";
import { CanvasPainter } from "./paint.js";
import { change, state } from "./state.js";
import { axes } from "./units.js";

const views = { heads, model, matrix, neuron };
const WHEEL = 0.0015; // how much a wheel's step zooms
const SETTLED = 250; // milliseconds after which a place scrolled to is worth keeping

const chart = document.getElementById("chart");
const extent = document.getElementById("extent");
const canvas = document.getElementById("canvas");
const tip = document.getElementById("tip");

let pointer = null; // where the pointer is, while it is over the chart
let pointed = null; // what is under it
let pending = false; // a drawing is asked for
let placed = ""; // the view and text whose corner has been scrolled to
let opened = "heads"; // the view that a click in Model goes back to
let drawings = 0;

/** Ask for a drawing with the next frame. */
export function redraw() {
  if (pending) return;
  pending = true;
  requestAnimationFrame(() => {
    pending = false;
    draw();
  });
}

function draw() {
  if (state.view !== "model") opened = state.view;
  let { width, height } = resize();
  if (chart.clientWidth !== width || chart.clientHeight !== height) ({ width, height } = resize()); // a scroll bar came or went
  scrollToCorner(width, height);
  aim();
  const scale = window.devicePixelRatio || 1;
  const [across, down] = [Math.round(width * scale), Math.round(height * scale)];
  if (canvas.width !== across || canvas.height !== down) {
    [canvas.width, canvas.height] = [across, down];
    [canvas.style.width, canvas.style.height] = [`${width}px`, `${height}px`];
  }
  const complete = drawOn(canvas.getContext("2d"), area(), scale, pointed);
  // For whoever waits for a drawing: which one this is, once nothing is missing in it.
  if (complete) chart.dataset.drawn = String(++drawings);
  else redraw();
}

/** Make the drawing as large as its view wants it; gives the size of the window onto it. */
function resize() {
  const [width, height] = [chart.clientWidth, chart.clientHeight];
  const size = views[state.view].measure(width, height);
  extent.style.width = `${Math.max(size.width, width)}px`;
  extent.style.height = `${Math.max(size.height, height)}px`;
  return { width, height };
}

/** The part of the drawing that is seen. */
function area() {
  return { x: chart.scrollLeft, y: chart.scrollTop, width: chart.clientWidth, height: chart.clientHeight };
}

function drawOn(context, seen, scale, target) {
  const colours = theme();
  context.setTransform(scale, 0, 0, scale, -seen.x * scale, -seen.y * scale);
  const painter = new CanvasPainter(context);
  painter.rect(seen.x, seen.y, seen.width, seen.height, { fill: colours.paper });
  return drawView(painter, seen, target, colours);
}

/** Draw what the state says, with `target` pointed at; false if something is not decoded yet. */
export function drawView(painter, seen, target, colours) {
  const { queries, keys } = axes();
  if (queries.length && keys.length) return views[state.view].draw(painter, seen, target, colours, isDark());
  painter.text("The filters leave nothing to draw.", seen.x + 8, seen.y + 24, { fill: colours.ink });
  return true;
}

/** All of the drawing, not only what the window shows. */
export function whole() {
  return { x: 0, y: 0, ...views[state.view].measure(chart.clientWidth, chart.clientHeight) };
}

// --- scrolling and zooming ---------------------------------------------------------------------------------

/** When Matrix comes into sight, go where the state says; when another view does, to its head. */
function scrollToCorner(width, height) {
  const name = `${state.view} ${state.text}`;
  if (placed === name) return;
  placed = name;
  const { cell } = matrix.grid(width, height);
  const [row, column] = state.corner.split(",").map(Number);
  const zoomed = state.view === "matrix";
  chart.scrollTo(zoomed ? column * cell : 0, zoomed ? row * cell : 0);
}

let settling = 0;

function keepCorner() {
  clearTimeout(settling);
  settling = setTimeout(() => {
    if (state.view !== "matrix") return;
    const { cell } = matrix.grid(chart.clientWidth, chart.clientHeight);
    change({ corner: `${Math.round(chart.scrollTop / cell)},${Math.round(chart.scrollLeft / cell)}` });
  }, SETTLED);
}

/** Make the cells of Matrix so many times larger; the point (x, y) of the window stays where it is. */
export function zoom(factor, x = chart.clientWidth / 2, y = chart.clientHeight / 2) {
  const { left, top, cell } = matrix.grid(chart.clientWidth, chart.clientHeight);
  const larger = Math.min(Math.max(cell * factor, matrix.SMALLEST_CELL), matrix.LARGEST_CELL);
  const column = (chart.scrollLeft + x - left) / cell;
  const row = (chart.scrollTop + y - top) / cell;
  change({ cell: Math.round(larger * 100) / 100 });
  resize();
  chart.scrollTo(Math.max(0, column * larger + left - x), Math.max(0, row * larger + top - y));
}

/** All of the map again. */
export function zoomToFit() {
  change({ cell: 0, corner: "0,0" });
  chart.scrollTo(0, 0);
}

/** Bring the token that is held into sight. */
export function scrollToToken() {
  if (state.token === null || state.view === "model" || state.view === "neuron") return;
  const { queries, keys } = axes();
  const units = state.side === "query" ? queries : keys;
  const row = units.findIndex((unit) => unit.members.includes(state.token));
  const seen = area();
  const upright = state.view === "matrix" && state.side === "key";
  const { left, top, cell } = state.view === "matrix" ? matrix.grid(seen.width, seen.height) : heads.grid();
  const place = row * cell; // from the first cell on
  const [start, room] = upright ? [seen.x, seen.width - left] : [seen.y, seen.height - top];
  if (row < 0 || (place >= start && place + cell <= start + room)) return;
  const middle = Math.max(0, place + cell / 2 - room / 2);
  if (upright) chart.scrollLeft = middle;
  else chart.scrollTop = middle;
}

// --- the pointer -------------------------------------------------------------------------------------------

function under(event) {
  const box = chart.getBoundingClientRect();
  const [x, y] = [event.clientX - box.left, event.clientY - box.top];
  if (x > chart.clientWidth || y > chart.clientHeight) return null; // a scroll bar
  const seen = area();
  return views[state.view].at(x + seen.x, y + seen.y, seen.width, seen.height, seen);
}

/** Find what is under the pointer now, for the drawing may have changed there, and tell of it. */
function aim() {
  pointed = pointer && under(pointer);
  chart.classList.toggle("pointing", pointed !== null);
  tip.hidden = pointed === null;
  if (pointed === null) return;
  const { clientX, clientY } = pointer;
  tip.textContent = views[state.view].tip(pointed);
  tip.style.left = `${Math.min(clientX + 14, innerWidth - tip.offsetWidth - 4)}px`;
  tip.style.top = `${clientY + 18 + tip.offsetHeight > innerHeight ? clientY - 10 - tip.offsetHeight : clientY + 18}px`;
}

/** The pointer is here now, or has left (null). */
function point(event) {
  const before = JSON.stringify(pointed);
  pointer = event;
  aim();
  if (JSON.stringify(pointed) !== before) redraw();
}

/** A click holds a token, or lets go of it; in Model it opens a head. */
function press(event) {
  const found = under(event);
  if (found === null) {
    if (state.token !== null && state.view === "heads") change({ token: null });
    return;
  }
  if (state.view === "model") {
    open(found);
  } else if (state.view === "neuron") {
    if (found.key !== undefined) change({ token: found.key, side: "query" });
  } else {
    const side = found.side ?? (found.query === undefined ? "key" : "query");
    const token = found.token ?? found.query ?? found.key;
    const again = state.token === token && state.side === side;
    change({ token: again ? null : token, side });
  }
}

/** Go from Model to one head, in the view that was there before; one that is not whole has no lines. */
export function open({ layer, head }) {
  change({ layer, head, heads: [head], view: opened === "heads" && !isWhole(layer, head) ? "matrix" : opened });
}

function wheel(event) {
  if (state.view !== "matrix" || event.shiftKey) return;
  event.preventDefault();
  const box = chart.getBoundingClientRect();
  const lines = event.deltaMode === WheelEvent.DOM_DELTA_LINE ? 30 : 1;
  zoom(Math.exp(-event.deltaY * lines * WHEEL * (event.ctrlKey ? 6 : 1)), event.clientX - box.left, event.clientY - box.top);
}

let spread = 0; // of two fingers

function pinch(event) {
  if (event.touches.length !== 2 || state.view !== "matrix") {
    spread = 0;
    return;
  }
  event.preventDefault();
  const [a, b] = event.touches;
  const now = Math.hypot(a.clientX - b.clientX, a.clientY - b.clientY);
  const box = chart.getBoundingClientRect();
  if (spread > 0) zoom(now / spread, (a.clientX + b.clientX) / 2 - box.left, (a.clientY + b.clientY) / 2 - box.top);
  spread = now;
}

/** Drag the drawing under its window. */
function drag(event) {
  if (event.buttons !== 1 || state.view !== "matrix" || event.pointerType === "touch") return;
  chart.scrollBy(-event.movementX, -event.movementY);
  dragged += Math.abs(event.movementX) + Math.abs(event.movementY);
}

let dragged = 0; // pixels since the button went down: a drag is no click
const A_CLICK = 4;

/** Begin to listen. */
export function listen() {
  chart.addEventListener("pointermove", (event) => {
    drag(event);
    if (event.pointerType !== "touch") point(event);
  });
  chart.addEventListener("pointerdown", () => {
    dragged = 0;
  });
  chart.addEventListener("pointerleave", () => point(null));
  chart.addEventListener("click", (event) => {
    if (dragged < A_CLICK) press(event);
  });
  chart.addEventListener("wheel", wheel, { passive: false });
  chart.addEventListener("touchmove", pinch, { passive: false });
  chart.addEventListener("touchend", () => {
    spread = 0;
  });
  chart.addEventListener("scroll", () => {
    if (state.view === "matrix") keepCorner();
    redraw();
  });
  new ResizeObserver(redraw).observe(chart);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
  chart.setAttribute("aria-label", `Attention of ${page.model.name}`);
}
