"""Save pictures as PGF for LaTeX, in the paper's own fonts. Deprecated: it goes in 0.4.

matplotlib saves with `FigureCanvas`, this being a backend. Its own for that asks a LaTeX for the width of every text,
and puts maps into files beside the picture. Here the widths are those of matplotlib's fonts, TeX is told at which side
of a text the planned place is, and cells of maps are rectangles.
"""

import string
import unicodedata
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import groupby
from typing import Any, BinaryIO

import numpy as np
from matplotlib.backend_bases import FigureCanvasBase, GraphicsContextBase, RendererBase
from matplotlib.backends.backend_agg import RendererAgg
from matplotlib.font_manager import FontProperties
from matplotlib.image import AxesImage
from matplotlib.path import Path
from matplotlib.text import Text
from matplotlib.transforms import Affine2D, Bbox, Transform

from attncli.base.errors import RequestError

# --- words for TeX ------------------------------------------------------------------------------------

COMMANDS = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    "\N{MINUS SIGN}": r"\ensuremath{-}",  # this and the next are our own, and fonts of text lack them
    "√": r"\ensuremath{\surd}",
    "Σ": r"\ensuremath{\Sigma}",
    "■": r"\rule{0.6em}{0.6em}",
    **{character: rf"\{character}" for character in "{}$&#%_"},
}
PLAIN = set(string.ascii_letters + string.digits + " ")
RIGHT, LEFT = ("R", "AL"), ("L", "EN", "AN")  # Unicode's classes of what has a direction


def tex(text: str) -> str:
    """`text` as TeX prints it, in any language of babel: there punctuation may be a command, and is none here."""
    base, *directions = directed(text)
    runs = groupby(zip(text, directions, strict=True), key=lambda pair: pair[1])
    pieces = []
    for direction, run in runs:
        inner = "".join(escape_character(character) for character, _ in run)
        pieces.append(inner if direction == base else rf"\attncli{direction}{{{inner}}}")
    return "".join(pieces) if base == "ltr" else rf"\attnclirtl{{{''.join(pieces)}}}"


def directed(text: str) -> list[str]:
    """ "ltr" or "rtl": of the whole text, which is its first letter's, then of each character.

    What has no direction goes with what is on both sides of it, else with the whole.
    """
    classes = [unicodedata.bidirectional(character) for character in text]
    strong = ["rtl" if one in RIGHT else "ltr" if one in LEFT else "" for one in classes]
    base = next((way for one, way in zip(classes, strong, strict=True) if one in (*RIGHT, "L")), "ltr")
    directions = [base]
    for place, way in enumerate(strong):
        before = next((one for one in reversed(strong[:place]) if one), base)
        after = next((one for one in strong[place:] if one), base)
        directions.append(way or (before if before == after else base))
    return directions


def escape_character(character: str) -> str:
    """Return the LaTeX of a character."""
    if character in COMMANDS:
        return COMMANDS[character]
    if character in PLAIN:
        return character
    if unicodedata.category(character) == "Cc":
        return " "
    return (
        rf"\string{character}{{}}" if character.isascii() else rf"\attncliglyph{{{ord(character):04X}}}{{{character}}}"
    )


# --- lines of PGF -------------------------------------------------------------------------------------

POINTS = 72  # an inch: a dot is a point
EDGE = 0.3  # points: of the edges of what a colour bar is made of
CLIPPED = 0.5  # points that may be left unclipped: half a line
OVERLAP = 0.1  # points that a cell is larger to the right and below, or viewers leave hairlines between them

CAPS = {"butt": r"\pgfsetbuttcap", "round": r"\pgfsetroundcap", "projecting": r"\pgfsetrectcap"}
JOINS = {"miter": r"\pgfsetmiterjoin", "round": r"\pgfsetroundjoin", "bevel": r"\pgfsetbeveljoin"}
SEGMENTS = {
    Path.MOVETO: r"\acmove",
    Path.LINETO: r"\acline",
    Path.CURVE3: r"\acbend",
    Path.CURVE4: r"\accurve",
    Path.CLOSEPOLY: r"\pgfpathclose",
}
# Which side of a text's box a place is at, where its letters run from left to right and where they run up.
LEVEL = (
    {"left": "left", "right": "right", "center": ""},
    {"top": "top", "bottom": "bottom", "baseline": "base", "center": "", "center_baseline": ""},
)
UPWARDS = ({"left": "top", "right": "bottom", "center": ""}, {"top": "right", "bottom": "left", "center": ""})


class PgfRenderer(RendererBase):
    """Collect a picture as lines of PGF, without commands that change nothing."""

    def __init__(self, width: float, height: float) -> None:
        super().__init__()
        self.size = width, height
        self.lines: list[str] = []
        self.current = {f"{kind} opacity": rf"\ac{kind}opacity1" for kind in ("fill", "ink")}
        self.measure: Any = RendererAgg(1, 1, POINTS)

    def get_canvas_width_height(self) -> tuple[float, float]:
        return self.size

    def get_text_width_height_descent(self, s: str, prop: FontProperties, ismath: Any) -> tuple[float, float, float]:
        width, height, descent = self.measure.get_text_width_height_descent(s, prop, ismath=False)
        return width, height, descent

    def flipy(self) -> bool:
        return False

    def option_scale_image(self) -> bool:
        return True  # cells come as they are

    def option_image_nocomposite(self) -> bool:
        return True

    def draw_path(self, gc: GraphicsContextBase, path: Path, transform: Transform, rgbFace: Any = None) -> None:  # noqa: N803
        """Draw a path: filled, stroked or both, and hatched."""
        stroked = gc.get_linewidth() > 0 and gc.get_rgb()[3] > 0
        uses = [name for name, used in (("fill", rgbFace is not None), ("stroke", stroked)) if used]
        with self.clipped(gc, path.get_extents(transform)):
            if uses:
                forced = gc.get_alpha() if gc.get_forced_alpha() else None
                if rgbFace is not None:
                    self.colour("fill", (*rgbFace, 1.0)[:4], forced)
                if stroked:
                    self.stroke(gc, forced)
                self.path(path, transform)
                self.lines.append(rf"\acuse {','.join(uses)}")
            if gc.get_hatch():
                self.hatch(gc, path, transform)

    def draw_image(self, gc: GraphicsContextBase, x: float, y: float, im: Any, transform: Any = None) -> None:
        """Draw the cells of an image as rectangles, the lightest first."""
        pixels = np.asarray(im)
        rows, columns = pixels.shape[:2]
        place = (transform or Affine2D().scale(columns, rows)).frozen().translate(x, y)
        boxes = rectangles(pixels)
        with self.clipped(gc, Bbox.unit().transformed(place)):
            for colour in sorted(boxes, key=lambda rgba: -sum(rgba)):
                self.colour("fill", [part / 255 for part in colour])
                for left, right, low, high in boxes[colour]:
                    corners = place.transform([(left / columns, low / rows), (right / columns, high / rows)])
                    (x, y), (wide, high) = corners.min(axis=0), np.ptp(corners, axis=0)
                    self.command("box", x, y - OVERLAP, wide + OVERLAP, high + OVERLAP)
                self.lines.append(r"\acuse fill")

    def draw_quad_mesh(self, gc: GraphicsContextBase, *mesh: Any) -> None:
        """Draw the colours of a bar with edges of the same colours. Viewers would leave hairlines between them."""
        *others, colours, smooth, _ = mesh
        gc.set_linewidth(EDGE)
        draw: Any = super().draw_quad_mesh
        draw(gc, *others, colours, smooth, colours)

    def draw_text(
        self,
        gc: GraphicsContextBase,
        x: float,
        y: float,
        s: str,
        prop: FontProperties,
        angle: float,
        ismath: Any = False,
        mtext: Text | None = None,
    ) -> None:
        """Write a line of text, aligned by TeX at the planned place if TeX can do that."""
        sides = "left,base"
        if mtext is not None and angle in (0, 90):
            sideways, upright = LEVEL if angle == 0 or mtext.get_rotation_mode() == "anchor" else UPWARDS
            across, down = mtext.get_horizontalalignment(), mtext.get_verticalalignment()
            if down in upright:
                x, y = mtext.get_transform().transform(mtext.get_unitless_position())
                sides = ",".join(filter(None, (sideways[across], upright[down])))
        with self.clipped(gc, mtext.get_window_extent(self) if mtext else None):
            self.colour("fill", gc.get_rgb(), gc.get_alpha())
            numbers = " ".join(map(short, (x, y, angle, prop.get_size_in_points())))
            self.lines.append(rf"\actext{numbers} {{{sides}}}{{{tex(s)}}}%")

    # --- lines of PGF -----------------------------------------------------------------------------------

    def command(self, name: str, *numbers: float) -> None:
        self.lines.append(rf"\ac{name}{' '.join(map(short, numbers))}")

    def tell(self, name: str, command: str) -> None:
        if self.current.get(name) != command:
            self.current[name] = command
            self.lines.append(command)

    def colour(self, kind: str, rgba: Sequence[float], alpha: float | None = None) -> None:
        """Set the colour and opacity of fills ("fill") or strokes ("ink")."""
        red, green, blue, opacity = (format(round(float(part), 3), "g") for part in rgba)
        self.tell(kind, rf"\ac{kind}{red} {green} {blue}")
        opacity = opacity if alpha is None else format(round(alpha, 3), "g")
        self.tell(f"{kind} opacity", rf"\ac{kind}opacity{opacity}")

    def stroke(self, gc: GraphicsContextBase, alpha: float | None) -> None:
        self.colour("ink", gc.get_rgb(), alpha)
        self.tell("width", rf"\acwide{short(gc.get_linewidth())}")
        self.tell("cap", CAPS[gc.get_capstyle()])
        self.tell("join", JOINS[gc.get_joinstyle()])
        offset: Any
        dashes: Any
        offset, dashes = gc.get_dashes()
        lengths = "".join(f"{{{short(length)}bp}}" for length in ([] if dashes is None else dashes))
        self.tell("dashes", rf"\pgfsetdash{{{lengths}}}{{{short(offset or 0)}bp}}%")

    def path(self, path: Path, transform: Transform, inside: Bbox | None = None) -> None:
        clip = None if inside is None else inside.extents
        segments: Any = path.iter_segments(transform, simplify=False, clip=clip)
        for points, code in segments:
            numbers = () if code == Path.CLOSEPOLY else points
            self.lines.append(SEGMENTS[code] + " ".join(map(short, numbers)))

    def hatch(self, gc: GraphicsContextBase, path: Path, transform: Transform) -> None:
        """Draw the strokes of matplotlib's hatch inside the path, one tile per inch."""
        box = path.get_extents(transform)
        with self.scope():
            self.path(path, transform)
            self.lines.append(r"\acuse clip")
            self.colour("ink", gc.get_hatch_color())
            self.tell("width", rf"\acwide{short(gc.get_hatch_linewidth())}")
            for column in range(int(box.x0 // POINTS), int(-(-box.x1 // POINTS))):
                for row in range(int(box.y0 // POINTS), int(-(-box.y1 // POINTS))):
                    tile = Bbox.from_bounds(column * POINTS, row * POINTS, POINTS, POINTS)
                    place = Affine2D().translate(column, row).scale(POINTS)
                    self.path(gc.get_hatch_path(), place, Bbox.intersection(tile, box))
            self.lines.append(r"\acuse stroke")

    @contextmanager
    def clipped(self, gc: GraphicsContextBase, extents: Bbox | None = None) -> Iterator[None]:
        """Clip the block as the graphics context asks, if that cuts anything of these extents."""
        path: Any
        place: Any
        box, (path, place) = gc.get_clip_rectangle(), gc.get_clip_path()
        if box is not None and extents is not None:
            inner = extents.padded(-CLIPPED)
            if box.x0 <= inner.x0 and box.y0 <= inner.y0 and inner.x1 <= box.x1 and inner.y1 <= box.y1:
                box = None
        if box is None and path is None:
            yield
            return
        with self.scope():
            if box is not None:
                self.command("box", box.x0, box.y0, box.width, box.height)
                self.lines.append(r"\acuse clip")
            if path is not None:
                self.path(path, place)
                self.lines.append(r"\acuse clip")
            yield

    @contextmanager
    def scope(self) -> Iterator[None]:
        """Restore the graphics state after the block."""
        before = dict(self.current)
        self.lines.append(r"\begin{pgfscope}%")
        yield
        self.lines.append(r"\end{pgfscope}%")
        self.current = before


def rectangles(pixels: Any) -> dict[tuple[int, ...], list[tuple[int, int, int, int]]]:
    """Return, by colour, the rectangles (left, right, first row, after the last) that cover an image `[row, column,
    rgba]`.

    Neighbours of one colour in a row are merged, and so are equal stretches in rows below each other. Transparent
    cells are left out.
    """
    found: dict[tuple[int, ...], list[tuple[int, int, int, int]]] = {}
    open_: dict[tuple[int, int, tuple[int, ...]], int] = {}  # (left, right, colour) -> its first row
    for row in range(len(pixels) + 1):
        runs = runs_of(pixels[row]) if row < len(pixels) else []
        for run in [run for run in open_ if run not in runs]:
            left, right, colour = run
            found.setdefault(colour, []).append((left, right, open_.pop(run), row))
        for run in runs:
            open_.setdefault(run, row)
    return found


def runs_of(pixels: Any) -> list[tuple[int, int, tuple[int, ...]]]:
    """Return (left, right, colour) of the visible stretches of one colour in a row `[column, rgba]`."""
    starts = np.flatnonzero(np.r_[True, (pixels[1:] != pixels[:-1]).any(axis=1)])
    ends = [*starts[1:].tolist(), len(pixels)]
    runs = [(left, right, tuple(pixels[left].tolist())) for left, right in zip(starts.tolist(), ends, strict=True)]
    return [run for run in runs if run[2][3]]


def short(number: float) -> str:
    """Format a number in hundredths, as TeX reads it: 12.5, 0."""
    return format(round(float(number), 2) + 0.0, "g")


# --- files --------------------------------------------------------------------------------------------

MOST = 200_000  # lines: of 5 million words of memory, as TeX mostly has, they take less than half; and half a minute

PACKAGES = r"""% \usepackage{pgf} and \input this file; with pdflatex \usepackage[T1]{fontenc} too.
% A letter that TeX or the font does not have is its number in small (4E2D); lualatex and xelatex have most."""
OPENING = r"""\begingroup
\providecommand\attnclicode[1]{%
  {\dimen0=0.5\dimexpr\csname f@size\endcsname pt\fontsize{\dimen0}{\dimen0}\selectfont#1}}%
\providecommand\attncliglyph[2]{\ifdefined\Umathcode\iffontchar\font"#1 #2\else\attnclicode{#1}\fi
  \else\ifcsname u8:\detokenize{#2}\endcsname#2\else\attnclicode{#1}\fi\fi}%
\providecommand\attnclirtl[1]{\ifdefined\XeTeXversion{\TeXXeTstate=1\beginR#1\endR}%
  \else\ifdefined\directlua{\textdir TRT #1}\else#1\fi\fi}%
\providecommand\attncliltr[1]{\ifdefined\XeTeXversion\beginL#1\endL%
  \else\ifdefined\directlua{\textdir TLT #1}\else#1\fi\fi}%
\def\acmove#1 #2 {\pgfpathmoveto{\pgfqpoint{#1bp}{#2bp}}}%
\def\acline#1 #2 {\pgfpathlineto{\pgfqpoint{#1bp}{#2bp}}}%
\def\acbend#1 #2 #3 #4 {\pgfpathquadraticcurveto{\pgfqpoint{#1bp}{#2bp}}{\pgfqpoint{#3bp}{#4bp}}}%
\def\accurve#1 #2 #3 #4 #5 #6 {\pgfpathcurveto{\pgfqpoint{#1bp}{#2bp}}{\pgfqpoint{#3bp}{#4bp}}{\pgfqpoint{#5bp}{#6bp}}}%
\def\acbox#1 #2 #3 #4 {\pgfpathrectangle{\pgfqpoint{#1bp}{#2bp}}{\pgfqpoint{#3bp}{#4bp}}}%
\def\acink#1 #2 #3 {\definecolor{acink}{rgb}{#1,#2,#3}\pgfsetstrokecolor{acink}}%
\def\acfill#1 #2 #3 {\definecolor{acfill}{rgb}{#1,#2,#3}\pgfsetfillcolor{acfill}}%
\def\acinkopacity#1 {\pgfsetstrokeopacity{#1}}%
\def\acfillopacity#1 {\pgfsetfillopacity{#1}}%
\def\acwide#1 {\pgfsetlinewidth{#1bp}}%
\def\acuse#1 {\pgfusepath{#1}}%
\def\actext#1 #2 #3 #4 #5#6{\pgftext[x=#1bp,y=#2bp,rotate=#3,#5]{%
  \color{acfill}\fontsize{#4bp}{#4bp}\selectfont\vphantom{lp}#6}}%"""
DOCUMENT = r"""\documentclass{article}
\usepackage{pgf}
\usepackage[paperwidth=WIDTHbp,paperheight=HEIGHTbp,margin=0bp]{geometry}
\ifdefined\Umathcode\else\usepackage[T1]{fontenc}\IfFileExists{lmodern.sty}{\usepackage{lmodern}}{}\fi
\pagestyle{empty}
\begin{document}
\noindent\vbox to\textheight{\hbox to\textwidth{%
PICTURE
\hss}\vss}
\end{document}
"""
CLOSING = r"""\end{pgfpicture}%
\endgroup%"""


class FigureCanvas(FigureCanvasBase):
    """The canvas that matplotlib expects of a backend module."""

    def print_pgf(self, file: BinaryIO, **_: Any) -> None:
        """Write the picture for a document that reads it with \\input."""
        file.write("\n".join([PACKAGES, *self.picture(), ""]).encode())

    def print_tex(self, file: BinaryIO, **_: Any) -> None:
        """Write a document whose only page is the picture."""
        width, height = (short(side * POINTS) for side in self.figure.get_size_inches())
        page = DOCUMENT.replace("WIDTH", width).replace("HEIGHT", height)
        file.write(page.replace("PICTURE", "\n".join(self.picture())).encode())

    def picture(self) -> list[str]:
        """Return the lines of PGF. Raises RequestError for more than TeX can keep."""
        width, height = self.figure.get_size_inches() * POINTS
        renderer = PgfRenderer(width, height)
        with cells_as_they_are(self.figure.findobj(AxesImage)):
            self.figure.draw(renderer)
        if len(renderer.lines) > MOST:
            raise RequestError(
                f"the picture has {len(renderer.lines):,} lines of PGF, and TeX has room for about {MOST:,}: "
                r"draw fewer heads or tokens, or save it as .pdf, which \includegraphics takes"
            )
        bounds = rf"\acbox0 0 {short(width)} {short(height)} \pgfusepath{{use as bounding box}}%"
        return [OPENING, r"\begin{pgfpicture}%", bounds, *renderer.lines, CLOSING]


@contextmanager
def cells_as_they_are(images: Sequence[Any]) -> Iterator[None]:
    """Keep matplotlib from turning the cells of maps into dots."""
    before = [image.get_interpolation() for image in images]
    for image in images:
        image.set_interpolation("none")
    try:
        yield
    finally:
        for image, kind in zip(images, before, strict=True):
            image.set_interpolation(kind)
