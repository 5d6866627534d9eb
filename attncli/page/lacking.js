// The view Neuron for a head without q and k in the page: the heads that have them, and how to add them.

import { kind } from "./captions.js";
import { maskOf, page } from "./data.js";
import { cut, lines } from "./paint.js";
import { change, state } from "./state.js";

const [LINE, SIZE, GAP] = [24, 13, 8];
const [WIDTH, HEIGHT] = [50, 24]; // pixels of a head's button
const TOP = 2.5 * LINE; // where the buttons begin

/** Return the heads that have q and k, each with the corner of its button: `{layer, head, x, y}`. */
function buttons(width) {
  const across = Math.max(1, Math.floor((width - GAP) / (WIDTH + GAP)));
  return maskOf(state.text, state.mask).vectors.heads.map(([layer, head], number) => ({
    layer,
    head,
    x: GAP + (number % across) * (WIDTH + GAP),
    y: TOP + Math.floor(number / across) * (HEIGHT + GAP),
  }));
}

export function measure(width) {
  return { width, height: (buttons(width).at(-1)?.y ?? TOP) + HEIGHT + 3 * LINE };
}

export function at(x, y, width) {
  const found = buttons(width).find((one) => x >= one.x && x < one.x + WIDTH && y >= one.y && y < one.y + HEIGHT);
  return found ? { open: [found.layer, found.head] } : null;
}

export function draw(painter, area, pointed, colours) {
  const there = buttons(area.width);
  const say = (line, y, fill) => painter.text(cut(line, SIZE, area.width - 2 * GAP), GAP, y, { fill, size: SIZE });
  say(`q and k of head ${state.layer}.${state.head} are not in this page.`, LINE / 2 + 4, colours.ink);
  say(there.length ? "This page stores q and k of these heads. Click one to go there:" : "This page stores no q and k.", 1.5 * LINE + 4, colours.faint);
  for (const { layer, head, x, y } of there) {
    const under = pointed?.open.join() === [layer, head].join();
    painter.rect(x, y, WIDTH, HEIGHT, { fill: under ? colours.mark : colours.panel, stroke: colours.accent, data: { layer, head } });
    painter.text(`${layer}.${head}`, x + WIDTH / 2, y + HEIGHT / 2, { fill: colours.ink, size: SIZE, align: "center" });
  }
  const below = (there.at(-1)?.y ?? TOP - LINE - HEIGHT) + HEIGHT + LINE;
  const advice = page.advice.replaceAll("{head}", `${state.layer}.${state.head}`);
  lines(advice, SIZE, area.width - 2 * GAP).forEach((line, number) => say(line, below + number * LINE * 0.75, colours.faint));
}

export function tip({ open: [layer, head] }) {
  return `layer ${layer}, head ${head}: ${kind(layer, head)}`;
}

/** Go to a head that has q and k. */
export function press({ open: [layer, head] }) {
  change({ layer, head, heads: [head] });
}
