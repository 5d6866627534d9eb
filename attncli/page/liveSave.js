// What is on the screen as a page of its own, which needs no server: as `view` makes it.

import { post, refusal } from "./liveAsk.js";
import { MEAN, page } from "./data.js";
import { hand } from "./save.js";
import { state } from "./state.js";

const LONGEST = 40; // characters of a file's name that are the text's

/** Have the server make the page, and hand it to the browser. `tell` is told what went wrong, in words; "" if nothing did. */
export async function savePage(wish, tell) {
  const { view, mask, layer, head, segments, special, words, threshold } = state;
  const ofVectors = [layer === MEAN ? page.layers[0] : layer, head === MEAN ? page.heads[0] : head]; // a mean has none
  const token = state.side === "query" ? state.token : null;
  try {
    const response = await post("/page", { ...wish, head: ofVectors, state: { view, mask, layer, head, token, segments, special, words, threshold } });
    if (!response.ok) {
      tell((await refusal(response)).error ?? "The server is busy. Try again.");
      return;
    }
    const names = wish.text.normalize("NFC").toLowerCase().match(/[\p{L}\p{N}]+/gu) ?? [];
    hand(await response.blob(), `attention-${names.join("-").slice(0, LONGEST) || "page"}.html`);
    tell("");
  } catch {
    tell("The server does not answer. Is attncli serve still running?");
  }
}
