// The neighbour in a list, and along an axis.

/** The number, or the end of a range that it is beyond. */
export function within(number, low, high) {
  return Math.min(Math.max(number, low), high);
}

/** The neighbour of `now` in a list, `step` further, and no further than its ends. */
export function next(list, now, step) {
  return nextAt(list, list.indexOf(now), step);
}

/** The neighbour of the place `now`; the first where there is none (-1). */
export function nextAt(list, now, step) {
  return list[now < 0 ? 0 : within(now + step, 0, list.length - 1)];
}

/** The first token of the unit `step` after that which holds `token`; from none on that of the first or the last. */
export function neighbour(units, token, step) {
  const now = units.findIndex((unit) => unit.members.includes(token));
  if (now < 0) return units.at(step > 0 ? 0 : -1).members[0];
  return nextAt(units, now, step).members[0];
}
