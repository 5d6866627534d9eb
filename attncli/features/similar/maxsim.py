"""Match every token of a query with a token of a document: late interaction, for `attncli similar --maxsim`.

    score(A, B) = Σ_i max_j cos(x_i, y_j)

x_i and y_j are the last vectors of the tokens of A, the query, and B, the document, through the checkpoint's projection
to smaller vectors if it has one (Khattab and Zaharia 2020, "ColBERT", section 3.3). ColBERT's query and document
markers, its [MASK] padding of short queries, and its punctuation skiplist are not used here.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, TypedDict

import numpy as np

from attncli.base.arrays import Doubles, titled
from attncli.base.errors import RequestError
from attncli.base.printable import visible
from attncli.record import ModelInfo
from attncli.record.display import model_name
from attncli.report import Column, MapAxis, Maps, Panel, Report, Result, Table, TextLine
from attncli.text.tokens import Tokens

if TYPE_CHECKING:
    from attncli.models.engine import Engine

COLBERT, PROJECTION = "HF_ColBERT", "linear.weight"  # the architecture of a checkpoint, and its tensor


class _MatchEntry(TypedDict):
    """Every token of A, with the token of B that is most similar to it."""

    index: Annotated[int, "position in `tokens`"]
    token: str
    key_index: Annotated[int, "position in `key_tokens`"]
    key_token: str
    cosine: Annotated[float, "the largest of its row"]


class MaxSimDocument(TypedDict):
    """With `--maxsim`: late interaction of A, the query, with B."""

    score: Annotated[float, "the sum of the row maxima"]
    projected: Annotated[int | None, "size of the vectors, if the checkpoint projects them"]
    cosines: Annotated[list[list[float]], "", "`[token][key token]`"]
    matches: list[_MatchEntry]


@dataclass(frozen=True)
class MaxSim(Result):
    """The cosines of the tokens of A, the query, with those of B, `[token, key token]`.

    projected: the size of the vectors, if the checkpoint projects them.
    """

    model: ModelInfo
    tokens: Tokens
    key_tokens: Tokens
    cosines: Doubles
    mask: str
    projected: int | None

    def __repr__(self) -> str:
        tokens = f"{len(self.tokens)} x {len(self.key_tokens)} tokens"
        return titled(self, self.model.full_name, f"score {self.score:.4g}", tokens)

    @property
    def score(self) -> float:
        """The sum of the row maxima."""
        return float(self.cosines.max(axis=1).sum())

    def matches(self) -> list[_MatchEntry]:
        """Return the token of B that each token of A matches best, the first of equals."""
        return [
            {
                "index": index,
                "token": self.tokens.text[index],
                "key_index": int(best),
                "key_token": self.key_tokens.text[best],
                "cosine": float(self.cosines[index, best]),
            }
            for index, best in enumerate(self.cosines.argmax(axis=1))
        ]

    def document(self) -> Mapping[str, Any]:
        """Return what --json prints."""
        late: MaxSimDocument = {
            "score": self.score,
            "projected": self.projected,
            "cosines": self.cosines.tolist(),
            "matches": self.matches(),
        }
        tokens, key_tokens = self.tokens.text, self.key_tokens.text
        return {"model": self.model.document(), "tokens": tokens, "key_tokens": key_tokens, "maxsim": late}

    def report(self) -> Report:
        """Show the map of cosines, and what each token of A matched."""
        count = len(self.tokens)
        rows = [
            [*(f"{one[at]} {visible(tokens.shown[one[at]])}" for at, tokens in self._sides), f"{one['cosine']:.3f}"]  # type: ignore[literal-required]
            for one in self.matches()
        ]
        first, second = (
            MapAxis(name, tokens.shown, range(len(tokens)), tokens.special)
            for name, (_, tokens) in zip("AB", self._sides, strict=True)
        )
        vectors = "last vectors" if self.projected is None else f"vectors projected to {self.projected} numbers"
        score = f"score {self.score:.4f}, the sum of {count} row maxima ({self.score / count:.4f} each)"
        return Report(
            [model_name(self.model.full_name), f"late interaction {self.score:.4f}", vectors, f"mask {self.mask}"],
            [
                TextLine(score, caption=True),
                Maps([[Panel("cosine", self.cosines)]], first, second, scale="cosine", signed=True),
                Table([Column("A"), Column("matched in B", "name"), Column("cosine")], rows),
            ],
            self.document,
            lambda _: iter(self.matches()),
        )

    @property
    def _sides(self) -> Iterator[tuple[str, Tokens]]:
        yield "index", self.tokens
        yield "key_index", self.key_tokens


def late_interaction(model: "Engine", query: str, document: str, mask: str | None = None) -> MaxSim:
    """Compute the cosines of two texts' tokens. Raises RequestError if vectors are not finite."""
    import torch

    from attncli.models.engine import require_tapped
    from attncli.models.families.family import tensors_of
    from attncli.models.model import own_network
    from attncli.models.outputs import embedding_settings

    model = require_tapped(model, "encoder" if len(model.parts) > 1 else None)
    manner = embedding_settings(model.place.path, model.tokenizer.max_tokens)
    texts = [manner.tokens(model.tokenizer, one) for one in (query, document)]
    own = own_network(model)
    named = [] if own is None else own.config.stated.get("architectures") or []
    with torch.inference_mode():
        first, second = (vectors.double().cpu() for vectors in model.last_hidden(texts, mask))
        projected = None
        if own is not None and PROJECTION in own.checkpoint.shapes and COLBERT in named:
            weight = own.checkpoint.read(PROJECTION, tensors_of(PROJECTION), own.dtype).double().cpu()
            first, second, projected = first @ weight.T, second @ weight.T, len(weight)
        cosines = torch.nn.functional.normalize(first, dim=-1) @ torch.nn.functional.normalize(second, dim=-1).T
    if not bool(cosines.isfinite().all()):
        raise RequestError(
            f"vectors of {model.place.name} overflow in {model.dtype_name}: use --dtype float32 or float64"
        )
    values: Doubles = np.asarray(cosines.numpy())
    return MaxSim(model.info, texts[0], texts[1], values, model.usual_mask(mask), projected)
