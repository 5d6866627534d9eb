// Weights as they are stored: from the bytes of a layer to the weights of a head. levels.py writes them, and says why so.

const BELOW = 255; // the level of what is not stored
const CONTEXTS = 32;
const FADE = 2;

/**
 * The weights of head number `head` of `heads`, [query * keys + key]; `scale` says how they are stored, `{steps, parts,
 * strongest, depth}`: a weight is 2 ^ -((level + place in it) / steps).
 */
export function readHead(bytes, scale, heads, head, queries, keys) {
  const { strongest, depth } = scale;
  const { streams, place: first, places } = placesOf(bytes, heads, head);
  const { ends, shares, middles } = tablesOf(scale);
  const { guesses, heights } = guessesOf(depth);
  const weights = new Float32Array(queries * keys);
  const [levels, means, counts] = [new Uint8Array(keys), new Uint16Array(keys), new Uint32Array(BELOW + 1)];
  let place = first;
  for (let query = 0; query < queries; query++) {
    counts.fill(0);
    for (let key = 0; key < keys; key++) {
      const mean = means[key];
      const level = bytes[streams[guesses[mean]]++];
      means[key] = mean - (mean >> FADE) + heights[level];
      counts[level]++;
      levels[key] = level;
    }
    const weakest = levelOfWeakest(counts, strongest);
    for (let key = 0, cell = query * keys; key < keys; key++, cell++) {
      const level = levels[key];
      weights[cell] = level > weakest ? middles[level] : ends[level] * shares[bytes[place] + 256 * bytes[places + place++]];
    }
  }
  return weights;
}

const layouts = new WeakMap(); // bytes of a layer -> where the parts of each head begin, found once for all heads

/** Where the next level of a head is in each stream, its next place, and how far its high byte is from the low one. */
function placesOf(bytes, heads, head) {
  if (!layouts.has(bytes)) layouts.set(bytes, layoutOf(bytes, heads));
  const { begins, places } = layouts.get(bytes);
  const own = begins.slice(head * (CONTEXTS + 1), (head + 1) * (CONTEXTS + 1));
  return { streams: own.subarray(0, CONTEXTS), place: own[CONTEXTS], places };
}

/** Of every head where it begins in each stream and among the places; and how many places there are. */
function layoutOf(bytes, heads) {
  const width = CONTEXTS + 1;
  const count = heads * width;
  const sizeAt = (place) => bytes[place] + 256 * (bytes[count + place] + 256 * (bytes[2 * count + place] + 256 * bytes[3 * count + place]));
  const begins = new Uint32Array(count);
  let [reached, places] = [4 * count, 0];
  for (let stream = 0; stream < width; stream++) {
    for (let one = 0; one < heads; one++) {
      const size = sizeAt(one * width + stream);
      begins[one * width + stream] = reached;
      reached += size;
      if (stream === CONTEXTS) places += size;
    }
  }
  return { begins, places };
}

/** The level of the weakest of so many strongest weights, where there are `counts` weights in each level. */
function levelOfWeakest(counts, strongest) {
  let level = 0;
  for (let left = strongest - counts[0]; left > 0 && level < BELOW - 1; left -= counts[level]) level++;
  return level;
}

const known = new Map(); // depth -> `guesses`, by the mean of the levels above the stream that a level is in; `heights`, what a level adds to that mean

function guessesOf(depth) {
  if (!known.has(depth)) {
    const means = (4 << FADE) * (depth + 1);
    const guesses = Uint8Array.from({ length: means }, (_, mean) => Math.floor((mean * CONTEXTS) / means));
    const heights = Uint16Array.from({ length: BELOW + 1 }, (_, level) => 4 * Math.max(depth - level, 0));
    known.set(depth, { guesses, heights });
  }
  return known.get(depth);
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
