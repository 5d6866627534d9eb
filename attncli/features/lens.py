"""Show the tokens that the vectors of every layer would predict: the logit lens, for `attncli run --lens`.

The final norm and the output head are applied to the vectors of an earlier layer (nostalgebraist 2020, "interpreting
GPT: the logit lens"). They were trained for the last layer alone, so an early row can misstate what a layer
knows.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from attncli.base.arrays import titled
from attncli.base.errors import RequestError
from attncli.base.printable import visible
from attncli.features.inputs import SavedRecords, Texts, check_one, open_tappable
from attncli.record.display import model_shown
from attncli.record.parts import LensDocument, LensLayerDocument, LikelyDocument, ModelDocument, PlaceDocument
from attncli.record.selection import Request, Selection, select_token
from attncli.report import Column, Report, Result, Table, TextLine

LIKELIEST = 5  # tokens after each layer


@dataclass(frozen=True, repr=False)
class Lens(Result):
    """The likeliest tokens by the vectors of one token after every layer."""

    model: ModelDocument
    found: LensDocument

    def __repr__(self) -> str:
        query = self.found["query"]
        return titled(self, self.model["name"], f'query {query["index"]} "{query["shown"]}"')

    def document(self) -> Mapping[str, Any]:
        """Return what --json prints."""
        return {"model": self.model, "records": [], "lens": self.found}

    def report(self) -> Report:
        """Show a row a layer."""
        found = self.found
        rows = []
        for one in found["layers"]:
            after = "embeddings" if one["layer"] is None else f"layer {one['layer']}"
            rows.append([after, *(f"{visible(each['shown'])} {each['probability']:.3f}" for each in one["likeliest"])])
        columns = [Column("after"), *(Column(f"{place}.", "name") for place in range(1, LIKELIEST + 1))]
        query = found["query"]
        title = [model_shown(self.model), "logit lens", f"mask {found['mask']}", f"{len(found['tokens'])} tokens"]
        return Report(
            [*title, f"token {query['index']} ({visible(query['shown'])})"],
            [TextLine(LENS, caption=True), Table(columns, rows)],
            self.document,
            lambda _: self._rows(),
        )

    def _rows(self) -> Iterator[Mapping[str, Any]]:
        for one in self.found["layers"]:
            for each in one["likeliest"]:
                yield {"layer": one["layer"], **each}


LENS = (
    "the tokens that the vectors after each layer would predict, with their probabilities: the final norm and the "
    "output head, applied early. They are trained for the last layer"
)


def lens_of(source: SavedRecords | Texts, layers: Selection | None, query: str | None) -> Lens:
    """Return the likeliest tokens after each layer at a token, by default the last one, or at [MASK].

    Raises RequestError for a record, several texts, an encoder-decoder, and a model that predicts no tokens.
    """
    from attncli.effects.logits import check_place, lens, token_output
    from attncli.text.tokens import masked

    if isinstance(source, SavedRecords):
        raise RequestError("a record has no vectors: --lens needs a model and a text")
    check_one(len(source), "give the one to look into as TEXT")
    [one] = source.inputs
    model = open_tappable(source.opening, source.request.which)
    if len(model.parts) > 1:
        raise RequestError(f"--lens is for decoders and encoders, and {model.place.name} is both: use another model")
    tokens = model.tokenizer.encode(*one, source.request.pad_to)
    _, output = token_output(model)
    check_place(model, output, tokens, query, "--query")
    if query is not None:
        place = select_token(query, tokens)
    else:
        place = tokens.real[-1] if output.kind == "next" else masked(tokens)[0]
    mask = model.usual_mask(source.request.mask)
    chances, numbers = lens(model, output, tokens, place, mask).topk(LIKELIEST)
    chosen: list[int | None] = [None, *range(model.layers)]
    if layers is not None:
        chosen = list(Request(layers).choose_in(model.layers, model.heads).layers)
    entries: list[LensLayerDocument] = []
    for layer in chosen:
        row = 0 if layer is None else layer + 1
        names = [output.labels[number] for number in numbers[row].tolist()]
        likeliest: list[LikelyDocument] = [
            {"token": token, "shown": model.tokenizer.notation.read([token], [False])[0], "probability": chance}
            for token, chance in zip(names, chances[row].exp().tolist(), strict=True)
        ]
        entries.append({"layer": layer, "likeliest": likeliest})
    at: PlaceDocument = {"index": place, "token": tokens.text[place], "shown": tokens.shown[place]}
    return Lens(model.info.document(), {"query": at, "mask": mask, "tokens": tokens.text, "layers": entries})
