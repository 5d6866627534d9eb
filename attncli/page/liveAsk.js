// Asking the server that this page is from: one text at a time, and the newest next.

const LONG = 150; // milliseconds, after which what is newer waits no longer: the server then lets go of what it does
const AGAIN = [40, 200]; // milliseconds until it is asked again, where somebody else's text was newer
const LINE = 10; // the character that ends a line
const [TOO_OLD, NO_KEY, TOO_MANY] = [409, 403, 503];

/** What this page calls itself: of two things that one page asks for the older one is not wanted any more. */
export const whose = Array.from(crypto.getRandomValues(new Uint8Array(12)), (byte) => byte.toString(16).padStart(2, "0")).join("");

let running = null; // what is being asked, `{begun}`
let waiting = null; // what is asked next, `{wish, heard}`
let timer; // until it is

/** Ask for a text. `heard` is told of what becomes of it: `share(done)`, `answer(page, chunks)` or `error(text)`; or of nothing, if something newer is asked. */
export function ask(wish, heard) {
  waiting = { wish, heard };
  goOn();
}

/** Stop what is being asked: the server then stops computing it. */
export function stop() {
  running?.abort.abort();
  [running, waiting] = [null, null];
}

function goOn() {
  clearTimeout(timer);
  if (waiting === null) return;
  const left = running === null ? 0 : running.begun + LONG - performance.now();
  if (left > 0) timer = setTimeout(goOn, left);
  else run();
}

async function run() {
  const { wish, heard } = waiting;
  const mine = { begun: performance.now(), abort: new AbortController() };
  [running, waiting] = [mine, null];
  const isNewest = () => running === mine;
  const found = await answered(wish, mine.abort.signal, (share) => isNewest() && heard.share(share));
  if (!isNewest()) return;
  running = null;
  if (found.page) heard.answer(found.page, found.chunks);
  else if (found.error) heard.error(found.error);
  else if (waiting === null) [waiting, timer] = [{ wish, heard }, setTimeout(goOn, AGAIN[0] + Math.random() * (AGAIN[1] - AGAIN[0]))];
  if (found.page || found.error) goOn();
}

/** What the server makes of it: `{page, chunks}`, `{error}`, or neither, where something newer was asked. */
async function answered(wish, signal, tellShare) {
  try {
    const response = await post("/look", wish, signal);
    if (!response.ok) return await refusal(response);
    return await read(response.body.getReader(), tellShare);
  } catch {
    return { error: "The server does not answer. Is attncli serve still running?" };
  }
}

export function post(where, what, signal) {
  return fetch(where, { method: "POST", signal, headers: { "Content-Type": "application/json" }, body: JSON.stringify({ whose, ...what }) });
}

/** What an answer says that is none: `{error}`, or `{}`, if it is worth asking again. */
export async function refusal(response) {
  if (response.status === TOO_OLD || response.status === TOO_MANY) return {};
  if (response.status === NO_KEY) return { error: "The server was restarted. Open the address that it printed." };
  const { error } = await response.json();
  return { error };
}

/** Lines of JSON: how far it is, and at last the description, after which the bytes of its chunks come. */
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

/** The chunks, `[[name, bytes]]`, of which some are there already. */
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
