// The partners of a token: the keys of a query, or the queries of a key, with their weights in some heads of the layer.

import { findingsOf } from "./data.js";
import { state } from "./state.js";
import { axes, isHidden, placeOf, shownWeights } from "./units.js";

/**
 * Return the partners of `{token, side}` in order: `{label, token, place, values, best, hidden}`. values: `{head, weight}` of
 * each head. best: the largest of these. hidden: true if the mask hides the partner in all heads.
 *
 * Return null if a filter hides the token, if there is no head, or if weights are not decoded yet.
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

/**
 * Return the units of the prompt as partners of all written tokens together. Their weights are shares of attention. Return an
 * empty list for a text that no model wrote, and in Neuron, which always shows one query.
 */
export function promptPartners() {
  const shares = (state.view !== "neuron" && findingsOf(state.text, state.mask).shares) || [];
  return axes().keys.flatMap(({ label, members }) => {
    const inside = shares.filter(({ token }) => members.includes(token));
    const sum = (name) => inside.reduce((total, one) => total + one[name], 0);
    return inside.length ? [{ label, token: members[0], values: [], best: { weight: sum("share") }, uniform: sum("uniform") }] : [];
  });
}

/** Return the `most` partners with the largest weights, the largest first, without those below the threshold. */
export function strongest(partners, most) {
  return partners
    .filter(({ best }) => best.weight > 0 && best.weight >= state.threshold)
    .sort((a, b) => b.best.weight - a.best.weight)
    .slice(0, most);
}
