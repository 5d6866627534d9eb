"""What can happen where queries meet keys (`attncli.models.walk.Attend`): keep something, or change it.

Each has another one inside, which does the rest; the innermost is `attend_heads`. In whatever order they are put into
each other, what one keeps does not depend on the others; a change reaches everything after it.

    maps = KeepMaps(rows, layers, heads, like)
    for _ in walk(network, rows, maps):
        pass
    maps.kept[0]  # of the first run, [text, layer, head, query, key]

What is kept has the dtype and the device of `like`.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence

import torch
from torch import Tensor

from attncli.attention import Window
from attncli.models.kernels import attend_into, attend_output, attend_terms, map_dtype
from attncli.models.norms import transformed_lengths
from attncli.models.rows import Rows
from attncli.models.storage import STORAGE
from attncli.models.walk import Attend, Heads

CACHED = 2**20  # weights that a processor's cache holds until they are multiplied with the values
LEAST_QUERIES = 128  # of a window's at a time: what is done once for all of them then takes little of their time
Gate = float | Sequence[float] | Tensor


def attend_heads(heads: Heads, weights: Tensor | None = None) -> Tensor:
    """The formula; where a window hides most keys, some queries after the other, each with the keys that they see."""
    if heads.window is None:
        return attend_to_all(heads, weights)
    outputs = []
    for queries, seen in bands(heads.window, heads.queries, heads.keys):
        some, room = heads.some_queries(queries), None
        if weights is not None:
            rows = weights[:, :, queries]
            rows[..., : seen.start] = 0
            rows[..., seen.stop :] = 0
            room = rows[..., seen]
        outputs.append(attend_to_all(some.some_keys(seen), room))
    return outputs[0] if len(outputs) == 1 else torch.cat(outputs, dim=2)


def bands(window: Window, queries: slice, keys: slice) -> Iterator[tuple[slice, slice]]:
    """Some of these queries after the other, and those of these keys that any of them sees, each counted from the first
    of what is given.
    """
    count, together = queries.stop - queries.start, max(LEAST_QUERIES, window.reach)
    for start in range(0, count, together):
        stop = min(start + together, count)
        yield slice(start, stop), window.seen(slice(queries.start + start, queries.start + stop), keys)


def attend_to_all(heads: Heads, weights: Tensor | None = None) -> Tensor:
    """The formula; by torch's fused kernel where nobody looks at the weights, as it stands where there are gradients,
    else as many texts as fit the cache.
    """
    mask = heads.allowed()
    if weights is None and not heads.has_terms:
        return attend_output(heads.query, heads.key, heads.value, mask, heads.scale)
    if torch.is_grad_enabled() and any(part.requires_grad for part in (heads.query, heads.key, heads.value)):
        made = attend_terms(heads.query, heads.key, heads.value, mask, heads.scale, heads.terms().values())
        if weights is not None:
            weights.copy_(made.weights)
        return made.output
    texts, maps = len(heads.query), heads.query.shape[1] * heads.query.shape[2] * heads.key.shape[2]
    together = max(1, CACHED // maps) if heads.query.device.type == "cpu" else texts
    outputs, room = [], None
    for start in range(0, texts, together):
        some = heads.some_texts(slice(start, start + together))
        place = None if weights is None else weights[start : start + together]
        if place is not None and place.is_contiguous():
            room = place
        elif room is None or len(room) != len(some.query):
            room = heads.query.new_empty(*some.query.shape[:3], heads.key.shape[2], dtype=map_dtype(heads.query))
        shown = mask if mask is None or len(mask) == 1 else mask[start : start + together]
        outputs.append(attend_into(room, some.query, some.key, some.value, shown, some.scale, some.terms().values()))
        if place is not None and room is not place:
            place.copy_(room)
    return outputs[0] if len(outputs) == 1 else torch.cat(outputs)


def attend_apart(heads: Heads, places: Sequence[int], weights: Tensor, inside: Attend) -> Tensor:
    """The outputs of all heads, where only the weights of those at these `places` are looked at."""
    others = [place for place in range(len(heads.numbers)) if place not in places]
    if not others:
        return inside(heads, weights)
    output = heads.value.new_empty(*heads.query.shape[:3], heads.value.shape[-1])
    output[:, places] = inside(heads.only(places), weights)
    output[:, others] = inside(heads.only(others))
    return output


def places_of(heads: Heads, asked: Sequence[int]) -> tuple[list[int], list[int]]:
    """Of these heads those that are asked for: their places here, and in what is asked for."""
    here = [place for place, number in enumerate(heads.numbers) if number in asked]
    return here, [asked.index(heads.numbers[place]) for place in here]


class KeepMaps:
    """Keeps the weights of some heads of some layers, in the order in which they are asked for.

    kept: of each run `[text, layer, head, query, key]`. A map is written there and nowhere else; heads that nobody asks
    for go through the fused kernel.
    """

    def __init__(
        self,
        rows: Rows,
        layers: Sequence[int],
        heads: Sequence[int],
        like: Tensor,
        inside: Attend = attend_heads,
    ) -> None:
        self.layers = list(layers)
        self.heads = list(heads)
        self.inside = inside
        self.kept = [
            STORAGE.empty((len(run.texts), len(layers), len(heads), run.length, run.length), like) for run in rows.runs
        ]

    def __call__(self, heads: Heads, weights: Tensor | None = None) -> Tensor:
        ours, where = places_of(heads, self.heads)
        if heads.layer not in self.layers or not ours:
            return self.inside(heads, weights)
        kept = self.kept[heads.run.number][heads.texts, self.layers.index(heads.layer), :, heads.queries]
        if weights is not None:  # somebody else looks at all of them
            output = self.inside(heads, weights)
            kept[:, where] = weights[:, ours]
        elif where == list(range(len(self.heads))):
            output = attend_apart(heads, ours, kept, self.inside)
        else:
            room = kept[:, where]  # a copy, in the order of these heads
            output = attend_apart(heads, ours, room, self.inside)
            kept[:, where] = room
        return output


class KeepVectors:
    """Keeps queries and keys of some heads, which are (layer, head).

    kept: of each run `[2, text, head, token, head_dim]`, queries and then keys, in the order asked for.
    """

    def __init__(
        self,
        rows: Rows,
        heads: Sequence[tuple[int, int]],
        like: Tensor,
        head_dim: int,
        inside: Attend = attend_heads,
    ) -> None:
        self.heads = list(heads)
        self.inside = inside
        self.kept = [like.new_empty(2, len(run.texts), len(heads), run.length, head_dim) for run in rows.runs]

    def __call__(self, heads: Heads, weights: Tensor | None = None) -> Tensor:
        queries, keys = self.kept[heads.run.number]
        for place, number in enumerate(heads.numbers):
            if (heads.layer, number) in self.heads:
                where = self.heads.index((heads.layer, number))
                queries[heads.texts, where, heads.queries] = heads.query[:, place]
                keys[heads.texts, where] = heads.key[:, place]
        return self.inside(heads, weights)


class KeepTerms:
    """Keeps what positions add to the scores of some heads, which are (layer, head).

    kept: of each run by the term's name `[text, head, query, key]`, in the order asked for; 0 for a head without it.
    """

    def __init__(
        self, rows: Rows, heads: Sequence[tuple[int, int]], like: Tensor, inside: Attend = attend_heads
    ) -> None:
        self.heads = list(heads)
        self.like = like
        self.inside = inside
        self.kept: list[dict[str, Tensor]] = [{} for _ in rows.runs]

    def __call__(self, heads: Heads, weights: Tensor | None = None) -> Tensor:
        ours = [place for place, number in enumerate(heads.numbers) if (heads.layer, number) in self.heads]
        if ours and heads.has_terms:
            chosen, kept = heads.only(ours), self.kept[heads.run.number]
            for name, term in chosen.terms().items():
                if name not in kept:
                    length = heads.run.length
                    kept[name] = self.like.new_zeros(len(heads.run.texts), len(self.heads), length, length)
                for place, number in enumerate(chosen.numbers):
                    where = self.heads.index((heads.layer, number))
                    kept[name][heads.texts, where, heads.queries, heads.keys] = term[..., place, :, :]
        return self.inside(heads, weights)


class KeepLengths:
    """Keeps the lengths of some heads' transformed values, ‖v W_O‖ (`attncli.models.norms`).

    kept: of each run `[text, layer, head, token]`, in the order in which they are asked for.
    """

    def __init__(
        self, rows: Rows, layers: Sequence[int], heads: Sequence[int], like: Tensor, inside: Attend = attend_heads
    ) -> None:
        self.layers = list(layers)
        self.heads = list(heads)
        self.inside = inside
        self.kept = [like.new_empty(len(run.texts), len(layers), len(heads), run.length) for run in rows.runs]

    def __call__(self, heads: Heads, weights: Tensor | None = None) -> Tensor:
        ours, where = places_of(heads, self.heads)
        if heads.layer in self.layers and ours:
            chosen = heads.only(ours)
            of_layer = self.kept[heads.run.number][heads.texts, self.layers.index(heads.layer)]
            of_layer[:, where] = transformed_lengths(heads.attention, chosen.value, chosen.numbers).to(of_layer.dtype)
        return self.inside(heads, weights)


class KeepHead:
    """Keeps what goes into one head, and its values.

    kept: by the number of the text, x `[token, hidden_size]` and values `[token, head_dim]`.
    """

    def __init__(self, layer: int, head: int, inside: Attend = attend_heads) -> None:
        self.layer = layer
        self.head = head
        self.inside = inside
        self.kept: dict[int, tuple[Tensor, Tensor]] = {}

    def __call__(self, heads: Heads, weights: Tensor | None = None) -> Tensor:
        if heads.layer == self.layer and self.head in heads.numbers:
            values = heads.value[:, heads.numbers.index(self.head)]
            self.kept.update(zip(heads.run.texts[heads.texts], zip(heads.given, values, strict=True), strict=True))
        return self.inside(heads, weights)


class Gates:
    """Multiplies the outputs of some heads, which are (layer, head), by a number: 0 silences a head.

    gates: by head one number for all texts, or one for each by the text's number; gradients reach those of tensors.

    Source: Michel et al. 2019, "Are Sixteen Heads Really Better than One?", section 2.3, equation 2.
    """

    def __init__(self, gates: Mapping[tuple[int, int], Gate], inside: Attend = attend_heads) -> None:
        self.gates = gates
        self.layers = {layer for layer, _ in gates}
        self.inside = inside

    def __call__(self, heads: Heads, weights: Tensor | None = None) -> Tensor:
        output = self.inside(heads, weights)
        if heads.layer not in self.layers:
            return output
        texts = heads.run.texts[heads.texts]
        factors = [self.of_texts((heads.layer, number), texts, output) for number in heads.numbers]
        return output * torch.stack(factors, dim=1)[..., None, None]

    def of_texts(self, head: tuple[int, int], texts: Sequence[int], like: Tensor) -> Tensor:
        """What a head is multiplied with, `[text]`."""
        gate = torch.as_tensor(self.gates.get(head, 1.0), dtype=like.dtype, device=like.device)
        return gate.expand(len(texts)) if gate.dim() == 0 else gate[texts]


class Told:
    """Tells of each layer before anything happens in it; whoever is told may raise, and ends the walk."""

    def __init__(self, tell: Callable[[int], None], inside: Attend = attend_heads) -> None:
        self.tell = tell
        self.inside = inside

    def __call__(self, heads: Heads, weights: Tensor | None = None) -> Tensor:
        self.tell(heads.layer)
        return self.inside(heads, weights)
