// Send requests to this page's server: one text at a time, and then only the newest of those that wait.

const LONG = 150; // milliseconds after which a newer request replaces the running one, which the server then drops
const AGAIN = [40, 200]; // milliseconds, at random, before repeating a request that another page's request replaced
const LINE = 10; // the character that ends a line
const [TOO_OLD, NO_KEY, TOO_MANY] = [409, 403, 503];

/** The id of this page in requests. The server drops the older request of a page when a newer one arrives. */
export const whose = Array.from(crypto.getRandomValues(new Uint8Array(12)), (byte) => byte.toString(16).padStart(2, "0")).join("");

let running = null; // the request in progress, `{begun, abort}`
let waiting = null; // the next request, `{request, handlers}`
let timer; // calls runNext

/** Request a text. `handlers` has the functions `share(done)`, `answer(page, chunks)` and `error(text)`. After a newer request they are not called. */
export function ask(request, handlers) {
  waiting = { request, handlers };
  runNext();
}

/** Stop the running request. The server then stops computing it. */
export function stop() {
  running?.abort.abort();
  [running, waiting] = [null, null];
}

function runNext() {
  clearTimeout(timer);
  if (waiting === null) return;
  const left = running === null ? 0 : running.begun + LONG - performance.now();
  if (left > 0) timer = setTimeout(runNext, left);
  else run();
}

async function run() {
  const { request, handlers } = waiting;
  const mine = { begun: performance.now(), abort: new AbortController() };
  [running, waiting] = [mine, null];
  const isNewest = () => running === mine;
  const found = await fetchAnswer(request, mine.abort.signal, (share) => isNewest() && handlers.share(share));
  if (!isNewest()) return;
  running = null;
  if (found.page) handlers.answer(found.page, found.chunks);
  else if (found.error) handlers.error(found.error);
  else if (waiting === null) [waiting, timer] = [{ request, handlers }, setTimeout(runNext, AGAIN[0] + Math.random() * (AGAIN[1] - AGAIN[0]))];
  if (found.page || found.error) runNext();
}

/** Return the server's answer: `{page, chunks}`, `{error}`, or `{}` as `refusal` does. */
async function fetchAnswer(request, signal, tellShare) {
  try {
    const response = await post("/look", request, signal);
    if (!response.ok) return await refusal(response);
    return await read(response.body.getReader(), tellShare);
  } catch {
    return { error: "The server does not answer. Is attncli serve still running?" };
  }
}

export function post(where, what, signal) {
  return fetch(where, { method: "POST", signal, headers: { "Content-Type": "application/json" }, body: JSON.stringify({ whose, ...what }) });
}

/** Return the error of a failed answer: `{error}`, or `{}` if the request should be repeated. */
export async function refusal(response) {
  if (response.status === TOO_OLD || response.status === TOO_MANY) return {};
  if (response.status === NO_KEY) return { error: "The server was restarted. Open the address that it printed." };
  const { error } = await response.json();
  return { error };
}

/** Read the response: lines of JSON with the completed share, a line with the description, and the bytes of its chunks. */
async function read(reader, tellShare) {
  let bytes = new Uint8Array(0);
  for (;;) {
    for (let end = bytes.indexOf(LINE); end >= 0; end = bytes.indexOf(LINE)) {
      const line = JSON.parse(new TextDecoder().decode(bytes.subarray(0, end)));
      bytes = bytes.subarray(end + 1);
      if (line.page) return { page: line.page, chunks: await readChunks(reader, bytes, Object.entries(line.chunks)) };
      if (line.share === undefined) return line;
      tellShare(line.share);
    }
    const { done, value } = await reader.read();
    if (done) throw new Error("cut short");
    const both = new Uint8Array(bytes.length + value.length);
    both.set(bytes);
    both.set(value, bytes.length);
    bytes = both;
  }
}

/** Read the chunks, `[[name, bytes]]`. `there`: their bytes that have already arrived. */
async function readChunks(reader, there, sizes) {
  const whole = new Uint8Array(sizes.reduce((sum, [, size]) => sum + size, 0));
  whole.set(there);
  for (let filled = there.length; filled < whole.length; ) {
    const { done, value } = await reader.read();
    if (done) throw new Error("cut short");
    whole.set(value, filled);
    filled += value.length;
  }
  let start = 0;
  return sizes.map(([name, size]) => [name, whole.slice(start, (start += size))]);
}
