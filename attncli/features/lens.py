"""Show the tokens that the vectors of every layer would predict: the logit lens, for --lens of `run` and `generate`.

The final norm and the output head are applied to the vectors of an earlier layer (nostalgebraist 2020, "interpreting
GPT: the logit lens"). They were trained only for the last layer, so an early row can misrepresent what a layer knows.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from attncli.base.arrays import titled
from attncli.base.errors import RequestError
from attncli.base.printable import visible
from attncli.features.inputs import SavedRecords, Texts, check_one, open_tappable
from attncli.record.display import model_shown
from attncli.record.parts import LensDocument, LensLayerDocument, LikelyDocument, ModelDocument, PlaceDocument
from attncli.record.selection import Request, Selection, select_token
from attncli.report import Column, Report, Result, Table, TextLine

if TYPE_CHECKING:
    from attncli.models.engine import Engine
    from attncli.models.output import Output
    from attncli.text.tokens import Tokens

LIKELIEST = 5  # tokens after each layer


@dataclass(frozen=True, repr=False)
class Lens(Result):
    """The likeliest tokens after every layer, as predicted from one token's vectors."""

    model: ModelDocument
    found: LensDocument

    def __repr__(self) -> str:
        query = self.found["query"]
        return titled(self, self.model["name"], f'query {query["index"]} "{query["shown"]}"')

    def document(self) -> Mapping[str, Any]:
        """Return what --json prints."""
        return {"model": self.model, "records": [], "lens": self.found}

    def report(self) -> Report:
        """Show a row per layer."""
        found = self.found
        query = found["query"]
        title = [model_shown(self.model), "logit lens", f"mask {found['mask']}", f"{len(found['tokens'])} tokens"]
        return Report(
            [*title, f"token {query['index']} ({visible(query['shown'])})"],
            [TextLine(LENS, caption=True), lens_table(found["layers"])],
            self.document,
            lambda _: ({"layer": one["layer"], **each} for one in found["layers"] for each in one["likeliest"]),
        )


def lens_table(layers: Sequence[LensLayerDocument]) -> Table:
    """Return a row per layer, with its likeliest tokens."""
    rows = []
    for one in layers:
        after = "embeddings" if one["layer"] is None else f"layer {one['layer']}"
        rows.append([after, *(f"{visible(each['shown'])} {each['probability']:.3f}" for each in one["likeliest"])])
    return Table([Column("after"), *(Column(f"{place}.", "name") for place in range(1, LIKELIEST + 1))], rows)


LENS = (
    "the tokens that the vectors after each layer would predict, with their probabilities: the final norm and the "
    "output head, applied early. They were trained only for the last layer"
)


def lens_of(source: SavedRecords | Texts, layers: Selection | None, query: str | None) -> Lens:
    """Return the likeliest tokens after each layer at a token, by default the last one, or at [MASK].

    Raises RequestError for a record, several texts, an encoder-decoder, and a model that predicts no tokens.
    """
    from attncli.effects.logits import check_place, token_output
    from attncli.text.tokens import mask_positions

    if isinstance(source, SavedRecords):
        raise RequestError("a saved record has no vectors: --lens needs a model and a text")
    check_one(len(source), "give one as TEXT")
    [one] = source.inputs
    model = open_tappable(source.opening, source.request.which)
    check_lens(model)
    tokens = model.tokenizer.encode(*one, source.request.pad_to)
    _, output = token_output(model)
    check_place(model, output, tokens, query, "--query")
    if query is not None:
        place = select_token(query, tokens)
    else:
        place = tokens.real[-1] if output.kind == "next" else mask_positions(tokens)[0]
    mask = model.usual_mask(source.request.mask)
    chosen = None if layers is None else Request(layers).choose_in(model.layers, model.heads).layers
    [entries] = lens_entries(model, output, tokens, [place], mask, chosen)
    at: PlaceDocument = {"index": place, "token": tokens.text[place], "shown": tokens.shown[place]}
    return Lens(model.info.document(), {"query": at, "mask": mask, "tokens": tokens.text, "layers": entries})


def check_lens(model: "Engine") -> None:
    """Raises RequestError for an encoder-decoder, whose halves each have their own layers."""
    if len(model.parts) > 1:
        raise RequestError(f"--lens does not work on an encoder-decoder such as {model.place.name}: use another model")


def lens_entries(
    model: "Engine",
    output: "Output",
    tokens: "Tokens",
    places: Sequence[int],
    mask: str,
    layers: Sequence[int] | None = None,
) -> Iterator[list[LensLayerDocument]]:
    """Yield, for each of these tokens, the likeliest tokens after the embeddings and each layer, or only after
    `layers`.
    """
    from attncli.effects.logits import lens

    read = model.tokenizer.notation.read
    for found in lens(model, output, tokens, places, mask):
        entries: list[LensLayerDocument] = []
        for layer in [None, *range(model.layers)] if layers is None else layers:
            best = found[0 if layer is None else layer + 1].topk(LIKELIEST)
            names = [output.labels[number] for number in best.indices.tolist()]
            likeliest: list[LikelyDocument] = [
                {"token": token, "shown": read([token], [False])[0], "probability": chance}
                for token, chance in zip(names, best.values.exp().tolist(), strict=True)
            ]
            entries.append({"layer": layer, "likeliest": likeliest})
        yield entries
