// Functions that make elements of a page.

/** Return a button with a text or an element. A click calls `act`. `data` becomes its data attributes. */
export function makeButton(content, act, data = {}) {
  const made = document.createElement("button");
  made.type = "button";
  made.append(content);
  made.addEventListener("click", act);
  Object.assign(made.dataset, data);
  return made;
}

/** Set the text of an element if it has changed, so that screen readers do not repeat it. */
export function tell(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

/** Scroll a box, the offset parent of its children, so that one of them is visible. */
export function scrollTo(box, { offsetTop, offsetLeft, offsetWidth, offsetHeight }) {
  box.scrollTop = Math.min(Math.max(box.scrollTop, offsetTop + offsetHeight - box.clientHeight), offsetTop);
  box.scrollLeft = Math.min(Math.max(box.scrollLeft, offsetLeft + offsetWidth - box.clientWidth), offsetLeft);
}

/** Return the heading of a column or row of a table. */
export function makeHeading(text, scope = "col") {
  const made = document.createElement("th");
  made.scope = scope;
  made.textContent = text;
  return made;
}

/** Return a button with a name that keeps its own writing direction. */
export function makeNameButton(name, direction, act) {
  const made = document.createElement("bdi");
  made.dir = direction;
  made.textContent = name;
  return makeButton(made, act);
}
