// Which lines Heads draws, and how much of the weight they carry.

import { countOf, isWhole, weightsOf } from "./data.js";
import { FAINTEST } from "./paint.js";
import { opacityOf, weightOf } from "./scale.js";
import { state } from "./state.js";
import { isHidden, shownWeights } from "./units.js";

const MOST = 1000;
const GOLDEN = (Math.sqrt(5) - 1) / 2; // whose multiples lie everywhere between two whole numbers
const ALL = 1 - 1e-6; // of a sum of many rounded numbers

/** The heads that are drawn: those chosen of which the page holds all weights. */
export function drawnHeads() {
  return state.heads.filter((head) => isWhole(state.layer, head));
}

/**
 * The lines of a token that is chosen, `{place, side}`, or (null) all with an end in the rows from `first` to before
 * `last`: `{lines, count, largest, share}`, or null if maps are not decoded yet.
 *
 * lines: `{query, key, head, weight, opacity}`, the strongest last, of `count` that could be told from nothing.
 * largest: the largest weight of these.
 * share: how much of the weight they carry: of the token's row or column, or of these rows; NaN where there is none.
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
  const lines = found.length <= MOST ? found : strongest(found, MOST);

  const [from, to] = chosen?.side === "query" ? [chosen.place, chosen.place + 1] : chosen ? [0, queries.length] : [first, last];
  const drawn = sum(lines.filter(({ query }) => query >= from && query < to).map(({ weight }) => weight));
  const all = chosen?.side === "key" ? sum(maps.flatMap((map) => cells.map((cell) => map[cell]))) : ofRows(heads, queries.slice(from, to));
  return { lines: lines.sort((a, b) => a.weight - b.weight), count: found.length, largest, share: drawn / all > ALL ? 1 : drawn / all };
}

/** The cells of which the query or the key is in sight. */
function inSight(queries, keys, first, last) {
  const cells = [];
  queries.forEach((_, query) => {
    const [from, to] = query >= first && query < last ? [0, keys.length] : [first, Math.min(last, keys.length)];
    for (let key = from; key < to; key++) cells.push(query * keys.length + key);
  });
  return cells;
}

/** The so many lines with the largest weights; of those that are alike at the limit some from everywhere. */
function strongest(all, most) {
  const limit = Float32Array.from(all, (line) => line.weight).sort()[all.length - most];
  const [above, alike] = [all.filter((line) => line.weight > limit), all.filter((line) => line.weight === limit)];
  const scattered = alike.map((line, number) => ({ line, place: (number * GOLDEN) % 1 })).sort((a, b) => a.place - b.place);
  return above.concat(scattered.slice(0, most - above.length).map(({ line }) => line));
}

/** All weight of these rows, whatever the filters leave of it: a word's row is the mean of those of its pieces. */
function ofRows(heads, rows) {
  const width = countOf(state.text, "key");
  const maps = heads.map((head) => weightsOf(state.text, state.mask, state.layer, head));
  const row = (map, token) => sum(map.subarray(token * width, (token + 1) * width));
  return sum(maps.flatMap((map) => rows.map(({ members }) => sum(members.map((token) => row(map, token))) / members.length)));
}

/** The sum of weights, of which those that are hidden are none. */
function sum(weights) {
  let all = 0;
  for (const weight of weights) if (!isHidden(weight)) all += weight;
  return all;
}
