// To the neighbour: of a layer, a head, a token.

import { scrollToToken } from "./chart.js";
import { change, state } from "./state.js";
import { axes } from "./units.js";

/** The neighbour of `now` in a list, `step` further, and no further than its ends. */
export function next(list, now, step) {
  return list[Math.min(Math.max(list.indexOf(now) + step, 0), list.length - 1)];
}

/** Hold the token before or after the one that is held, on its side; at first the first or the last one. */
export function goToToken(step) {
  const { queries, keys } = axes();
  const units = state.side === "query" ? queries : keys;
  if (units.length) change({ token: neighbour(units, state.token, step) });
  scrollToToken();
}

/** The token `step` units after that which holds `token`; from none on the first or the last. */
export function neighbour(units, token, step) {
  const now = units.findIndex((unit) => unit.members.includes(token));
  const place = now < 0 ? (step > 0 ? 0 : units.length - 1) : Math.min(Math.max(now + step, 0), units.length - 1);
  return units[place].members[0];
}
