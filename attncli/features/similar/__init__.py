"""Split the cosine of two texts into contributions of pairs of their tokens.

    e = Σ_i z_i,  e' = Σ_j z'_j        cos(e, e') = Σ_ij z_i · z'_j / (‖e‖ ‖e'‖)

This is exact if the embedding is a sum over tokens (`credit`). It credits the last vectors of the tokens, which are
contextual: each depends on the full text.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any, TypedDict

import numpy as np

from attncli.base import choices
from attncli.base.arrays import Doubles, largest_first, titled
from attncli.base.choices import check_text, check_texts
from attncli.base.errors import RequestError
from attncli.base.printable import quoted, visible
from attncli.base.typed import NotRequired
from attncli.effects.asking import Asking, describe_direction
from attncli.features import options
from attncli.features.ablate import IMPORTANCE, Ablation, ablation, heads_table
from attncli.features.inputs import notify, open_model, read_lines
from attncli.features.measure import measure, no_effect
from attncli.features.options import MODEL, SELECTION, TEXT, argument, option
from attncli.features.similar.maxsim import MaxSim, MaxSimDocument, late_interaction
from attncli.record import ModelInfo
from attncli.record.display import model_name
from attncli.record.parts import ModelDocument
from attncli.record.selection import select
from attncli.report import Column, MapAxis, Maps, NextCommand, Panel, Report, Result, Table, TextLine
from attncli.report.parts import signed, three_digits
from attncli.text.tokens import Tokens, word_groups, word_tokens

if TYPE_CHECKING:
    from attncli.base.typed import Unpack
    from attncli.models.engine import Engine

LISTED = 5  # pairs, and heads, in the terminal
SAMPLES = ("The cat sat on the mat.", "A cat is sitting on a rug.")


@measure(options.ComputeOptions, saved_as="similarity")
def similar(
    model: options.ModelOption = None,
    first: Annotated[str | None, argument("A", "A text. Without A and B: two samples.")] = None,
    second: Annotated[str | None, argument("B", "The other text.")] = None,
    *,
    file: options.File = None,
    apart: Annotated[
        str | None,
        option(TEXT, "--apart", metavar="N,N", help="Split the cosine of two texts of the file, counted from 0."),
    ] = None,
    words: options.Words = False,
    maxsim: Annotated[
        bool,
        option(SELECTION, "--maxsim", help="Late interaction (ColBERT): cosines of tokens."),
    ] = False,
    top: Annotated[int | None, options.top("List N pairs and N heads.", show_default=str(LISTED))] = None,
    mask: options.MaskOption = None,
    pool: Annotated[
        choices.Pool | None,
        option(
            MODEL,
            "--pool",
            metavar="NAME",
            help="If the model's files name no pooling: mean of all tokens, or last token.",
        ),
    ] = None,
    **how: "Unpack[options.ComputeOptions]",
) -> "Similarity | Cosines | MaxSim":
    """Find out which pairs of tokens make two texts similar.

    The cosine of two sentence embeddings is a sum over pairs of their tokens. Each cell of the map is one pair's term,
    from the last vectors of both tokens. Also lists the strongest heads. With -f: the cosines of all
    pairs of texts. With --maxsim: the best match in B of each token of A.

    \b
    Examples:
      attncli similar "The cat sat on the mat." "A cat is sitting on a rug."
      attncli similar -o pairs.png "The cat sat." "A cat sits."
      attncli similar --maxsim "who sat there" "The cat sat on the mat."
      attncli similar -f sample_inputs/similarity.txt
      attncli similar -f sample_inputs/similarity.txt --apart 2,3 --words
    """
    from attncli.effects.question import Cosine, make_question
    from attncli.features.similar.credit import credit_vectors, has_bias, in_float64, with_pooling

    if file is not None:
        if first is not None:
            raise RequestError("both texts and --file are given: omit one")
        texts = read_lines(file)
        if apart is None:
            no_effect("on a matrix of cosines; --apart splits one of them", words=words, top=top, maxsim=maxsim)
            return cosines(open_model(model, **how), texts, mask, pool)
        texts = [texts[number] for number in select(apart, len(texts), "text")]
        if len(texts) != 2:
            raise RequestError(f"--apart takes two texts, as in --apart 0,1; got {quoted(apart)}")
        first, second = texts
    no_effect("without -f, which has the texts", apart=apart if file is None else None)
    if first is None:
        notify('no texts given; using these samples: "{}" and "{}"'.format(*SAMPLES))
        first, second = SAMPLES
    if second is None:
        raise RequestError("similar needs two texts: add the second, or give several with -f")
    check_text("first", first)
    check_text("second", second)
    if maxsim:
        no_effect("with --maxsim, which does no pooling and lists every token", words=words, pool=pool, top=top)
        return late_interaction(open_model(model, **how), first, second, mask)
    opened = with_pooling(open_model(model, **how), pool)
    question = make_question(opened, first, Asking(similar_to=second, mask=mask))
    assert isinstance(question, Cosine)
    output = in_float64(question.output)
    cosine = float(Cosine(question.texts, output)([text.last.double() for text in question.texts])[0])
    if not np.isfinite(cosine):
        raise RequestError(
            f"vectors of {opened.place.name} overflow in {opened.dtype_name}: use --dtype float32 or float64"
        )
    one, other = question.texts
    cells = credit_vectors(one, output) @ credit_vectors(other, output).T
    found = Similarity(
        texts=(first, second),
        model=opened.info,
        cosine=cosine,
        tokens=one.tokens,
        key_tokens=other.tokens,
        contributions=cells.cpu().numpy(),
        pooling=output.pooling,
        biased=has_bias(output),
        effects=ablation(opened, [question], mask=mask),
        offers=file is None and pool is None,  # ablate needs a checkpoint that names its pooling
        listed=LISTED if top is None else top,
    )
    return found.merged() if words else found


def cosines(model: "Engine", texts: Sequence[str], mask: str | None = None, pool: str | None = None) -> "Cosines":
    """Compute the cosine of every two texts. pool: as for `similar`. Raises RequestError as `with_pooling` does."""
    from attncli.features.similar.credit import LEAST, with_pooling
    from attncli.models.outputs import embed

    model = with_pooling(model, pool)
    check_texts("texts", texts)
    vectors = embed(model, texts, mask).astype(np.float64)
    units = vectors / np.linalg.norm(vectors, axis=-1, keepdims=True).clip(min=LEAST)
    return Cosines(model.info, list(texts), units @ units.T)


# --- results --------------------------------------------------------------------------------------------


class _EffectEntry(TypedDict):
    """The cosine without the head minus with it, as in `ablate`."""

    layer: int
    head: int
    way: Annotated[str, "zero"]
    effect: float
    importance: Annotated[float, "the absolute derivative with respect to the head's gate"]


class SimilarDocument(TypedDict):
    """`.csv`: a row per pair of tokens, `index,key_index,token,key_token,contribution`; for several texts a row per
    pair of texts, `text,other,cosine`; with `--maxsim` its `matches`, a row each.
    """

    model: ModelDocument
    cosine: NotRequired[Annotated[float, "of two texts, A and B; missing for several texts and with `--maxsim`"]]
    sum: NotRequired[Annotated[float, "sum of all `contributions`"]]
    difference: NotRequired[Annotated[float, "`sum` minus `cosine`: the error of rounding"]]
    pooling: NotRequired[Annotated[list[str], "the steps from a text's vectors to its embedding", "`[pooling]`"]]
    tokens: NotRequired[Annotated[list[str], "of A; words with `--words`", "`[token]`"]]
    key_tokens: NotRequired[Annotated[list[str], "of B", "`[key token]`"]]
    contributions: NotRequired[
        Annotated[list[list[float]], "contribution of a pair to the cosine", "`[token][key token]`"]
    ]
    effects: NotRequired[list[_EffectEntry]]
    texts: NotRequired[Annotated[list[str], "for several texts (`-f`)", "`[text]`"]]
    cosines: NotRequired[Annotated[list[list[float]], "", "`[text][text]`"]]
    maxsim: NotRequired[MaxSimDocument]


@dataclass(frozen=True)
class Similarity(Result):
    """The cosine of two texts as a sum over pairs of tokens, one of each text.

    texts: A and B. cosine: as the checkpoint itself computes it. tokens, key_tokens: of the two texts. contributions:
    `[token, key token]`. pooling: the poolings of a text's vectors. biased: True if the bias of a Dense layer is
    divided among tokens. effects: of each head on the cosine. offers: True if `ablate` can measure the same. listed:
    the number of pairs, and of heads, that the terminal lists.
    """

    texts: tuple[str, str]
    model: ModelInfo
    cosine: float
    tokens: Tokens
    key_tokens: Tokens
    contributions: Doubles
    pooling: Sequence[str]
    biased: bool
    effects: Ablation
    offers: bool = True
    listed: int = LISTED

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
        """Return the contributions between words, summed over their pieces."""
        rows, columns = ([group[0] for group in word_groups(one)] for one in (self.tokens, self.key_tokens))
        added = np.add.reduceat(np.add.reduceat(self.contributions, columns, axis=1), rows, axis=0)
        tokens, key_tokens = word_tokens(self.tokens), word_tokens(self.key_tokens)
        return replace(self, tokens=tokens, key_tokens=key_tokens, contributions=added)

    def document(self) -> SimilarDocument:
        """Return what --json prints."""
        effects: Any = self.effects.document()["effects"]
        return {
            "model": self.model.document(),
            "cosine": self.cosine,
            "sum": self.sum,
            "difference": self.difference,
            "pooling": list(self.pooling),
            "tokens": self.tokens.text,
            "key_tokens": self.key_tokens.text,
            "contributions": self.contributions.tolist(),
            "effects": effects,
        }

    def report(self) -> Report:
        """Show the sum of the cells, the map, the pairs that contribute most, and the heads."""
        mask = f"mask {self.effects.answer.mask}"
        poolings = [POOLINGS[name] for name in self.pooling if name in POOLINGS]
        meaning = [f"{VECTORS}; {UP}", *poolings, *([SHARED] if self.biased else [])]
        pairs = []
        for pair in largest_first(self.contributions)[: self.listed]:
            tokens = zip((self.tokens, self.key_tokens), pair, strict=True)
            contribution = float(self.contributions[pair])
            pairs.append([*(f"{place} {visible(one.shown[place])}" for one, place in tokens), signed(contribution)])
        sums = f"sum of all cells {self.sum:.6f}, cosine {self.cosine:.6f}, difference {three_digits(self.difference)}"
        following = NextCommand("ablate", {"text": self.texts[0], "similar_to": self.texts[1]})
        return Report(
            [model_name(self.model.full_name), f"cosine {self.cosine:.4f}", "contextual vectors", mask],
            [
                *(TextLine(text, caption=True) for text in (sums, *meaning)),
                self._map("contribution to the cosine"),
                Table([Column("A"), Column("B", "name"), Column("contribution")], pairs),
                TextLine(describe_direction("cosine")),
                heads_table(self.effects, self.listed),
                TextLine(IMPORTANCE),
            ],
            self.document,
            lambda _: (
                {
                    "index": row,
                    "key_index": column,
                    "token": self.tokens.text[row],
                    "key_token": self.key_tokens.text[column],
                    "contribution": float(contribution),
                }
                for (row, column), contribution in np.ndenumerate(self.contributions)
            ),
            picture=[TextLine(UP, caption=True), self._map()],
            next=following if self.offers else None,
        )

    def _map(self, name: str = "") -> Maps:
        """Return the contributions: A's tokens by B's."""
        first, second = (
            MapAxis(side, tokens.shown, range(len(tokens)), tokens.special)
            for side, tokens in (("A", self.tokens), ("B", self.key_tokens))
        )
        panel = Panel(name, self.contributions)
        return Maps([[panel]], first, second, scale="contribution to the cosine", signed=True)


@dataclass(frozen=True)
class Cosines(Result):
    """The cosines of texts: values `[text, text]`."""

    model: ModelInfo
    texts: Sequence[str]
    values: Doubles

    def __repr__(self) -> str:
        return titled(self, self.model.full_name, f"{len(self.texts)} texts")

    def document(self) -> SimilarDocument:
        """Return what --json prints."""
        return {"model": self.model.document(), "texts": list(self.texts), "cosines": self.values.tolist()}

    def report(self) -> Report:
        """Show a map with a row and a column per text."""
        texts = MapAxis("text", list(self.texts), range(len(self.texts)))
        return Report(
            [model_name(self.model.full_name), f"cosines of {len(self.texts)} texts"],
            [Maps([[Panel("cosine", self.values)]], texts, texts, scale="cosine", signed=True)],
            self.document,
            lambda _: (
                {"text": one, "other": other, "cosine": float(cosine)}
                for (one, other), cosine in np.ndenumerate(self.values)
            ),
        )


VECTORS = (
    "a cell is the contribution of the last vectors of two tokens to the cosine. Each vector is contextual and depends "
    "on the full text, so a cell does not compare the two words alone"
)
ONE_VECTOR = "reads one vector of a text, so the sum has one term and says nothing about other tokens"
POOLINGS = {
    "cls": f"[CLS] pooling {ONE_VECTOR}",
    "lasttoken": f"last-token pooling {ONE_VECTOR}",
    "max": "max pooling takes every dimension from the token where it is largest, so a cell covers the dimensions that "
    "come from its two tokens, and a token that is never largest contributes nothing",
}
SHARED = (
    "the bias of Dense belongs to no token. By convention it is divided among tokens by their pooling weights (1/n "
    "each in a mean)"
)
UP = "above 0: the pair makes the texts more similar"
