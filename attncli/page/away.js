// An arrow at the edge of the window to a token that is out of sight, with its name and weight.

import { isolate, value } from "./captions.js";
import { textWidth } from "./paint.js";
import { within } from "./stepping.js";

const SIZE = 12;
const HIGH = 20;
const GAP = 6;
const ARROWS = ["↖↑↗", "←·→", "↙↓↘"];

/**
 * Draw an arrow at the edge of the visible area, `{left, top, right, bottom}`, to a partner (partners.js) at (x, y). Draw
 * nothing if the partner is visible.
 */
export function pointAway(painter, { left, top, right, bottom }, x, y, { label, token, best }, colours) {
  const [across, down] = [Number(x > right) - Number(x < left), Number(y > bottom) - Number(y < top)];
  if (across === 0 && down === 0) return;
  const arrow = ARROWS[down + 1][across + 1];
  const said = `${arrow} ${isolate(label)} ${token}: ${value(best.weight)}`;
  const wide = textWidth(said, SIZE, true) + 2 * GAP;
  const [from, upper] = [within(x - wide / 2, left, right - wide), within(y - HIGH / 2, top, bottom - HIGH)];
  painter.rect(from, upper, wide, HIGH, { fill: colours.mark, stroke: colours.accent, data: { away: arrow, token, head: best.head, weight: best.weight } });
  painter.text(said, from + GAP, upper + HIGH / 2, { fill: colours.ink, size: SIZE, bold: true });
}
