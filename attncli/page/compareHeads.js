// How much each head differs between A and B: a grid of layers by heads to choose from.

import { brief } from "./captions.js";
import { inkOn, isDark, rgb, shareColour } from "./colour.js";
import { headsOf, page } from "./data.js";
import { movedOf, OF_RECORDS, ranked } from "./panels.js";
import { change, state } from "./state.js";
import { nextAt } from "./stepping.js";

const grid = document.getElementById("differing");
const most = OF_RECORDS ? Math.max(...page.moved.flat()) || 1 : 0;

/** Make a row a layer, a button a head. */
export function makeHeads() {
  const names = document.createElement("tr");
  names.append(document.createElement("td"), ...page.heads.map((head) => heading(head, "col")));
  const rows = page.layers.map((layer) => {
    const row = document.createElement("tr");
    row.append(heading(layer, "row"), ...page.heads.map((head) => (headsOf(layer).includes(head) ? cell(layer, head) : document.createElement("td"))));
    return row;
  });
  grid.tHead.append(names);
  grid.tBodies[0].append(...rows);
  document.getElementById("scale").textContent = `The weight that moved, coloured from 0 to ${most.toFixed(3)}. Rows are layers, columns are heads.`;
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", showHeads);
}

function heading(number, scope) {
  const made = document.createElement("th");
  made.scope = scope;
  made.textContent = number;
  return made;
}

function cell(layer, head) {
  const made = document.createElement("button");
  const moved = movedOf(layer, head);
  made.type = "button";
  made.textContent = brief(moved);
  made.title = `Head ${layer}.${head}: ${moved.toFixed(3)} of the weight moved`;
  made.setAttribute("aria-label", made.title);
  Object.assign(made.dataset, { layer, head, moved });
  made.addEventListener("click", () => change({ layer, head }));
  const around = document.createElement("td");
  around.append(made);
  return around;
}

/** Show which head is chosen, in the theme's colours. */
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

/** Go to the head that differs more (-1) or less (1) than the one that is shown. */
export function goToRank(step) {
  const order = ranked();
  const now = order.findIndex(([layer, head]) => layer === state.layer && head === state.head);
  const [layer, head] = nextAt(order, now, step);
  change({ layer, head });
}
