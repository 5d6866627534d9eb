// Weights as they are stored: from the bytes of a layer to the weights of a head. packing.py writes them, and says why so.

const BELOW = 255; // the level of what is not stored

/**
 * The weights of head number `head` of `heads`, [query * keys + key]; `scale` says how they are stored, `{steps, parts,
 * strongest}`: a weight is 2 ^ -((level + place in it) / steps).
 */
export function readHead(bytes, scale, heads, head, queries, keys) {
  const { strongest } = scale;
  const { ends, shares, middles } = tablesOf(scale);
  const cells = queries * keys;
  const first = 4 * heads + head * cells; // of its levels, key by key
  let { place, high } = placesOf(bytes, heads, head, cells);
  const weights = new Float32Array(cells);
  const [levels, counts] = [new Uint8Array(keys), new Uint32Array(BELOW + 1)];
  for (let query = 0; query < queries; query++) {
    counts.fill(0);
    for (let key = 0, at = first + query; key < keys; key++, at += queries) counts[(levels[key] = bytes[at])]++;
    const weakest = levelOfWeakest(counts, strongest);
    for (let key = 0, cell = query * keys; key < keys; key++, cell++) {
      const level = levels[key];
      weights[cell] = level > weakest ? middles[level] : ends[level] * shares[bytes[place] + 256 * bytes[high + place++]];
    }
  }
  return weights;
}

/** Where the places of a head begin, and how far their high bytes are from the low ones. */
function placesOf(bytes, heads, head, cells) {
  const countOf = (one) => [3, 2, 1, 0].reduce((count, byte) => 256 * count + bytes[byte * heads + one], 0);
  let [before, all] = [0, 0];
  for (let one = 0; one < heads; one++) {
    if (one === head) before = all;
    all += countOf(one);
  }
  return { place: 4 * heads + heads * cells + before, high: all };
}

/** The level of the weakest of so many strongest weights, where there are `counts` weights in each level. */
function levelOfWeakest(counts, strongest) {
  let level = 0;
  for (let left = strongest - counts[0]; left > 0 && level < BELOW - 1; left -= counts[level]) level++;
  return level;
}

const tables = new Map();

/**
 * What weights are made of: `ends`, the largest of each level, and `shares` of it by the place in the level; `middles` are
 * shown where the place is not stored, and are at no stored place.
 */
function tablesOf({ steps, parts }) {
  const name = `${steps} ${parts}`;
  if (!tables.has(name)) {
    const powers = (length, step, from) => Float64Array.from({ length }, (_, number) => 2 ** (-(from + number * step) / steps));
    const middles = Float32Array.from(powers(BELOW + 1, 1, 0.5 - 0.5 / parts));
    middles[BELOW] = 0;
    tables.set(name, { ends: powers(BELOW, 1, 0), shares: powers(parts, 1 / parts, 0), middles });
  }
  return tables.get(name);
}

/** Whether of a weight only the level is stored. */
export function isRough(weight, scale) {
  return weight > 0 && tablesOf(scale).middles.includes(weight);
}
