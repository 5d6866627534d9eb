// Neighbours in a list and along an axis.

/** Clamp a number to a range. */
export function within(number, low, high) {
  return Math.min(Math.max(number, low), high);
}

/** Return the item of a list `step` places after `now`, at most its first or last item. */
export function next(list, now, step) {
  return nextAt(list, list.indexOf(now), step);
}

/** Return the item `step` places after the place `now`; the first item for -1. */
export function nextAt(list, now, step) {
  return list[now < 0 ? 0 : within(now + step, 0, list.length - 1)];
}

/** Return the first token of the unit `step` places after that of `token`; without a token, of the first or last unit. */
export function neighbour(units, token, step) {
  const now = units.findIndex((unit) => unit.members.includes(token));
  if (now < 0) return units.at(step > 0 ? 0 : -1).members[0];
  return nextAt(units, now, step).members[0];
}
