"""What is looked at in the explorer: what was asked of a model, and what of the answer is held."""

from dataclasses import dataclass, replace
from typing import Literal

from attncli.live.session import Asked
from attncli.record import AttentionRecord
from attncli.record.named_heads import heads_list
from attncli.record.request import Grouping, Input, Request
from attncli.render.terminal.window import Held

HELD = ("layer", "head", "query", "key", "special")  # of a look, what is held: it needs no other answer
Against = Literal["", "before", "whole"]  # nothing, the sentence before, the model with every head


@dataclass(frozen=True)
class Look:
    """One state of the screen; every change makes another one.

    without: heads that are silenced, (layer, head). layer, head: those that are held; None until a text was answered
    for the first time, which then tells. query, key: the tokens of a cell. against: what it is compared with.
    """

    model: str
    text: Input
    mask: str | None = None
    measure: str = "weight"
    words: bool = False
    without: tuple[tuple[int, int], ...] = ()
    against: Against = ""
    layer: int | None = None
    head: int | None = None
    query: int | None = None
    key: int | None = None
    special: bool = True

    def asked(self, pad_to: int | None = None) -> Asked:
        """What this look needs of a session; what is held asks for nothing more."""
        grouping = Grouping(words=self.words, stretches=True)
        request = Request(measure=self.measure, pad_to=pad_to, predict=True, grouping=grouping)
        return Asked(self.model, self.text, request, (self.mask,), heads_list(self.without))

    def held(self) -> Held:
        """Of a look that has a head."""
        assert self.layer is not None and self.head is not None
        return Held(self.layer, self.head, self.query, self.key, self.special)

    def possible(self, record: AttentionRecord, telling: tuple[int, int]) -> "Look":
        """The same with a head and tokens that this record has: `telling` where none was held, or is there."""
        made = self
        if self.layer not in record.layers or self.head not in record.heads:
            made = replace(made, layer=telling[0], head=telling[1])
        if self.query is not None and self.query >= len(record.tokens):
            made = replace(made, query=None, key=None)
        if self.key is not None and self.key >= len(record.keys):
            made = replace(made, key=None)
        return made

    def silenced(self, layer: int, head: int) -> "Look":
        """With this head silenced, or, where it is, not any more; beside the whole model."""
        others = tuple(one for one in self.without if one != (layer, head))
        without = others if len(others) < len(self.without) else tuple(sorted((*others, (layer, head))))
        return replace(self, without=without, against="whole" if without else "")
