// What views draw on: a canvas, to be seen, SVG, to be saved, and nothing, to find out where anything will be drawn. All
// take the same orders.
// `data` is what a shape stands for ({query, key, weight}); SVG keeps it as data- attributes.

export const FAINTEST = 1 / 255; // an opacity below this is none
const FONT = "system-ui, sans-serif";
const [TILE, STROKES, HATCH] = [6, "M-1,1 1,-1 M0,6 6,0 M5,7 7,5", 0.6]; // of what is hidden: a square of it, its lines, how strong
export const PART = " · "; // between the parts of a caption
// Letters that are written from right to left: Unicode's blocks for their scripts.
const FROM_RIGHT = /^[^\p{L}]*[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc\u{10800}-\u{10fff}\u{1e800}-\u{1efff}]/u;
const MIDDLE = 0.35; // of a font's size: from a line's middle down to its baseline

const measuring = document.createElement("canvas").getContext("2d");

/** The direction of a text, which is its first letter's: "##" goes before a piece of Hebrew, and that is on its right. */
function direction(text) {
  return FROM_RIGHT.test(text) ? "rtl" : "ltr";
}

/** How wide a text is, in pixels. */
export function textWidth(text, size, bold = false) {
  measuring.font = `${bold ? "600 " : ""}${size}px ${FONT}`;
  return measuring.measureText(text).width;
}

/** `text`, or as much of its head as fits into `width` pixels with "…"; of a caption whole parts. */
export function cut(text, size, width) {
  if (textWidth(text, size) <= width) return text;
  const characters = [...text];
  let [low, high] = [0, characters.length];
  while (low < high) {
    const middle = Math.ceil((low + high) / 2);
    if (textWidth(`${characters.slice(0, middle).join("")}…`, size) <= width) low = middle;
    else high = middle - 1;
  }
  const head = characters.slice(0, low).join("");
  const parts = head.lastIndexOf(PART);
  return `${parts > 0 ? head.slice(0, parts + PART.length) : head}…`;
}

/** Pixels [rows * columns] as a picture that both painters can place. */
export function picture(pixels, rows, columns) {
  const canvas = document.createElement("canvas");
  [canvas.width, canvas.height] = [columns, rows];
  const image = new ImageData(new Uint8ClampedArray(pixels.buffer), columns, rows);
  canvas.getContext("2d").putImageData(image, 0, 0);
  return canvas;
}

export class CanvasPainter {
  vector = false;

  constructor(context) {
    this.context = context;
  }

  rect(x, y, width, height, { fill, stroke, alpha = 1, lineWidth = 1 } = {}) {
    this.context.globalAlpha = alpha;
    if (fill) {
      this.context.fillStyle = fill;
      this.context.fillRect(x, y, width, height);
    }
    if (stroke) {
      this.context.strokeStyle = stroke;
      this.context.lineWidth = lineWidth;
      this.context.strokeRect(x, y, width, height);
    }
  }

  line(x1, y1, x2, y2, { stroke, alpha = 1, lineWidth = 1, dash = [] } = {}) {
    const { context } = this;
    context.setLineDash(dash);
    context.globalAlpha = alpha;
    context.strokeStyle = stroke;
    context.lineWidth = lineWidth;
    context.beginPath();
    context.moveTo(x1, y1);
    context.lineTo(x2, y2);
    context.stroke();
    context.setLineDash([]);
  }

  text(text, x, y, { fill, size = 13, align = "left", bold = false, turn = 0 } = {}) {
    const { context } = this;
    context.globalAlpha = 1;
    context.fillStyle = fill;
    context.font = `${bold ? "600 " : ""}${size}px ${FONT}`;
    context.textAlign = align;
    context.textBaseline = "middle";
    context.direction = direction(text);
    context.save();
    context.translate(x, y);
    context.rotate((turn * Math.PI) / 180);
    context.fillText(text, 0, 0);
    context.restore();
  }

  image(image, x, y, width, height) {
    this.context.globalAlpha = 1;
    this.context.imageSmoothingEnabled = false;
    this.context.drawImage(image, x, y, width, height);
  }

  /** What lies under everything that is hidden: to be told from any colour. */
  hatch(x, y, width, height, { panel, faint }) {
    const { context } = this;
    const tile = document.createElement("canvas");
    tile.width = tile.height = TILE;
    const strokes = tile.getContext("2d");
    strokes.fillStyle = panel;
    strokes.fillRect(0, 0, TILE, TILE);
    strokes.strokeStyle = faint;
    strokes.globalAlpha = HATCH;
    strokes.stroke(new Path2D(STROKES));
    context.globalAlpha = 1;
    context.fillStyle = context.createPattern(tile, "repeat");
    context.fillRect(x, y, width, height);
  }

  /** Draw only inside a rectangle, until `endClip`. */
  clip(x, y, width, height) {
    this.context.save();
    this.context.beginPath();
    this.context.rect(x, y, width, height);
    this.context.clip();
  }

  endClip() {
    this.context.restore();
  }
}

export class SvgPainter {
  vector = true;

  /** `area` is the part of the drawing that is kept: {x, y, width, height}. */
  constructor({ x, y, width, height }, paper) {
    this.open = `<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${height}" viewBox="${x} ${y} ${width} ${height}" font-family="${FONT}">`;
    this.parts = [];
    this.clips = 0;
    this.patterns = 0;
    this.rect(x, y, width, height, { fill: paper });
  }

  rect(x, y, width, height, { fill = "none", stroke, alpha, lineWidth, data } = {}) {
    this.shape("rect", { x, y, width, height, fill, stroke, opacity: alpha, "stroke-width": lineWidth }, data);
  }

  line(x1, y1, x2, y2, { stroke, alpha, lineWidth, dash = [], data } = {}) {
    const dashes = dash.length ? dash.join(" ") : undefined;
    this.shape("line", { x1, y1, x2, y2, stroke, "stroke-opacity": alpha, "stroke-width": lineWidth, "stroke-dasharray": dashes }, data);
  }

  text(text, x, y, { fill, size = 13, align = "left", bold = false, turn = 0 } = {}) {
    const rtl = direction(text) === "rtl"; // then a text begins on its right
    const anchor = { left: rtl ? "end" : undefined, center: "middle", right: rtl ? undefined : "end" }[align];
    this.shape(
      "text",
      {
        x, y: y + MIDDLE * size, fill, "font-size": size, "text-anchor": anchor, "font-weight": bold ? 600 : undefined,
        transform: turn ? `rotate(${turn} ${written(x)} ${written(y)})` : undefined,
        "xml:space": "preserve", direction: rtl ? "rtl" : undefined,
      },
      {},
      text,
    );
  }

  image(image, x, y, width, height) {
    this.shape("image", { x, y, width, height, href: image.toDataURL(), preserveAspectRatio: "none", style: "image-rendering:pixelated" });
  }

  hatch(x, y, width, height, { panel, faint }) {
    const name = `hatch${this.patterns++}`;
    this.parts.push(`<pattern id="${name}" width="${TILE}" height="${TILE}" patternUnits="userSpaceOnUse">`);
    this.rect(0, 0, TILE, TILE, { fill: panel });
    this.shape("path", { d: STROKES, stroke: faint, "stroke-opacity": HATCH });
    this.parts.push("</pattern>");
    this.rect(x, y, width, height, { fill: `url(#${name})` });
  }

  clip(x, y, width, height) {
    const name = `clip${this.clips++}`;
    this.parts.push(`<clipPath id="${name}">`);
    this.rect(x, y, width, height);
    this.parts.push(`</clipPath><g clip-path="url(#${name})">`);
  }

  endClip() {
    this.parts.push("</g>");
  }

  shape(name, attributes, data = {}, text = "") {
    const all = Object.entries(attributes).concat(Object.entries(data).map(([key, value]) => [`data-${key}`, String(value)]));
    const list = all.filter(([, value]) => value !== undefined).map(([key, value]) => ` ${key}="${escaped(written(value))}"`);
    this.parts.push(`<${name}${list.join("")}>${escaped(text)}</${name}>`);
  }

  /** The whole document. */
  document() {
    return `${this.open}${this.parts.join("\n")}</svg>\n`;
  }
}

/** Draws nothing, and knows around what it would have. `vector`: as the painter is that draws it then. */
export class Bounds {
  constructor(vector, paper) {
    [this.vector, this.paper] = [vector, paper];
    this.clips = [[-Infinity, -Infinity, Infinity, Infinity]];
    this.found = [Infinity, Infinity, -Infinity, -Infinity]; // left, top, right, bottom
  }

  /** Something between two corners, as far as it is not clipped. */
  add(x1, y1, x2, y2) {
    const [left, top, right, bottom] = within([Math.min(x1, x2), Math.min(y1, y2), Math.max(x1, x2), Math.max(y1, y2)], this.clips.at(-1));
    if (left > right || top > bottom) return;
    const [first, second, third, fourth] = this.found;
    this.found = [Math.min(first, left), Math.min(second, top), Math.max(third, right), Math.max(fourth, bottom)];
  }

  rect(x, y, width, height, { fill, stroke } = {}) {
    if (stroke || (fill && fill !== this.paper)) this.add(x, y, x + width, y + height);
  }

  line(x1, y1, x2, y2) {
    this.add(x1, y1, x2, y2);
  }

  text(text, x, y, { size = 13, align = "left", bold = false, turn = 0 } = {}) {
    const wide = textWidth(text, size, bold);
    const start = { left: 0, center: -wide / 2, right: -wide }[align];
    const [cos, sin] = [Math.cos((turn * Math.PI) / 180), Math.sin((turn * Math.PI) / 180)];
    for (const along of [start, start + wide]) {
      for (const across of [-size / 2, size / 2]) {
        const [right, down] = [x + along * cos - across * sin, y + along * sin + across * cos];
        this.add(right, down, right, down);
      }
    }
  }

  image(_, x, y, width, height) {
    this.add(x, y, x + width, y + height);
  }

  hatch(x, y, width, height) {
    this.add(x, y, x + width, y + height);
  }

  clip(x, y, width, height) {
    this.clips.push(within([x, y, x + width, y + height], this.clips.at(-1)));
  }

  endClip() {
    this.clips.pop();
  }

  /** The part of the drawing with everything in it and so much around it, in whole pixels. */
  area(margin) {
    const [left, top] = this.found.slice(0, 2).map((side) => Math.floor(side - margin));
    const [right, bottom] = this.found.slice(2).map((side) => Math.ceil(side + margin));
    return { x: left, y: top, width: right - left, height: bottom - top };
  }
}

/** What two rectangles [left, top, right, bottom] have in common. */
function within(one, other) {
  return one.map((side, number) => (number < 2 ? Math.max(side, other[number]) : Math.min(side, other[number])));
}

function written(value) {
  return typeof value === "number" ? String(Math.round(value * 1000) / 1000) : value;
}

/** Text as XML may hold it: no markup, no control characters, no half of a surrogate pair. */
function escaped(text) {
  return text
    .replace(/[\u0000-\u0008\u000b\u000c\u000e-\u001f\ufffe\uffff]|\p{Surrogate}/gu, "\ufffd")
    .replace(/[&<>"]/g, (character) => ({ "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;" })[character]);
}
