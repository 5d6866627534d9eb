// The data of the page: texts, and for each mask the maps of all layers and heads, and q and k of some heads.
// Numbers are stored in chunks. A chunk is a zlib stream in base64, and is decoded at its first use.

import { Recent } from "./recent.js";

/** The description of the page, as payload.py writes it. */
export const page = JSON.parse(document.getElementById("page").textContent);

/** As a head's number: the mean over all heads. As a layer's number: the mean over all layers. */
export const MEAN = -1;

const KEPT_MAPS = 48; // maps; one of 512 tokens takes a megabyte

const chunks = new Map(); // id -> Uint8Array, or null while it is being decoded
const maps = new Recent(KEPT_MAPS); // "text mask layer head" -> Float32Array [query * keys + key]

/** Return the bytes of a chunk. If it is not decoded yet, start decoding and return null. `whenDecoded` is called when it is decoded. */
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

/** Return the float32 numbers of a chunk, or null if they are not decoded yet. */
export function floatsOf(id) {
  const bytes = bytesOf(id);
  return bytes && new Float32Array(bytes.buffer);
}

/** Add texts from the server, as payload.py describes them, and their chunks `[[name, bytes]]`. Return the number of the first text. */
export function addTexts(texts, bytes) {
  for (const [id, one] of bytes) chunks.set(id, one);
  return page.texts.push(...texts) - texts.length;
}

/** Delete a text and these chunks. Its number is not used again. */
export function deleteText(number, ids) {
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

/** Decode the nearest layer of this text and mask that is not decoded yet. */
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

/** Call `callback` each time a chunk has been decoded. */
export function onDecoded(callback) {
  whenDecoded = callback;
}

/** Return the tokens along the queries or the keys of a text, `{tokens, segments, special, words}`. */
export function tokensOf(text, side) {
  const whole = page.texts[text];
  return side === "key" ? (whole.keys ?? whole) : whole;
}

/** Return the number of tokens along the queries or the keys of a text. */
export function countOf(text, side) {
  return tokensOf(text, side).tokens.length;
}

/** Return true if the page stores the full map of a head. A small page has only small maps of most heads. */
export function hasFullMap(layer, head) {
  return layer === MEAN || head === MEAN ? !page.whole : fullHeads(layer).includes(head);
}

/** Return the heads of a layer that the page has: all of `page.heads`, unless heads were chosen by layer (`page.chosen`). */
export function headsOf(layer) {
  return page.chosen ? (page.chosen[page.layers.indexOf(layer)] ?? []) : page.heads;
}

/** Return the heads of a layer whose full maps are in the page. */
export function fullHeads(layer) {
  return page.whole ? (page.whole[page.layers.indexOf(layer)] ?? []) : headsOf(layer);
}

/** Return the entry of a text for a mask, as `mask_entry` in payload.py writes it. */
export function maskOf(text, name) {
  return page.texts[text].masks.find((mask) => mask.name === name);
}

/**
 * Return the weights of one head, [query * keys + key], or null if they are not decoded yet. A hidden weight is NaN. For a
 * head with only a small map, each weight is the largest of its block.
 */
export function weightsOf(text, name, layer, head) {
  return maps.get(mapName(text, name, layer, head), () => {
    if (layer === MEAN || head === MEAN) return meanOf(text, name, layer === MEAN ? page.layers : [layer], head === MEAN ? page.heads : [head]);
    const mask = maskOf(text, name);
    const [queries, keys] = [countOf(text, "query"), countOf(text, "key")];
    const found = hasFullMap(layer, head)
      ? readMap(mask, layer, head, fullHeads(layer), queries, keys)
      : enlarge(smallOf(text, name, layer, head), queries, keys);
    return found && hide(found, mask.hides, mask.allowed, layer);
  });
}

/** Return the mean weights of these layers and heads. A weight is hidden if the masks of all these layers hide it. */
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

let timer; // of readAhead

/** Read the maps of these heads in the next and the previous layer in advance, one at a time, while the page is idle. */
export function readAhead(text, name, layer, heads) {
  clearTimeout(timer);
  const at = page.layers.indexOf(layer);
  const neighbours = [page.layers[at + 1], page.layers[at - 1]].filter((near) => near !== undefined);
  if ((neighbours.length + 1) * heads.length > KEPT_MAPS) return;
  const waiting = neighbours.flatMap((near) => heads.filter((head) => hasFullMap(near, head)).map((head) => [near, head]));
  const next = waiting.find(([near, head]) => !maps.has(mapName(text, name, near, head)));
  if (next === undefined) return;
  timer = setTimeout(() => weightsOf(text, name, ...next) && readAhead(text, name, layer, heads));
}

function mapName(...names) {
  return names.join(" ");
}

/**
 * Return the small map of a head, `{weights, rows, columns}`. Return null if it is not decoded yet, and undefined if the
 * page has none with at least `cells` rows or columns. A cell is the largest weight of its block. It is hidden if the whole
 * block is.
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
 * Read a head's map from the chunks that packing.py writes, `{maps, levels}`. Return null if they are not decoded yet. A
 * layer's chunk begins with the largest weight of each head. The levels follow in the order [head][key][query]: the low bytes
 * of all levels, then their next bytes.
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

/** Return the largest error of a stored weight of a head. */
export function errorOf(text, name, layer, head) {
  const mask = maskOf(text, name);
  const { levels } = hasFullMap(layer, head) ? mask : mask.small;
  return levels ? 0.5 / levels : 0; // the page that compares maps stores exact numbers
}

/** Replace the weights that the mask hides by NaN. Return null if the mask is not decoded yet. */
function hide(weights, hides, ids, layer) {
  const seen = maskBytes(ids, layer);
  if (hides && seen === null) return null;
  for (let cell = 0; hides && cell < weights.length; cell++) if (!bit(seen, cell)) weights[cell] = NaN;
  return weights;
}

/** Return the index of the block that contains a place. Block i of `count` begins at floor(i * length / count), as in record/display.py. */
export function blockOf(place, count, length) {
  return Math.floor(((place + 1) * count - 1) / length);
}

/** Enlarge a small map to the size of the full map. */
function enlarge(small, queries, keys) {
  if (small === null) return null;
  const weights = new Float32Array(queries * keys);
  for (let query = 0; query < queries; query++) {
    const row = blockOf(query, small.rows, queries) * small.columns;
    for (let key = 0; key < keys; key++) weights[query * keys + key] = small.weights[row + blockOf(key, small.columns, keys)];
  }
  return weights;
}

/** Return true if a query may attend to a key in a layer; null if its mask is not decoded yet. */
export function allowed(text, name, layer, query, key) {
  const bytes = maskBytes(maskOf(text, name).allowed, layer);
  return bytes && bit(bytes, query * countOf(text, "key") + key);
}

/** Return the mask of a layer, a bit per cell, or null if it is not decoded yet. */
function maskBytes(ids, layer) {
  return bytesOf(Array.isArray(ids) ? ids[page.layers.indexOf(layer)] : ids);
}

function bit(bytes, place) {
  return Boolean(bytes[place >> 3] & (128 >> (place & 7)));
}

/**
 * Return the parts of one head's scores, `{size, query, key, scale, sink, terms, steps, error, rotation}`, or null if they are
 * not decoded yet. q and k are Float32Array [token * size + element], each term is Float32Array [query * keys + key].
 *
 * Each number differs from the record's by at most half a step. Weights computed from these numbers differ from the record's
 * by at most `error`. A layer's chunk has the low bytes of all levels and then their high bytes, in the order
 * [head][q, k, terms]. A number is (level - levels) * step.
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
  const { rotation } = vectors;
  return {
    size: vectors.size,
    query: numbers[0],
    key: numbers[1],
    terms: numbers.slice(2),
    scale: vectors.scale[place],
    sink: vectors.sinks?.[place] ?? null,
    steps: vectors.steps[place],
    error: vectors.errors[place],
    rotation: rotation && { ...rotation, rates: rotation.rates[rotation.whose[place]] },
  };
}

/** Return true if the page stores q and k of this head. */
export function hasVectors(text, name, layer, head) {
  return maskOf(text, name).vectors.heads.some((pair) => pair[0] === layer && pair[1] === head);
}

/** Return true if Neuron has q and k to show, or advice on how to get them. Units of several tokens have neither. */
export function hasNeuron(text) {
  return Boolean(page.advice) || page.texts[text].masks.some(({ vectors }) => vectors?.heads.length);
}

/** Return the dominant pattern of a head, `{label, share, entropy, measured}`; undefined for a mean. */
export function patternOf(text, name, layer, head) {
  return maskOf(text, name).kinds[page.layers.indexOf(layer)]?.[page.heads.indexOf(head)];
}

/**
 * Return the heads that stand out, `{heads: [{layer, head, query, key, weight, usual}], count, texts}`. A text that a model wrote
 * also has `steps` and `shares: [{token, share, uniform}]`: see findings_entry in payload.py.
 */
export function findingsOf(text, name) {
  const { heads, count, texts, steps, shares } = maskOf(text, name).findings;
  return {
    heads: heads.map(edgeOf), count, texts,
    steps: steps?.map((step) => ({ ...step, edge: step.edge && edgeOf(step.edge) })),
    shares: shares?.map(([token, share, uniform]) => ({ token, share, uniform })),
  };
}

function edgeOf([layer, head, query, key, weight, usual]) {
  return { layer, head, query, key, weight, usual };
}
