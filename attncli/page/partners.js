// The partners of a token: what it looks at, or what looks at it, and with what weight, in some heads of the layer.

import { state } from "./state.js";
import { axes, isHidden, placeOf, shownWeights } from "./units.js";

/**
 * All partners of `{token, side}`, along their axis: `{label, token, place, values, best, hidden}`. `values` are
 * `{head, weight}` of each of the heads, `best` is the largest of them; `hidden` are those that the mask hides from all.
 * Null where the filters left the token out, where there is no head, or weights are not decoded yet.
 */
export function partnersOf({ token, side }, heads) {
  const { queries, keys } = axes();
  const held = placeOf(side === "query" ? queries : keys, token);
  const maps = heads.map((head) => shownWeights(queries, keys, state.layer, head));
  if (held < 0 || maps.length === 0 || maps.includes(null)) return null;
  return (side === "query" ? keys : queries).map((unit, place) => {
    const cell = side === "query" ? held * keys.length + place : place * keys.length + held;
    const values = heads.map((head, number) => ({ head, weight: maps[number][cell] }));
    return {
      label: unit.label,
      token: unit.members[0],
      place,
      values,
      best: values.reduce((best, one) => (one.weight > best.weight ? one : best), { head: heads[0], weight: 0 }),
      hidden: values.every(({ weight }) => isHidden(weight)),
    };
  });
}

/** So many of the partners, those with the largest weights first, and none below the threshold. */
export function strongest(partners, most) {
  return partners
    .filter(({ best }) => best.weight > 0 && best.weight >= state.threshold)
    .sort((a, b) => b.best.weight - a.best.weight)
    .slice(0, most);
}
