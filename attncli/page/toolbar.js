// The toolbar: what is used rarely, and what has no room in its two rows, stands in a menu. Every filter that is on says so
// and can be cleared.

import { filters } from "./captions.js";
import { makeButton } from "./elements.js";
import { change } from "./state.js";

const ROWS = 2;

const [bar, more, rest, chips] = ["bar", "more", "rest", "chips"].map((name) => document.getElementById(name));
const controls = [...bar.children]; // in their order, of which the last ones go first
const movable = controls.filter((one) => !("stays" in one.dataset)).reverse();

let fitted = ""; // the width and the controls that the toolbar was made to fit for

/** Put what has room into the toolbar and the rest into its menu. */
export function fit() {
  const now = [innerWidth, controls.map((one) => one !== chips && one.hidden)].join();
  if (fitted === now) return;
  fitted = now;
  const [focused, cleared] = [document.activeElement, chips.hidden];
  chips.hidden = true; // they take a row of their own where they have no room
  bar.append(...controls);
  for (const one of movable.filter(({ hidden }) => !hidden)) {
    if (rows() <= ROWS) break;
    rest.prepend(one);
  }
  chips.hidden = cleared;
  focused.focus({ preventScroll: true }); // which is lost where its element moved
}

/** How many rows the toolbar takes. */
function rows() {
  let [count, end] = [0, -Infinity];
  for (const { top, bottom } of [...bar.children].filter((one) => !one.hidden).map((one) => one.getBoundingClientRect())) {
    if (top >= end) count += 1;
    end = top >= end ? bottom : Math.max(end, bottom);
  }
  return count;
}

/** A button for every filter that is on, which takes it away. */
export function showFilters() {
  const on = filters();
  if (on.map(({ said }) => said).join() === [...chips.children].map((one) => one.textContent).join()) return;
  chips.hidden = on.length === 0;
  chips.replaceChildren(...on.map(({ said, undo }) => {
    const made = makeButton(said, () => {
      change(undo);
      (chips.querySelector("button") ?? document.getElementById("chart")).focus();
    });
    made.title = "Clear this filter";
    return made;
  }));
}

/** Begin to listen. */
export function listenToToolbar() {
  new ResizeObserver(fit).observe(bar);
  rest.addEventListener("beforetoggle", () => {
    rest.style.top = `${more.getBoundingClientRect().bottom + 4}px`;
  });
}
