"""Take the cosine of two texts apart into contributions of pairs of their tokens.

    e = Σ_i z_i,  e' = Σ_j z'_j        cos(e, e') = Σ_ij z_i · z'_j / (‖e‖ ‖e'‖)

This is exact where the embedding is a sum over tokens (`credit`). It credits the last vectors of the tokens, which are
contextual: the full text has gone into each.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np

from attncli.base import choices
from attncli.base.arrays import Doubles, largest_first, titled
from attncli.base.choices import check_text, check_texts
from attncli.base.errors import RequestError
from attncli.base.printable import quoted, visible
from attncli.base.progress import Progress, silent
from attncli.effects.asking import Asking, describe_direction, takes_model
from attncli.features import options
from attncli.features.ablate import Ablation, ablation, heads_table
from attncli.features.feature import Feature
from attncli.features.inputs import notify, read_lines
from attncli.features.options import MODEL, TEXT, argument, option
from attncli.models.opening import Opening
from attncli.record import ModelInfo
from attncli.record.display import model_name
from attncli.record.selection import select
from attncli.report import Column, MapAxis, Maps, NextCommand, Panel, Report, Table, TextLine
from attncli.report.parts import signed
from attncli.text.tokens import Tokens, word_groups, word_tokens

if TYPE_CHECKING:
    from attncli.models.engine import Engine

SAMPLES = ("The cat sat on the mat.", "A cat is sitting on a rug.")


@dataclass(eq=False)
class Similar(Feature):
    """Find out which pairs of tokens make two texts similar.

    The cosine of two sentence embeddings is a sum over pairs of their tokens' last vectors, which are contextual; the
    cells sum to it exactly. The effect of each head is listed too (attncli ablate has all). Several texts (-f): all
    cosines.

    \b
    Examples:
      attncli similar "The cat sat on the mat." "A cat is sitting on a rug."
      attncli similar -o pairs.png "The cat sat." "A cat sits."
      attncli similar -f sample_inputs/similarity.txt
      attncli similar -f sample_inputs/similarity.txt --apart 2,3 --words
    """

    group = "Does it matter"
    saved_as = "similarity"

    first: Annotated[str | None, argument("A", "A text. Without both: two samples.")] = None
    second: Annotated[str | None, argument("B", "The other text.")] = None
    file: options.File = None
    apart: Annotated[
        str | None, option(TEXT, "--apart", metavar="N,N", help="Take these two texts of a file apart, from 0.")
    ] = None
    words: options.Words = False
    top: Annotated[int, options.top("List N pairs and N heads.")] = 5
    model: options.ModelName = "minilm"
    mask: options.MaskOption = None
    pool: Annotated[
        choices.Pool | None,
        option(
            MODEL,
            "--pool",
            metavar="NAME",
            help="mean of all tokens or last token, for a model whose files name no pooling.",
        ),
    ] = None
    device: options.Device = "auto"
    dtype: options.Dtype = "float32"

    def report(self, progress: Progress = silent) -> Report:
        texts = self._texts()
        if self.file is not None and self.apart is None:
            self.refuse("on a matrix of cosines; --apart takes one apart", "words", "top")
        opened = Opening(self.model, self.device, self.dtype).open()
        if self.file is not None and self.apart is None:
            return _cosines_report(cosines(opened, texts, self.mask, self.pool))
        if self.apart is not None:
            texts = [texts[number] for number in select(self.apart, len(texts), "text")]
            if len(texts) != 2:
                raise RequestError(f"--apart {quoted(self.apart)}: two texts are taken apart, as in --apart 0,1")
        first, second = texts
        found = similar(opened, first, second, self.mask, progress, self.pool)
        following = NextCommand("ablate", {"text": first, "similar_to": second})
        alone = self.file is None and self.pool is None  # ablate asks a checkpoint that names its pooling
        return _report(found.merged() if self.words else found, self.top, following if alone else None)

    def _texts(self) -> list[str]:
        """Return the texts, or two samples. Raises RequestError for one text alone, and for texts with --file."""
        if self.file is not None:
            if self.first is not None:
                raise RequestError("both texts and --file are given: which are meant?")
            return read_lines(self.file)
        self.refuse("without -f, whose texts it counts", "apart")
        if self.first is None:
            notify('no texts given, so these: "{}" and "{}"'.format(*SAMPLES))
            return [*SAMPLES]
        if self.second is None:
            raise RequestError("a cosine is of two texts: give the other one as B, or several with -f")
        return [self.first, self.second]


# --- results --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Similarity:
    """The cosine of two texts as a sum over pairs of a token of one and a token of the other.

    cosine: as the checkpoint itself computes it. tokens, key_tokens: of the two texts. contributions: `[token, key
    token]`. pooling: the poolings of a text's vectors; biased: whether a Dense with a bias follows, of which tokens
    have shares. effects: of each head on the cosine.
    """

    model: ModelInfo
    cosine: float
    tokens: Tokens
    key_tokens: Tokens
    contributions: Doubles
    pooling: Sequence[str]
    biased: bool
    effects: Ablation

    def __repr__(self) -> str:
        tokens = f"{len(self.tokens)} x {len(self.key_tokens)} tokens"
        return titled(self, self.model.full_name, f"cosine {self.cosine:.4g}", tokens)

    @property
    def sum(self) -> float:
        """The sum of all cells."""
        return float(self.contributions.sum())

    @property
    def difference(self) -> float:
        """The sum minus the cosine: rounding."""
        return self.sum - self.cosine

    def merged(self) -> "Similarity":
        """Return the same between words, with the contributions of their pieces added up."""
        rows, columns = ([group[0] for group in word_groups(one)] for one in (self.tokens, self.key_tokens))
        added = np.add.reduceat(np.add.reduceat(self.contributions, columns, axis=1), rows, axis=0)
        tokens, key_tokens = word_tokens(self.tokens), word_tokens(self.key_tokens)
        return replace(self, tokens=tokens, key_tokens=key_tokens, contributions=added)

    def document(self) -> dict[str, Any]:
        """Return the document of --json."""
        return {
            "model": self.model.document(),
            "cosine": self.cosine,
            "sum": self.sum,
            "difference": self.difference,
            "pooling": list(self.pooling),
            "tokens": self.tokens.text,
            "key_tokens": self.key_tokens.text,
            "contributions": self.contributions.tolist(),
            "effects": self.effects.document()["effects"],
        }

    def rows(self) -> Iterator[dict[str, Any]]:
        """Yield the rows of a .csv, one per cell."""
        for (row, column), contribution in np.ndenumerate(self.contributions):
            yield {
                "index": row,
                "key_index": column,
                "token": self.tokens.text[row],
                "key_token": self.key_tokens.text[column],
                "contribution": float(contribution),
            }


@dataclass(frozen=True)
class Cosines:
    """The cosines of texts: values `[text, text]`."""

    model: ModelInfo
    texts: Sequence[str]
    values: Doubles

    def __repr__(self) -> str:
        return titled(self, self.model.full_name, f"{len(self.texts)} texts")

    def document(self) -> dict[str, Any]:
        """Return the document of --json."""
        return {"model": self.model.document(), "texts": list(self.texts), "cosines": self.values.tolist()}

    def rows(self) -> Iterator[dict[str, Any]]:
        """Yield the rows of a .csv, one per pair of texts."""
        for (one, other), cosine in np.ndenumerate(self.values):
            yield {"text": one, "other": other, "cosine": float(cosine)}


# --- what is computed -----------------------------------------------------------------------------------


@takes_model
def similar(
    model: "Engine",
    first: str,
    second: str,
    mask: str | None = None,
    progress: Progress = silent,
    pool: str | None = None,
) -> Similarity:
    """Take the cosine of two texts apart, and measure the effect of each head on it.

    mask: of `choices.MaskName`. progress: advances with every set of heads that is silenced. pool: of `choices.Pool`,
    for a checkpoint whose files name no pooling. In an encoder-decoder the encoder makes the vectors.

    Raises RequestError as `pooled_as` does, and where the embedding is no sum over tokens.
    """
    from attncli.effects.question import Cosine, make_question
    from attncli.features.similar.credit import credit_vectors, has_bias, in_float64, pooled_as

    check_text("second", second)
    model = pooled_as(model, pool)
    question = make_question(model, first, Asking(similar_to=second, mask=mask))
    assert isinstance(question, Cosine)
    output = in_float64(question.output)
    cosine = float(Cosine(question.texts, output)([text.last.double() for text in question.texts])[0])
    if not np.isfinite(cosine):
        raise RequestError(
            f"{model.place.name} makes vectors too large for {model.dtype_name}: another --dtype has room"
        )
    one, other = question.texts
    cells = credit_vectors(one, output) @ credit_vectors(other, output).T
    return Similarity(
        model=model.info,
        cosine=cosine,
        tokens=one.tokens,
        key_tokens=other.tokens,
        contributions=cells.cpu().numpy(),
        pooling=output.pooling,
        biased=has_bias(output),
        effects=ablation(model, [question], mask=mask, progress=progress),
    )


def cosines(model: "Engine", texts: Sequence[str], mask: str | None = None, pool: str | None = None) -> Cosines:
    """Compute the cosine of every two texts. pool: as for `similar`. Raises RequestError as `pooled_as` does."""
    from attncli.features.similar.credit import LEAST, pooled_as
    from attncli.models.outputs import embed

    model = pooled_as(model, pool)
    check_texts("texts", texts)
    vectors = embed(model, texts, mask).astype(np.float64)
    units = vectors / np.linalg.norm(vectors, axis=-1, keepdims=True).clip(min=LEAST)
    return Cosines(model.info, list(texts), units @ units.T)


# --- the report -----------------------------------------------------------------------------------------

VECTORS = (
    "a cell is the contribution of the last vectors of two tokens to the cosine. Each is contextual: the full text has "
    "gone into it, so the cell says nothing about the two words by themselves"
)
ONE_VECTOR = "reads one vector of a text: the sum has one term, and says nothing about other tokens"
POOLINGS = {
    "cls": f"[CLS] pooling {ONE_VECTOR}",
    "lasttoken": f"last-token pooling {ONE_VECTOR}",
    "max": "max pooling takes every dimension from the token where it is largest: a cell is of the dimensions that its "
    "two tokens give, and a token that is second everywhere contributes nothing",
}
SHARED = (
    "the bias of Dense, which no token makes, is shared out as the pooling weighs tokens (1/n each in a mean): a "
    "convention"
)
UP = "above 0: the pair makes the texts more similar"


def _report(found: Similarity, top: int, following: NextCommand | None) -> Report:
    """Report the sum of the cells, the map, the `top` pairs that contribute most, and the `top` heads."""
    mask = f"mask {found.effects.answer.mask}"
    poolings = [POOLINGS[name] for name in found.pooling if name in POOLINGS]
    meaning = [f"{VECTORS}; {UP}", *poolings, *([SHARED] if found.biased else [])]
    pairs = []
    for pair in largest_first(found.contributions)[:top]:
        tokens = zip((found.tokens, found.key_tokens), pair, strict=True)
        contribution = float(found.contributions[pair])
        pairs.append([*(f"{place} {visible(one.shown[place])}" for one, place in tokens), signed(contribution)])
    sums = f"sum of all cells {found.sum:.6f}, cosine {found.cosine:.6f}, difference {found.difference:.1e}"
    return Report(
        [model_name(found.model.full_name), f"cosine {found.cosine:.4f}", "contextual vectors", mask],
        [
            *(TextLine(text, caption=True) for text in (sums, *meaning)),
            _map(found, "contribution to the cosine"),
            Table([Column("A"), Column("B", "name"), Column("contribution")], pairs),
            TextLine(describe_direction("cosine")),
            heads_table(found.effects, top),
        ],
        found.document,
        lambda _: found.rows(),
        picture=[TextLine(UP, caption=True), _map(found)],
        next=following,
    )


def _cosines_report(found: Cosines) -> Report:
    """Report a map with a row and a column per text."""
    texts = MapAxis("text", list(found.texts), range(len(found.texts)))
    return Report(
        [model_name(found.model.full_name), f"cosines of {len(found.texts)} texts"],
        [Maps([[Panel("cosine", found.values)]], texts, texts, scale="cosine", signed=True)],
        found.document,
        lambda _: found.rows(),
    )


def _map(found: Similarity, name: str = "") -> Maps:
    """Return the contributions: A's tokens by B's."""
    first, second = (
        MapAxis(side, tokens.shown, range(len(tokens)), tokens.special)
        for side, tokens in (("A", found.tokens), ("B", found.key_tokens))
    )
    return Maps([[Panel(name, found.contributions)]], first, second, scale="contribution to the cosine", signed=True)


# The fields of its document (`attncli.features.document`).
FIELDS = """
### similar

model | model
cosine | float? | | of two texts, A and B, like all fields but the last two
sum | float? | | sum of all `contributions`
difference | float? | | `sum` minus `cosine`: the error of rounding
pooling | [str]? | `[pooling]` | the steps from a text's vectors to its embedding
tokens | [str]? | `[token]` | of A; words with `--words`
key_tokens | [str]? | `[key token]` | of B
contributions | [[float]]? | `[token][key token]` | contribution of a pair to the cosine
effects | [head]? | | as in `ablate`, for the cosine: without the head minus with it
effects.way | str | | zero
effects.effect | float
effects.importance | float | | the absolute derivative by the head's gate
texts | [str]? | `[text]` | for several texts (`-f`)
cosines | [[float]]? | `[text][text]`

`.csv`: a row per pair of tokens, `index,key_index,token,key_token,contribution`; for several texts a row per pair of
texts, `text,other,cosine`.
"""
