// The difference of each head between A and B: a grid of layers by heads to choose from.

import { brief } from "./captions.js";
import { inkOn, isDark, rgb, shareColour } from "./colour.js";
import { headsOf, page } from "./data.js";
import { makeButton, makeHeading } from "./elements.js";
import { movedOf, OF_RECORDS, ranked } from "./panels.js";
import { change, state } from "./state.js";
import { nextAt } from "./stepping.js";

const grid = document.getElementById("differing");
const most = OF_RECORDS ? Math.max(...page.moved.flat()) || 1 : 0;

/** Fill the grid: a row per layer, a button per head. */
export function makeHeads() {
  const names = document.createElement("tr");
  names.append(document.createElement("td"), ...page.heads.map((head) => makeHeading(head)));
  const rows = page.layers.map((layer) => {
    const row = document.createElement("tr");
    row.append(makeHeading(layer, "row"));
    for (const head of page.heads) {
      const place = row.insertCell();
      if (headsOf(layer).includes(head)) place.append(headButton(layer, head));
    }
    return row;
  });
  grid.tHead.append(names);
  grid.tBodies[0].append(...rows);
  document.getElementById("scale").textContent = `The weight that moved, coloured from 0 to ${most.toFixed(3)}. Rows are layers, columns are heads.`;
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", showHeads);
}

function headButton(layer, head) {
  const moved = movedOf(layer, head);
  const made = makeButton(brief(moved), () => change({ layer, head }), { layer, head, moved });
  made.title = `Head ${layer}.${head}: ${moved.toFixed(3)} of the weight moved`;
  made.setAttribute("aria-label", made.title);
  return made;
}

/** Mark the selected head, and colour all heads for the theme. */
export function showHeads() {
  const inside = grid.contains(document.activeElement);
  for (const one of grid.querySelectorAll("button")) {
    const colour = shareColour(Number(one.dataset.moved) / most, isDark());
    const chosen = Number(one.dataset.layer) === state.layer && Number(one.dataset.head) === state.head;
    one.style.backgroundColor = rgb(colour);
    one.style.color = inkOn(colour);
    one.setAttribute("aria-pressed", String(chosen));
    one.tabIndex = chosen ? 0 : -1;
    if (chosen && inside) one.focus();
  }
}

/** Go to the next head that differs more (-1) or less (1) than the selected one. */
export function goToRank(step) {
  const order = ranked();
  const now = order.findIndex(([layer, head]) => layer === state.layer && head === state.head);
  const [layer, head] = nextAt(order, now, step);
  change({ layer, head });
}
