// The neighbour in a list, and along an axis.

/** The neighbour of `now` in a list, `step` further, and no further than its ends. */
export function next(list, now, step) {
  return list[Math.min(Math.max(list.indexOf(now) + step, 0), list.length - 1)];
}

/** The first token of the unit `step` after that which holds `token`; from none on that of the first or the last. */
export function neighbour(units, token, step) {
  const now = units.findIndex((unit) => unit.members.includes(token));
  const place = now < 0 ? (step > 0 ? 0 : units.length - 1) : Math.min(Math.max(now + step, 0), units.length - 1);
  return units[place].members[0];
}
