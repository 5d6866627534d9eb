"""attncli mask: what masks do to a text's maps, and whether their laws hold."""

from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from attncli.cli import options, output
from attncli.files import PICTURES, check_suffix

if TYPE_CHECKING:
    from attncli.analysis.masking import MaskEffect
    from attncli.checks.laws import Law
    from attncli.models.model import Model
    from attncli.record import AttentionRecord
    from attncli.text import Tokens

COMPARED = ("causal", "padding")  # beside no mask at all


def mask(
    text: options.Text = None,
    pair: options.Pair = None,
    file: options.File = None,
    model: options.ModelName = "minilm",
    layer: options.Layer = None,
    head: options.Head = None,
    pad_to: options.PadTo = None,
    output_path: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="PATH", help="Draw the maps as .png, .svg or .pdf."),
    ] = None,
    json: options.Json = False,
    device: options.Device = "auto",
    dtype: options.Dtype = "float32",
    debug: options.Debug = False,
) -> None:
    """Show what the causal and the padding mask do, and check their laws on the text.

    Maps without a mask, under the causal and under the padding mask stand beside each other; without -H those of
    the head whose weight the causal mask moves most. Without --pad-to four [PAD] are appended. Ends with exit
    code 1 when a law does not hold.

    \b
    Examples:
      attncli mask "The trophy does not fit in the suitcase because it is too big."
      attncli mask -l 2 -H 0-3 --pad-to 24 "The cat sat on the mat."
      attncli mask -l 0 -H 2 -o masks.png "The cat sat on the mat."
    """
    if output_path is not None:
        check_suffix(output_path, PICTURES, "a picture")
    inputs = options.read_inputs(text, pair, file)
    if output_path is not None:
        options.check_one_text(len(inputs), "give the one to draw as TEXT, or its line (sed -n 1p FILE | attncli mask)")
    loaded = options.open_model(model, device, dtype)
    looks = [
        Look(loaded, one, "-1" if layer is None else layer, "all" if head is None else head, pad_to)
        for one in options.counted(inputs, len(inputs))
    ]
    if output_path is not None:
        draw(looks[0], head is not None, output_path)
    if json:
        output.json_document({"model": asdict(loaded.info), "texts": [look.document() for look in looks]})
    elif output_path is None:
        for look in looks:
            output.show(*view(look, head is not None))
    if not all(look.lawful for look in looks):
        raise typer.Exit(1)


class Look:
    """One text under every mask: maps, what the masks moved, and the laws."""

    def __init__(self, model: "Model", one: options.Input, layers: str, heads: str, pad_to: int | None) -> None:
        from attncli.analysis.masking import mask_effects
        from attncli.checks.laws import check_laws, pad_some

        tokens = model.tokenizer.encode(one.text, one.pair)
        padded = pad_some(model, tokens, pad_to)
        self.records: dict[str, AttentionRecord] = {
            name: next(model.attend_tokens([padded], layers, heads, name)) for name in ("none", *COMPARED)
        }
        self.effects: dict[str, dict[tuple[int, int], MaskEffect]] = {
            name: mask_effects(self.records[name], self.records["none"]) for name in COMPARED
        }
        self.tokens: Tokens = padded
        self.laws: list[Law] = check_laws(model, tokens, padded)

    @property
    def lawful(self) -> bool:
        """That no law was found broken, and no weight on forbidden positions."""
        clean = all(effect.forbidden == 0 for by_head in self.effects.values() for effect in by_head.values())
        return clean and all(law.holds is not False for law in self.laws)

    def heads_to_draw(self, chosen: bool) -> list[tuple[int, int]]:
        """Those that were chosen; else the one whose weight the causal mask moves most."""
        causal = self.effects["causal"]
        return list(causal) if chosen else [max(causal, key=lambda head: causal[head].moved)]

    def document(self) -> dict[str, Any]:
        """This text's entry in the JSON document."""
        return {
            "tokens": self.tokens.text,
            "heads": [
                {
                    "layer": layer,
                    "head": head,
                    **{name: asdict(self.effects[name][layer, head]) for name in COMPARED},
                }
                for layer, head in self.effects["causal"]
            ],
            "laws": [asdict(law) for law in self.laws],
            "lawful": self.lawful,
        }


def view(look: Look, heads_chosen: bool) -> Iterator[Any]:
    """Maps, then what the masks moved, then the laws."""
    from attncli.render import masks

    yield from masks.mask_maps(look.records, look.heads_to_draw(heads_chosen), output.canvas())
    yield masks.effects_table(look.effects)
    yield masks.effects_legend()
    yield masks.laws_table(look.laws)


def draw(look: Look, heads_chosen: bool, path: Path) -> None:
    """The maps as a picture: a row a head, a column a mask."""
    from attncli.render.figure import panel_grid, save_figure
    from attncli.render.layout import Panel
    from attncli.render.masks import CAPTIONS

    heads = look.heads_to_draw(heads_chosen)
    rows = [
        [Panel(CAPTIONS[name] if row == 0 else "", record.map(*head)) for name, record in look.records.items()]
        for row, head in enumerate(heads)
    ]
    figure = panel_grid(
        rows,
        look.tokens.text,
        headings=[f"layer {layer} head {head}" for layer, head in heads],
        title=f"{look.records['none'].model.name}: what masks do",
    )
    save_figure(figure, path)
    output.data(str(path))
