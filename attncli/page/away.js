// Where a partner stands that is out of sight: an arrow at the edge towards it, its name and its weight.

import { isolated, value } from "./captions.js";
import { textWidth } from "./paint.js";
import { within } from "./stepping.js";

const SIZE = 12;
const HIGH = 20;
const GAP = 6;
const ARROWS = ["↖↑↗", "←·→", "↙↓↘"];

/**
 * Point from the edge of what is seen, `{left, top, right, bottom}`, to a partner (partners.js) that is drawn at (x, y).
 * Nothing where that is in sight.
 */
export function pointAway(painter, { left, top, right, bottom }, x, y, { label, token, best }, colours) {
  const [across, down] = [Number(x > right) - Number(x < left), Number(y > bottom) - Number(y < top)];
  if (across === 0 && down === 0) return;
  const arrow = ARROWS[down + 1][across + 1];
  const said = `${arrow} ${isolated(label)} ${token}: ${value(best.weight)}`;
  const wide = textWidth(said, SIZE, true) + 2 * GAP;
  const [from, upper] = [within(x - wide / 2, left, right - wide), within(y - HIGH / 2, top, bottom - HIGH)];
  painter.rect(from, upper, wide, HIGH, { fill: colours.mark, stroke: colours.accent, data: { away: arrow, token, head: best.head, weight: best.weight } });
  painter.text(said, from + GAP, upper + HIGH / 2, { fill: colours.ink, size: SIZE, bold: true });
}
