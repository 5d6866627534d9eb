// Painters with the same methods. One draws on a canvas, one writes SVG, and one only measures the drawing. `vector` is true
// if shapes stay shapes, so that cells are drawn one by one. `data` is the meaning of a shape, such as {query, key, weight};
// SVG stores it in data- attributes.

export const FAINTEST = 1 / 255; // a lower opacity is invisible
const FONT = "system-ui, sans-serif";
const [TILE, STROKES, HATCH] = [6, "M-1,1 1,-1 M0,6 6,0 M5,7 7,5", 0.6]; // the hatching of hidden cells: size of a tile, its lines, their opacity
export const SEPARATOR = " · "; // between the parts of a caption
const CAPTION = 12; // its font size
// Matches a text whose first letter is in a Unicode block of a right-to-left script.
const FROM_RIGHT = /^[^\p{L}]*[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc\u{10800}-\u{10fff}\u{1e800}-\u{1efff}]/u;
const BASELINE = 0.35; // distance from the middle of a line of text to its baseline, as a share of the font size

const measuring = document.createElement("canvas").getContext("2d");

/** Return the writing direction of a text, by its first letter. So "##" stands to the right of Hebrew. */
function direction(text) {
  return FROM_RIGHT.test(text) ? "rtl" : "ltr";
}

/** Return the width of a text in pixels. */
export function textWidth(text, size, bold = false) {
  measuring.font = `${bold ? "600 " : ""}${size}px ${FONT}`;
  return measuring.measureText(text).width;
}

/** Cut a text to what fits into `width` pixels with "…". */
export function cut(text, size, width, bold = false) {
  if (textWidth(text, size, bold) <= width) return text;
  const characters = [...text];
  let [low, high] = [0, characters.length];
  while (low < high) {
    const middle = Math.ceil((low + high) / 2);
    if (textWidth(`${characters.slice(0, middle).join("")}…`, size, bold) <= width) low = middle;
    else high = middle - 1;
  }
  return `${characters.slice(0, low).join("")}…`;
}

/** Break a text between words into at most `most` lines of this width, where the last may be wider. */
export function lines(text, size, width, most = Infinity) {
  return text.split(" ").reduce((made, word) => {
    const longer = [...made.slice(-1), word].join(" ");
    return made.length && (made.length === most || textWidth(longer, size) <= width) ? [...made.slice(0, -1), longer] : [...made, word];
  }, []);
}

/** Draw a caption in at most `most` lines around `middle`. Cut what does not fit. */
export function drawCaption(painter, text, x, middle, width, fill, most = 2) {
  const shown = lines(text, CAPTION, width, most);
  shown.forEach((line, number) => {
    painter.text(cut(line, CAPTION, width), x, middle + (number - (shown.length - 1) / 2) * (CAPTION + 1.5), { fill, size: CAPTION });
  });
}

/** Return pixels [rows * columns] as a picture that every painter can draw. */
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

  /** Draw the pattern of hidden cells, which differs from every colour. */
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

  /** area: the saved part of the drawing, `{x, y, width, height}`. */
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
    const rtl = direction(text) === "rtl"; // then the text begins at its right end
    const anchor = { left: rtl ? "end" : undefined, center: "middle", right: rtl ? undefined : "end" }[align];
    this.shape(
      "text",
      {
        x, y: y + BASELINE * size, fill, "font-size": size, "text-anchor": anchor, "font-weight": bold ? 600 : undefined,
        transform: turn ? `rotate(${turn} ${rounded(x)} ${rounded(y)})` : undefined,
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
    const list = all.filter(([, value]) => value !== undefined).map(([key, value]) => ` ${key}="${escaped(rounded(value))}"`);
    this.parts.push(`<${name}${list.join("")}>${escaped(text)}</${name}>`);
  }

  /** Return the SVG document. */
  document() {
    return `${this.open}${this.parts.join("\n")}</svg>\n`;
  }
}

/** A painter that only measures the bounds of a drawing. vector: as in the painter that will draw it. */
export class Bounds {
  constructor(vector, paper) {
    [this.vector, this.paper] = [vector, paper];
    this.clips = [[-Infinity, -Infinity, Infinity, Infinity]];
    this.found = [Infinity, Infinity, -Infinity, -Infinity]; // left, top, right, bottom
  }

  /** Extend the bounds by a rectangle between two corners, after clipping. */
  add(x1, y1, x2, y2) {
    const [left, top, right, bottom] = intersect([Math.min(x1, x2), Math.min(y1, y2), Math.max(x1, x2), Math.max(y1, y2)], this.clips.at(-1));
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
    this.clips.push(intersect([x, y, x + width, y + height], this.clips.at(-1)));
  }

  endClip() {
    this.clips.pop();
  }

  /** Return the bounds with a margin, in whole pixels. */
  area(margin) {
    const [left, top] = this.found.slice(0, 2).map((side) => Math.floor(side - margin));
    const [right, bottom] = this.found.slice(2).map((side) => Math.ceil(side + margin));
    return { x: left, y: top, width: right - left, height: bottom - top };
  }
}

/** Return the intersection of two rectangles [left, top, right, bottom]. */
function intersect(one, other) {
  return one.map((side, number) => (number < 2 ? Math.max(side, other[number]) : Math.min(side, other[number])));
}

function rounded(value) {
  return typeof value === "number" ? String(Math.round(value * 1000) / 1000) : value;
}

/** Escape a text for XML: no markup, no control characters, no unpaired surrogates. */
function escaped(text) {
  return text
    .replace(/[\u0000-\u0008\u000b\u000c\u000e-\u001f\ufffe\uffff]|\p{Surrogate}/gu, "\ufffd")
    .replace(/[&<>"]/g, (character) => ({ "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;" })[character]);
}
