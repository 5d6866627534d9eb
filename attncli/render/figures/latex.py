r"""Pictures for LaTeX, in the paper's own fonts: matplotlib saves with `FigureCanvas`, this being a backend.

matplotlib's own for that asks a LaTeX for the width of every text, and puts maps into files beside the picture. This
one needs none, and makes one file.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, BinaryIO

from matplotlib.backend_bases import FigureCanvasBase
from matplotlib.image import AxesImage

from attncli.base.errors import RequestError
from attncli.render.figures.pgf import POINTS, PgfRenderer, short

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
    """What matplotlib looks for in a module that is named as a backend."""

    def print_pgf(self, file: BinaryIO, **_: Any) -> None:
        """The picture, to be read by a document with \\input."""
        file.write("\n".join([PACKAGES, *self.picture(), ""]).encode())

    def print_tex(self, file: BinaryIO, **_: Any) -> None:
        """A document whose one page is the picture."""
        width, height = (short(side * POINTS) for side in self.figure.get_size_inches())
        page = DOCUMENT.replace("WIDTH", width).replace("HEIGHT", height)
        file.write(page.replace("PICTURE", "\n".join(self.picture())).encode())

    def picture(self) -> list[str]:
        """Lines of PGF. Raises RequestError where they are more than TeX can keep."""
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
    """matplotlib makes dots of the cells of a map itself, unless they may be shown in any way."""
    before = [image.get_interpolation() for image in images]
    for image in images:
        image.set_interpolation("none")
    try:
        yield
    finally:
        for image, kind in zip(images, before, strict=True):
            image.set_interpolation(kind)
