// Save the current view as an offline page, like one of `view`.

import { post, refusal } from "./liveAsk.js";
import { MEAN, page } from "./data.js";
import { download } from "./save.js";
import { state } from "./state.js";

const LONGEST = 40; // characters of the text in the file's name

/** Request the page from the server, and let the browser save it. `tell(error)` shows an error; "" if there is none. */
export async function savePage(request, tell) {
  const { view, mask, layer, head, segments, special, words, threshold } = state;
  const ofVectors = [layer === MEAN ? page.layers[0] : layer, head === MEAN ? page.heads[0] : head]; // a mean has no q and k
  const token = state.side === "query" ? state.token : null;
  try {
    const response = await post("/page", { ...request, head: ofVectors, state: { view, mask, layer, head, token, segments, special, words, threshold } });
    if (!response.ok) {
      tell((await refusal(response)).error ?? "The server is busy. Try again.");
      return;
    }
    const names = request.text.normalize("NFC").toLowerCase().match(/[\p{L}\p{N}]+/gu) ?? [];
    download(await response.blob(), `attention-${names.join("-").slice(0, LONGEST) || "page"}.html`);
    tell("");
  } catch {
    tell("The server does not answer. Is attncli serve still running?");
  }
}
