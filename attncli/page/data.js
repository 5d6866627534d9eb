// What the page holds: texts, and for each mask the maps of all layers and heads, and q and k of some heads.
// Numbers lie in chunks, base64 of a zlib stream, which are decoded when they are first asked for.

import { Recent } from "./recent.js";

/** The description of everything, as attncli wrote it: see payload.py. */
export const page = JSON.parse(document.getElementById("page").textContent);

/** Stands for the mean: as a head over all heads, as a layer over all layers. */
export const MEAN = -1;

const KEPT_MAPS = 48; // of 512 tokens a megabyte each

const chunks = new Map(); // id -> Uint8Array, or null while it is being decoded
const maps = new Recent(KEPT_MAPS); // "text mask layer head" -> Float32Array [query * keys + key]

/** The bytes of a chunk, or null if they are not there yet: `whenDecoded` then tells. */
function bytesOf(id) {
  if (!chunks.has(id)) {
    chunks.set(id, null);
    decode(document.getElementById(id).textContent).then((bytes) => {
      chunks.set(id, bytes);
      whenDecoded();
    });
  }
  return chunks.get(id);
}

/** A chunk's float32 numbers, or null if they are not decoded yet. */
export function floatsOf(id) {
  const bytes = bytesOf(id);
  return bytes && new Float32Array(bytes.buffer);
}

/** Take over texts that came later, as payload.py describes them, with the bytes of their chunks by name; gives the number of the first. */
export function arrive(texts, bytes) {
  for (const [id, one] of bytes) chunks.set(id, one);
  return page.texts.push(...texts) - texts.length;
}

/** Let go of a text and its chunks, by their names; its number is no other's. */
export function forget(number, ids) {
  const nothing = { tokens: [], segments: [], special: [], words: [] };
  page.texts[number] = { ...page.texts[number], ...nothing, keys: null };
  for (const id of ids) chunks.delete(id);
}

async function decode(text) {
  const packed = fromBase64(text);
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

function fromBase64(text) {
  if (Uint8Array.fromBase64) return Uint8Array.fromBase64(text); // browsers of 2025 and later
  const characters = atob(text);
  const bytes = new Uint8Array(characters.length);
  for (let place = 0; place < bytes.length; place++) bytes[place] = characters.charCodeAt(place);
  return bytes;
}

/** Decode ahead the layers that the user may turn to next: all of this text and mask, the nearest first. */
export function decodeAhead(text, name, layer) {
  const near = page.layers.indexOf(layer);
  const { maps: ids, small } = maskOf(text, name);
  const all = small ? [...ids, ...small.maps] : ids;
  const far = (place) => Math.abs((place % ids.length) - near);
  const waiting = [...all.keys()].filter((place) => !chunks.has(all[place]));
  if (waiting.length === 0 || all.some((id) => chunks.get(id) === null)) return; // one at a time
  bytesOf(all[waiting.sort((a, b) => far(a) - far(b))[0]]);
}

let whenDecoded = () => {};

/** `callback` is called each time a chunk has been decoded. */
export function onDecoded(callback) {
  whenDecoded = callback;
}

/** The tokens of a text along its queries or its keys, `{tokens, segments, special, words}`: the same, or two texts. */
export function tokensOf(text, side) {
  const whole = page.texts[text];
  return side === "key" ? (whole.keys ?? whole) : whole;
}

/** How many tokens a text has along its queries or its keys. */
export function countOf(text, side) {
  return tokensOf(text, side).tokens.length;
}

/** Whether the page holds all weights of a head; a small page has of most heads only the largest of each block of them. */
export function isWhole(layer, head) {
  return layer === MEAN || head === MEAN ? !page.whole : wholeHeads(layer).includes(head);
}

/** The heads of a layer that the page is about: all, but where heads were chosen that are no rectangle (`page.chosen`). */
export function headsOf(layer) {
  return page.chosen ? (page.chosen[page.layers.indexOf(layer)] ?? []) : page.heads;
}

/** The heads of a layer of which the page holds all weights. */
export function wholeHeads(layer) {
  return page.whole ? (page.whole[page.layers.indexOf(layer)] ?? []) : headsOf(layer);
}

/** What the page holds of text number `text` under the mask of this name. */
export function maskOf(text, name) {
  return page.texts[text].masks.find((mask) => mask.name === name);
}

/**
 * The weights of one head, [query * keys + key], or null if they are not decoded yet. What the layer's mask hides is NaN,
 * which no weight is. Of a head that is not whole, every weight is the largest of
 * its block.
 */
export function weightsOf(text, name, layer, head) {
  return maps.get(mapName(text, name, layer, head), () => {
    if (layer === MEAN || head === MEAN) return meanOf(text, name, layer === MEAN ? page.layers : [layer], head === MEAN ? page.heads : [head]);
    const mask = maskOf(text, name);
    const [queries, keys] = [countOf(text, "query"), countOf(text, "key")];
    const found = isWhole(layer, head)
      ? readMap(mask, layer, head, wholeHeads(layer), queries, keys)
      : spread(smallOf(text, name, layer, head), queries, keys);
    return found && hide(found, mask.hides, mask.allowed, layer);
  });
}

/** The mean of the weights of these layers and heads; hidden is what the masks of all these layers hide. */
function meanOf(text, name, layers, heads) {
  const mean = new Float32Array(countOf(text, "query") * countOf(text, "key")).fill(NaN);
  for (const layer of layers) {
    for (const head of heads) {
      const weights = weightsOf(text, name, layer, head);
      if (weights === null) return null;
      const share = 1 / (layers.length * heads.length);
      for (let cell = 0; cell < mean.length; cell++) {
        if (!Number.isNaN(weights[cell])) mean[cell] = (Number.isNaN(mean[cell]) ? 0 : mean[cell]) + share * weights[cell];
      }
    }
  }
  return mean;
}

let reading; // a timer

/** Read ahead the maps of these heads in the layers beside this one, one after the other while nothing else happens. */
export function readAhead(text, name, layer, heads) {
  clearTimeout(reading);
  const at = page.layers.indexOf(layer);
  const beside = [page.layers[at + 1], page.layers[at - 1]].filter((near) => near !== undefined);
  if ((beside.length + 1) * heads.length > KEPT_MAPS) return;
  const waiting = beside.flatMap((near) => heads.filter((head) => isWhole(near, head)).map((head) => [near, head]));
  const next = waiting.find(([near, head]) => !maps.has(mapName(text, name, near, head)));
  if (next === undefined) return;
  reading = setTimeout(() => weightsOf(text, name, ...next) && readAhead(text, name, layer, heads));
}

function mapName(...names) {
  return names.join(" ");
}

/**
 * The small map of a head, `{weights, rows, columns}`, or null if it is not decoded yet; undefined if the page has none
 * with so many cells. A cell is the largest of its block, and hidden where all of that is.
 */
export function smallOf(text, name, layer, head, cells = 0) {
  const mask = maskOf(text, name);
  if (mask.small === undefined || Math.max(mask.small.rows, mask.small.columns) < cells) return undefined;
  const { rows, columns } = mask.small;
  const found = readMap(mask.small, layer, head, page.heads, rows, columns);
  const weights = found && hide(found, mask.hides, mask.small.allowed, layer);
  return weights && { weights, rows, columns };
}

/**
 * A head out of maps as packing.py stores them, `{maps, levels}`; null if they are not decoded yet. A layer begins with the
 * largest weight of each head. Levels follow in the order [head][key][query]: the low bytes of all, then the next bytes.
 */
function readMap({ maps: ids, levels }, layer, head, heads, rows, columns) {
  const bytes = bytesOf(ids[page.layers.indexOf(layer)]);
  if (bytes === null) return null;
  const [cells, place] = [rows * columns, heads.indexOf(head)];
  const step = new Float32Array(bytes.slice(0, 4 * heads.length).buffer)[place] / levels;
  const weights = new Float32Array(cells);
  let at = 4 * heads.length + place * cells;
  for (let value = 1; value <= levels; value *= 256, at += heads.length * cells) {
    for (let key = 0, from = at; key < columns; key++) {
      for (let cell = key; cell < cells; cell += columns) weights[cell] += bytes[from++] * value;
    }
  }
  for (let cell = 0; cell < cells; cell++) weights[cell] *= step;
  return weights;
}

/** How far a stored weight of a head may be from the truth. */
export function errorOf(text, name, layer, head) {
  const mask = maskOf(text, name);
  const { levels } = isWhole(layer, head) ? mask : mask.small;
  return levels ? 0.5 / levels : 0; // a page of maps has them as they are
}

/** Write NaN where nothing may be attended to, if anything is hidden; gives null if that is not decoded yet. */
function hide(weights, hides, ids, layer) {
  const seen = maskBytes(ids, layer);
  if (hides && seen === null) return null;
  for (let cell = 0; hides && cell < weights.length; cell++) if (!bit(seen, cell)) weights[cell] = NaN;
  return weights;
}

/** The block, of `count` of them, that a place along a length is in: number i begins at floor(i * length / count), as in record/display.py. */
export function blockOf(place, count, length) {
  return Math.floor(((place + 1) * count - 1) / length);
}

/** A small map as large as the whole one. */
function spread(small, queries, keys) {
  if (small === null) return null;
  const weights = new Float32Array(queries * keys);
  for (let query = 0; query < queries; query++) {
    const row = blockOf(query, small.rows, queries) * small.columns;
    for (let key = 0; key < keys; key++) weights[query * keys + key] = small.weights[row + blockOf(key, small.columns, keys)];
  }
  return weights;
}

/** Whether a query may look at a key in a layer; null if the mask, of this layer or of all, is not decoded yet. */
export function allowed(text, name, layer, query, key) {
  const bytes = maskBytes(maskOf(text, name).allowed, layer);
  return bytes && bit(bytes, query * countOf(text, "key") + key);
}

/** What may be attended to in a layer, a bit a cell, or null if it is not decoded yet. */
function maskBytes(ids, layer) {
  return bytesOf(Array.isArray(ids) ? ids[page.layers.indexOf(layer)] : ids);
}

function bit(bytes, place) {
  return Boolean(bytes[place >> 3] & (128 >> (place & 7)));
}

/**
 * What makes the scores of one head, `{size, query, key, scale, sink, terms, steps, error, turning}`, q and k each Float32Array
 * [token * size + element], and of each term Float32Array [query * keys + key]; null if not decoded yet. The weights that
 * these make are within `error` of those of the record's own q and k, of which each number is within half a step.
 * Of each layer there are the low bytes of all levels and then the high bytes, both in the order [head][q, k, terms]:
 * number = (level - levels) * step.
 */
export function vectorsOf(text, name, layer, head) {
  const vectors = maskOf(text, name).vectors;
  const bytes = bytesOf(vectors.chunks[layer]);
  if (bytes === null) return null;
  const place = vectors.heads.findIndex((pair) => pair[0] === layer && pair[1] === head);
  const here = vectors.heads.filter((pair) => pair[0] === layer);
  const [queries, keys] = ["query", "key"].map((side) => countOf(text, side));
  const sizes = [queries * vectors.size, keys * vectors.size, ...vectors.terms.map(() => queries * keys)];
  const count = sizes.reduce((sum, size) => sum + size);
  const high = here.length * count;
  let start = here.findIndex((pair) => pair[1] === head) * count;
  const numbers = sizes.map((size, part) => {
    const step = vectors.steps[place][part];
    const found = new Float32Array(size);
    for (let one = 0; one < size; one++, start++) found[one] = ((bytes[start] | (bytes[high + start] << 8)) - vectors.levels) * step;
    return found;
  });
  const { turning } = vectors;
  return {
    size: vectors.size,
    query: numbers[0],
    key: numbers[1],
    terms: numbers.slice(2),
    scale: vectors.scale[place],
    sink: vectors.sinks?.[place] ?? null,
    steps: vectors.steps[place],
    error: vectors.errors[place],
    turning: turning && { ...turning, rates: turning.rates[turning.whose[place]] },
  };
}

/** Whether the page holds q and k of this head. */
export function hasVectors(text, name, layer, head) {
  return maskOf(text, name).vectors.heads.some((pair) => pair[0] === layer && pair[1] === head);
}

/** What a head does most: `{label, share, entropy, measured}`; undefined for a mean. */
export function kindOf(text, name, layer, head) {
  return maskOf(text, name).kinds[page.layers.indexOf(layer)]?.[page.heads.indexOf(head)];
}

/**
 * The heads that stand out, `{heads: [{layer, head, query, key, weight, usual}], count, texts}`, and of a text that a
 * model wrote its `steps`: see payload.py.
 */
export function findingsOf(text, name) {
  const { heads, count, texts, steps } = maskOf(text, name).findings;
  return { heads: heads.map(edgeOf), count, texts, steps: steps?.map((step) => ({ ...step, edge: step.edge && edgeOf(step.edge) })) };
}

function edgeOf([layer, head, query, key, weight, usual]) {
  return { layer, head, query, key, weight, usual };
}
