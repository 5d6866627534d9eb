// Elements that several parts of a page make.

/** A button with these words, or this element in it. A click does `act`; `data` is what it stands for. */
export function makeButton(content, act, data = {}) {
  const made = document.createElement("button");
  made.type = "button";
  made.append(content);
  made.addEventListener("click", act);
  Object.assign(made.dataset, data);
  return made;
}

/** Write a text into an element; one that has not changed is not said again. */
export function tell(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

/** The heading of a column of a table, or of a row. */
export function makeHeading(text, scope = "col") {
  const made = document.createElement("th");
  made.scope = scope;
  made.textContent = text;
  return made;
}

/** A button in a table with a name whose direction is its own. */
export function makeNameButton(name, direction, act) {
  const made = document.createElement("bdi");
  made.dir = direction;
  made.textContent = name;
  return makeButton(made, act);
}
