// The chart: a canvas that fills the viewport and shows a part of the drawing, which may be larger. The views draw. This
// file scrolls, zooms and handles the pointer.

import { LARGEST_CELL, SMALLEST_CELL } from "./cells.js";
import { isDark, theme } from "./colour.js";
import { hasFullMap, page } from "./data.js";
import { CanvasPainter } from "./paint.js";
import { change, state, visit } from "./state.js";
import { axes } from "./units.js";

const views = {}; // the modules that draw, by the name of the view
const WHEEL = 0.0015; // change of ln(zoom) per pixel that the wheel scrolls
const SETTLED = 250; // milliseconds after the last scroll event until the corner is written to the URL hash

const chart = document.getElementById("chart");
const extent = document.getElementById("extent");
const canvas = document.getElementById("canvas");
const tip = document.getElementById("tip");

let pointer = null; // the last pointer event over the chart; null if the pointer is outside
let pointed = null; // what is under the pointer
let touched = false; // true if the last press was a finger's
let pending = false; // true if a drawing is requested
let placed = ""; // the view and text that scrollToCorner has handled
let lastView = "heads"; // the last view other than Model: a double click on a head in Model opens it there
let modelScroll = [0, 0]; // the scroll position of Model when a head was opened
let drawings = 0;
let whenDrawn = () => {};

/** Call `listener(token)` after each complete drawing, with the token under the pointer. */
export function onDrawn(listener) {
  whenDrawn = listener;
}

/** Request a drawing with the next frame. */
export function redraw() {
  if (pending) return;
  pending = true;
  requestAnimationFrame(() => {
    pending = false;
    draw();
  });
}

function draw() {
  if (state.view !== "model") lastView = state.view;
  let { width, height } = resize();
  if (chart.clientWidth !== width || chart.clientHeight !== height) ({ width, height } = resize()); // a scroll bar appeared or disappeared
  scrollToCorner(width, height);
  showPointed();
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
  chart.dataset.drawn = String(++drawings); // tests wait for it
}

/** Resize the drawing as its view requires. Return the size of the viewport. */
function resize() {
  const [width, height] = [chart.clientWidth, chart.clientHeight];
  const size = views[state.view].measure(width, height);
  extent.style.width = `${Math.max(size.width, width)}px`;
  extent.style.height = `${Math.max(size.height, height)}px`;
  return { width, height };
}

/** Return the visible part of the drawing. */
export function area() {
  return { x: chart.scrollLeft, y: chart.scrollTop, width: chart.clientWidth, height: chart.clientHeight };
}

/** Draw a part of the drawing on a canvas, laid out for the area `seen`. Return false if some data is not decoded yet. */
export function drawOn(context, part, scale, target, seen = part) {
  const colours = theme();
  context.setTransform(scale, 0, 0, scale, -part.x * scale, -part.y * scale);
  const painter = new CanvasPainter(context);
  painter.rect(part.x, part.y, part.width, part.height, { fill: colours.paper });
  return drawView(painter, seen, target, colours);
}

/** Draw the current view with `target` under the pointer. Return false if some data is not decoded yet. */
export function drawView(painter, seen, target, colours) {
  const { queries, keys } = axes();
  if (queries.length && keys.length) return views[state.view].draw(painter, seen, target, colours, isDark());
  painter.text("The filters leave nothing to draw.", seen.x + 8, seen.y + 24, { fill: colours.ink });
  return true;
}

/** Return the area of the whole drawing, laid out for this viewport. */
export function wholeArea() {
  const window = area();
  return { x: 0, y: 0, ...views[state.view].measure(window.width, window.height), window };
}

// --- scrolling and zooming ---------------------------------------------------------------------------------

/** When a view opens, scroll: Matrix to the corner in the state, Model to its last position, others to the held token. */
function scrollToCorner(width, height) {
  const name = `${state.view} ${state.text}`;
  if (placed === name) return;
  placed = name;
  const { cell } = views.matrix.grid(width, height);
  const [row, column] = state.corner.split(",").map(Number);
  const place = { matrix: [column * cell, row * cell], model: modelScroll }[state.view] ?? [0, 0];
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

/** Scale the cells of Matrix by a factor. The point (x, y) of the viewport stays in place. */
export function zoom(factor, x = chart.clientWidth / 2, y = chart.clientHeight / 2) {
  const { left, top, cell } = views.matrix.grid(chart.clientWidth, chart.clientHeight, x, y);
  const larger = Math.min(Math.max(cell * factor, SMALLEST_CELL), LARGEST_CELL);
  const column = (chart.scrollLeft + x - left) / cell;
  const row = (chart.scrollTop + y - top) / cell;
  change({ cell: Math.round(larger * 100) / 100 });
  resize();
  chart.scrollTo(Math.max(0, column * larger + left - x), Math.max(0, row * larger + top - y));
}

/** Show the whole map. */
export function zoomToFit() {
  change({ cell: 0, corner: "0,0" });
  chart.scrollTo(0, 0);
}

/** Scroll to the held token. */
export function scrollToToken() {
  if (state.token === null || state.view === "model") return;
  const { queries, keys } = axes();
  const units = state.side === "query" ? queries : keys;
  const row = units.findIndex((unit) => unit.members.includes(state.token));
  const seen = area();
  const isAcross = state.view === "matrix" && state.side === "key"; // then tokens run from left to right
  const { left, top, cell } = views[state.view].grid(seen.width, seen.height);
  const place = row * cell; // pixels from the first cell
  const [start, room] = isAcross ? [seen.x, seen.width - left] : [seen.y, seen.height - top];
  if (row < 0 || (place >= start && place + cell <= start + room)) return;
  const middle = Math.max(0, place + cell / 2 - room / 2);
  if (isAcross) chart.scrollLeft = middle;
  else chart.scrollTop = middle;
}

/** In Model, scroll to the row of the selected head. */
export function scrollToHead() {
  if (state.view !== "model") return;
  const { y, side } = views.model.placeOfLayer(chart.clientWidth, chart.clientHeight, state.layer);
  if (y < chart.scrollTop || y + side > chart.scrollTop + chart.clientHeight) chart.scrollTop = Math.max(0, y + side / 2 - chart.clientHeight / 2);
}

// --- the pointer -------------------------------------------------------------------------------------------

/** Return what is under the pointer. */
function hitTest(event) {
  const box = chart.getBoundingClientRect();
  const [x, y] = [event.clientX - box.left, event.clientY - box.top];
  if (x > chart.clientWidth || y > chart.clientHeight) return null; // on a scroll bar
  const seen = area();
  return views[state.view].at(x + seen.x, y + seen.y, seen.width, seen.height, seen);
}

/** Find what is under the pointer now, since the drawing may have changed, and show its tooltip. */
function showPointed() {
  pointed = pointer && hitTest(pointer);
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

/** Store the pointer's event, or null when the pointer leaves. */
function point(event) {
  const before = JSON.stringify(pointed);
  pointer = event;
  showPointed();
  if (JSON.stringify(pointed) !== before) redraw();
}

/** Return the token under the pointer, `{token, side}`. For a cell, return its query; for a head, and in Neuron, null. */
function tokenOf(found) {
  if (found === null || found.layer !== undefined || state.view === "neuron") return null;
  const side = found.side ?? (found.query === undefined ? "key" : "query");
  return { token: found.token ?? found[side], side };
}

/** Handle a click: hold a token or release it; in Model, show a head. The first tap with a finger only shows the tooltip. */
function press(event) {
  const found = hitTest(event);
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

/** In Model, show a head beside the others, or hide it if it is shown. In a narrow viewport, open it alone. */
export function show({ layer, head }) {
  const again = state.detail && layer === state.layer && head === state.head;
  if (views.model.hasRoom(chart.clientWidth)) change({ layer, head, heads: [head], detail: !again });
  else open({ layer, head });
}

/** Go from Model to one head, in the view shown before Model. A head with only a small map opens in Matrix. The browser's Back returns. */
export function open({ layer, head }) {
  modelScroll = [chart.scrollLeft, chart.scrollTop];
  pointer = null; // the thumbnail under it is gone
  visit({ layer, head, heads: [head], view: lastView === "heads" && !hasFullMap(layer, head) ? "matrix" : lastView });
}

function wheel(event) {
  if (state.view !== "matrix" || event.shiftKey) return;
  event.preventDefault();
  const box = chart.getBoundingClientRect();
  const lines = event.deltaMode === WheelEvent.DOM_DELTA_LINE ? 30 : 1;
  zoom(Math.exp(-event.deltaY * lines * WHEEL * (event.ctrlKey ? 6 : 1)), event.clientX - box.left, event.clientY - box.top);
}

let spread = 0; // pixels between two fingers

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

/** Pan the drawing. */
function drag(event) {
  if (event.buttons !== 1 || state.view !== "matrix" || event.pointerType === "touch") return;
  chart.scrollBy(-event.movementX, -event.movementY);
  dragged += Math.abs(event.movementX) + Math.abs(event.movementY);
}

let pressed = null; // what the last click hit
let dragged = 0; // pixels that the pointer has moved since the button was pressed
const CLICK_TOLERANCE = 4; // pixels: a longer drag is not a click

/** Draw with these modules, and listen to the pointer. */
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
  chart.addEventListener("pointercancel", () => point(null)); // scrolling with a finger ends its tap
  document.addEventListener("pointerdown", ({ target }) => chart.contains(target) || point(null));
  chart.addEventListener("click", (event) => {
    const second = state.view === "model" && event.detail > 1 && !touched; // the second click of a double click hits a changed drawing
    if (dragged < CLICK_TOLERANCE && !second) press(event);
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
