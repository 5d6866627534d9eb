// The toolbar. Rare controls, and those that do not fit into its rows, are in a menu. Every active filter has a button that
// clears it.

import { activeFilters } from "./captions.js";
import { makeButton } from "./elements.js";
import { change } from "./state.js";

const ROWS = 2;

const [bar, more, rest, chips] = ["bar", "more", "rest", "chips"].map((name) => document.getElementById(name));
const controls = [...bar.children]; // the last ones move to the menu first
const movable = controls.filter((one) => !("stays" in one.dataset)).reverse();

let fitted = ""; // the width and controls of the last fit

/** Put the controls that fit into the toolbar, and the others into its menu. */
export function fit() {
  const now = [innerWidth, controls.map((one) => one !== chips && one.hidden)].join();
  if (fitted === now) return;
  fitted = now;
  const [focused, cleared] = [document.activeElement, chips.hidden];
  chips.hidden = true; // without room they take a row of their own
  bar.append(...controls);
  for (const one of movable.filter(({ hidden }) => !hidden)) {
    if (rows() <= ROWS) break;
    rest.prepend(one);
  }
  chips.hidden = cleared;
  focused.focus({ preventScroll: true }); // moving an element loses its focus
}

/** Return the number of rows of the toolbar. */
function rows() {
  let [count, end] = [0, -Infinity];
  for (const { top, bottom } of [...bar.children].filter((one) => !one.hidden).map((one) => one.getBoundingClientRect())) {
    if (top >= end) count += 1;
    end = top >= end ? bottom : Math.max(end, bottom);
  }
  return count;
}

/** Show a button for every active filter, which clears it. */
export function showFilters() {
  const on = activeFilters();
  if (on.map(({ label }) => label).join() === [...chips.children].map((one) => one.textContent).join()) return;
  chips.hidden = on.length === 0;
  chips.replaceChildren(...on.map(({ label, undo }) => {
    const made = makeButton(label, () => {
      change(undo);
      (chips.querySelector("button") ?? document.getElementById("chart")).focus();
    });
    made.title = "Clear this filter";
    return made;
  }));
}

/** Open the menu, if it holds this control. */
export function reveal(control) {
  if (rest.contains(control)) rest.showPopover();
}

/** Listen to the size of the toolbar, and place its menu. */
export function listenToToolbar() {
  new ResizeObserver(fit).observe(bar);
  rest.addEventListener("beforetoggle", () => {
    rest.style.top = `${more.getBoundingClientRect().bottom + 4}px`;
  });
}
