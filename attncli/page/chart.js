// The chart: a canvas as large as its window, that shows a part of a drawing which may be larger, and what the
// pointer does there. The views draw; this file scrolls, zooms, and says what is pointed at.

import { LARGEST_CELL, SMALLEST_CELL } from "./cells.js";
import { isDark, theme } from "./colour.js";
import { isWhole, page } from "./data.js";
import { CanvasPainter } from "./paint.js";
import { change, state, visit } from "./state.js";
import { axes } from "./units.js";

const views = {}; // modules that draw, by the names that the state has for them
const WHEEL = 0.0015; // how much a wheel's step zooms
const SETTLED = 250; // milliseconds after which a place scrolled to is worth keeping

const chart = document.getElementById("chart");
const extent = document.getElementById("extent");
const canvas = document.getElementById("canvas");
const tip = document.getElementById("tip");

let pointer = null; // where the pointer is, while it is over the chart; of a finger, where it tapped last
let pointed = null; // what is under it
let touched = false; // whether the last press was a finger's
let pending = false; // a drawing is asked for
let placed = ""; // the view and text whose corner has been scrolled to
let opened = "heads"; // the view that a click in Model goes back to
let left = [0, 0]; // where Model was scrolled to when a head was opened
let drawings = 0;
let whenDrawn = () => {};

/** `listener` is called after each drawing that lacks nothing, with the token that is pointed at. */
export function onDrawn(listener) {
  whenDrawn = listener;
}

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
  if (!complete) {
    redraw();
    return;
  }
  whenDrawn(tokenOf(pointed));
  chart.dataset.drawn = String(++drawings); // for whoever waits for a drawing: which one this is
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
export function area() {
  return { x: chart.scrollLeft, y: chart.scrollTop, width: chart.clientWidth, height: chart.clientHeight };
}

/** Draw on a canvas what is in `part` of the drawing, all of which `seen` is; false if something is not decoded yet. */
export function drawOn(context, part, scale, target, seen = part) {
  const colours = theme();
  context.setTransform(scale, 0, 0, scale, -part.x * scale, -part.y * scale);
  const painter = new CanvasPainter(context);
  painter.rect(part.x, part.y, part.width, part.height, { fill: colours.paper });
  return drawView(painter, seen, target, colours);
}

/** Draw what the state says, with `target` pointed at; false if something is not decoded yet. */
export function drawView(painter, seen, target, colours) {
  const { queries, keys } = axes();
  if (queries.length && keys.length) return views[state.view].draw(painter, seen, target, colours, isDark());
  painter.text("The filters leave nothing to draw.", seen.x + 8, seen.y + 24, { fill: colours.ink });
  return true;
}

/** All of the drawing, laid out as in this window. */
export function whole() {
  const window = area();
  return { x: 0, y: 0, ...views[state.view].measure(window.width, window.height), window };
}

// --- scrolling and zooming ---------------------------------------------------------------------------------

/** When Matrix comes into sight, go where the state says; Model, to where it was left; another, to its head or the token held. */
function scrollToCorner(width, height) {
  const name = `${state.view} ${state.text}`;
  if (placed === name) return;
  placed = name;
  const { cell } = views.matrix.grid(width, height);
  const [row, column] = state.corner.split(",").map(Number);
  const place = { matrix: [column * cell, row * cell], model: left }[state.view] ?? [0, 0];
  chart.scrollTo(...place);
  if (state.view !== "matrix") scrollToToken();
}

let settling = 0;

function keepCorner() {
  clearTimeout(settling);
  settling = setTimeout(() => {
    if (state.view !== "matrix") return;
    const { cell } = views.matrix.grid(chart.clientWidth, chart.clientHeight);
    const corner = `${Math.round(chart.scrollTop / cell)},${Math.round(chart.scrollLeft / cell)}`;
    if (corner !== state.corner) change({ corner });
  }, SETTLED);
}

/** Make the cells of Matrix so many times larger; the point (x, y) of the window stays where it is. */
export function zoom(factor, x = chart.clientWidth / 2, y = chart.clientHeight / 2) {
  const { left, top, cell } = views.matrix.grid(chart.clientWidth, chart.clientHeight, x, y);
  const larger = Math.min(Math.max(cell * factor, SMALLEST_CELL), LARGEST_CELL);
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
  if (state.token === null || state.view === "model") return;
  const { queries, keys } = axes();
  const units = state.side === "query" ? queries : keys;
  const row = units.findIndex((unit) => unit.members.includes(state.token));
  const seen = area();
  const upright = state.view === "matrix" && state.side === "key";
  const { left, top, cell } = views[state.view].grid(seen.width, seen.height);
  const place = row * cell; // from the first cell on
  const [start, room] = upright ? [seen.x, seen.width - left] : [seen.y, seen.height - top];
  if (row < 0 || (place >= start && place + cell <= start + room)) return;
  const middle = Math.max(0, place + cell / 2 - room / 2);
  if (upright) chart.scrollLeft = middle;
  else chart.scrollTop = middle;
}

/** In Model, bring the row of the head that is marked into sight. */
export function scrollToHead() {
  if (state.view !== "model") return;
  const { y, side } = views.model.placeOfHead(chart.clientWidth, chart.clientHeight, state.layer);
  if (y < chart.scrollTop || y + side > chart.scrollTop + chart.clientHeight) chart.scrollTop = Math.max(0, y + side / 2 - chart.clientHeight / 2);
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
  const above = clientY - (touched ? 24 : 10) - tip.offsetHeight; // a finger hides what is below it
  const isAbove = above >= 0 && (touched || clientY + 18 + tip.offsetHeight > innerHeight);
  tip.style.top = `${isAbove ? above : clientY + 18}px`;
}

/** The pointer is here now, or has left (null). */
function point(event) {
  const before = JSON.stringify(pointed);
  pointer = event;
  aim();
  if (JSON.stringify(pointed) !== before) redraw();
}

/** The token of what is under a point, `{token, side}`: of a cell its query; null where there is none to hold, as on a head. */
function tokenOf(found) {
  if (found === null || found.layer !== undefined || state.view === "neuron") return null;
  const side = found.side ?? (found.query === undefined ? "key" : "query");
  return { token: found.token ?? found[side], side };
}

/** A click holds a token, or lets go of it; in Model it opens a head. A finger's first tap only points. */
function press(event) {
  const found = under(event);
  if (touched && JSON.stringify(found) !== JSON.stringify(pointed)) {
    point(event);
    return;
  }
  pressed = found;
  if (found === null) {
    if (state.token !== null && state.view === "heads") change({ token: null });
    return;
  }
  if (state.view === "model" && found.layer !== undefined) {
    show(found);
  } else if (views[state.view].press) {
    views[state.view].press(found);
  } else {
    const { token, side } = tokenOf(found);
    const again = state.token === token && state.side === side;
    change({ token: again ? null : token, side });
  }
}

/** In Model a head beside the others, or, if it is there, no longer; where there is no room, the head alone. */
export function show({ layer, head }) {
  const again = state.detail && layer === state.layer && head === state.head;
  if (views.model.hasRoom(chart.clientWidth)) change({ layer, head, heads: [head], detail: !again });
  else open({ layer, head });
}

/** Go from Model to one head, in the view that was there before; one that is not whole has no lines. Back returns. */
export function open({ layer, head }) {
  left = [chart.scrollLeft, chart.scrollTop];
  pointer = null; // the thumbnail under it is gone
  visit({ layer, head, heads: [head], view: opened === "heads" && !isWhole(layer, head) ? "matrix" : opened });
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

let pressed = null; // what the last click found
let dragged = 0; // pixels since the button went down: a drag is no click
const A_CLICK = 4;

/** Draw with these modules, and begin to listen. */
export function listen(modules) {
  Object.assign(views, modules);
  chart.addEventListener("pointermove", (event) => {
    drag(event);
    if (event.pointerType !== "touch") point(event);
  });
  chart.addEventListener("pointerdown", ({ pointerType }) => {
    dragged = 0;
    touched = pointerType === "touch";
  });
  chart.addEventListener("pointerleave", () => touched || point(null));
  chart.addEventListener("pointercancel", () => point(null)); // a finger that scrolls takes away what it had tapped
  document.addEventListener("pointerdown", ({ target }) => chart.contains(target) || point(null));
  chart.addEventListener("click", (event) => {
    const second = state.view === "model" && event.detail > 1 && !touched; // of a double click: what lies here now was not aimed at
    if (dragged < A_CLICK && !second) press(event);
  });
  chart.addEventListener("dblclick", () => {
    if (state.view === "model" && pressed !== null && !touched) open(state);
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
