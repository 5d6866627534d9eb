// The lines that the view Heads draws, and the share of the weight on them.

import { countOf, hasFullMap, weightsOf } from "./data.js";
import { FAINTEST } from "./paint.js";
import { opacityOf, weightOf } from "./scale.js";
import { state } from "./state.js";
import { isHidden, shownWeights } from "./units.js";

const MOST = 1000; // lines
const GOLDEN = (Math.sqrt(5) - 1) / 2; // fractional parts of its multiples spread evenly over 0 to 1
const ALL = 1 - 1e-6; // a larger share counts as all of the weight, since the weights are rounded

/** Return the drawn heads: the selected ones that have full maps. */
export function drawnHeads() {
  return state.heads.filter((head) => hasFullMap(state.layer, head));
}

/**
 * Return the lines of a chosen token, `{place, side}`; or, if it is null, all lines that end in rows `first` to `last - 1`:
 * `{lines, count, largest, share}`. Return null if maps are not decoded yet.
 *
 * lines: `{query, key, head, weight, opacity}`, the strongest last. At most MOST of the `count` visible lines.
 * largest: the largest weight of these lines.
 * share: the share of the weight on the lines, in the token's row or column, or in these rows; NaN without any weight.
 */
export function linesOf({ queries, keys }, [first, last], chosen) {
  const heads = drawnHeads();
  const maps = heads.map((head) => shownWeights(queries, keys, state.layer, head));
  if (maps.includes(null)) return null;
  const width = keys.length;
  const cells = chosen === null ? inSight(queries, keys, first, last)
    : chosen.side === "query" ? keys.map((_, key) => chosen.place * width + key) : queries.map((_, query) => query * width + chosen.place);
  let largest = 0;
  for (const map of maps) for (const cell of cells) if (map[cell] > largest) largest = map[cell];
  const least = Math.max(state.threshold, weightOf(FAINTEST, largest));
  const found = [];
  maps.forEach((map, number) => {
    for (const cell of cells) {
      const weight = map[cell];
      if (weight > 0 && weight >= least) found.push({ query: Math.floor(cell / width), key: cell % width, head: heads[number], weight, opacity: opacityOf(weight, largest) });
    }
  });
  const lines = found.length <= MOST ? found : strongestLines(found, MOST);

  const [from, to] = chosen?.side === "query" ? [chosen.place, chosen.place + 1] : chosen ? [0, queries.length] : [first, last];
  const drawn = sum(lines.filter(({ query }) => query >= from && query < to).map(({ weight }) => weight));
  const all = chosen?.side === "key" ? sum(maps.flatMap((map) => cells.map((cell) => map[cell]))) : ofRows(heads, queries.slice(from, to));
  return { lines: lines.sort((a, b) => a.weight - b.weight), count: found.length, largest, share: drawn / all > ALL ? 1 : drawn / all };
}

/** Return the cells whose query or key is visible. */
function inSight(queries, keys, first, last) {
  const cells = [];
  queries.forEach((_, query) => {
    const [from, to] = query >= first && query < last ? [0, keys.length] : [first, Math.min(last, keys.length)];
    for (let key = from; key < to; key++) cells.push(query * keys.length + key);
  });
  return cells;
}

/** Return the `most` lines with the largest weights. Of equal weights at the limit, take lines from the whole map. */
function strongestLines(all, most) {
  const limit = Float32Array.from(all, (line) => line.weight).sort()[all.length - most];
  const [above, alike] = [all.filter((line) => line.weight > limit), all.filter((line) => line.weight === limit)];
  const scattered = alike.map((line, number) => ({ line, place: (number * GOLDEN) % 1 })).sort((a, b) => a.place - b.place);
  return above.concat(scattered.slice(0, most - above.length).map(({ line }) => line));
}

/** Return the sum of the weights in these rows without filters. The row of a word is the mean of its pieces' rows. */
function ofRows(heads, rows) {
  const width = countOf(state.text, "key");
  const maps = heads.map((head) => weightsOf(state.text, state.mask, state.layer, head));
  const row = (map, token) => sum(map.subarray(token * width, (token + 1) * width));
  return sum(maps.flatMap((map) => rows.map(({ members }) => sum(members.map((token) => row(map, token))) / members.length)));
}

/** Return the sum of the weights that are not hidden. */
function sum(weights) {
  let all = 0;
  for (const weight of weights) if (!isHidden(weight)) all += weight;
  return all;
}
