"""The laws. Each takes a subject and returns what it found: whether the law holds, and the largest leak.

Every law compares vectors that must be equal. They may differ by rounding: by 32 eps x layers x their size, as in
`attncli.checks.tolerance`. The eps is that of float32 even in float64, as most models compute softmax, norms and angles
in float32; where a model does not run in float64, it is 32 times that. A leak is named by the first layer whose heads
moved, as no earlier layer can have moved it.
"""

from collections.abc import Callable
from copy import deepcopy
from typing import Any, NamedTuple

import torch
from torch import Tensor

from attncli.checks.behaviour.report import Leak
from attncli.checks.behaviour.subject import Inside, Run, Subject, join, noise
from attncli.checks.tolerance import scaled_tolerance, vector_size

FLOAT32_STEPS = 32
PADS = 3  # [PAD] beside a text


class Finding(NamedTuple):
    """The result for one law. holds: None where the law does not apply; the note says why."""

    holds: bool | None
    leak: Leak | None = None
    note: str = ""


def found(leaks: dict[str, Leak]) -> Finding:
    """Say whether there is a leak, by the circumstance that each was looked for in. The note names those with one."""
    worst = max(leaks.values(), key=lambda leak: (leak.real, leak.layer is not None, leak.difference))
    return Finding(not worst.real, worst, "; ".join(where for where, leak in leaks.items() if leak.real))


def rounding(layers: int, size: float, dtype: torch.dtype) -> float:
    """Return the largest difference that rounding explains: more of it where experts and recurrences add up float32."""
    more = 1 if dtype == torch.float64 else FLOAT32_STEPS
    return more * scaled_tolerance(torch.float32, layers, size)


def difference(one: Run, other: Run, equal: Tensor | None = None, where: int = 0) -> Leak:
    """Compare two runs at the tokens, bool `[text, token]`, that must be equal; by default at all.

    where: the position of the first token.
    Returns the leak in the first stage that has one, else the largest difference.
    """
    largest = Leak(0.0, 0.0)
    last = len(one.stages) - 1
    for number, (mine, theirs) in enumerate(zip(one.stages, other.stages, strict=True)):
        a, b = mine.vectors.detach(), theirs.vectors.detach()
        if a.shape != b.shape or (equal is not None and a.shape[1] != equal.shape[1]):
            continue  # vectors of an encoder's padded text
        apart = (a - b).abs().amax(-1).double().nan_to_num(nan=torch.inf)  # [text, token, head]
        if equal is not None:
            apart = torch.where(equal[..., None], apart, 0.0)
        kept = a if equal is None else a[equal.expand(a.shape[:2])]
        tolerance = rounding(number + 1, vector_size(kept), a.dtype)
        at = int(apart.argmax())
        token, head = at // apart.shape[2] % apart.shape[1], at % apart.shape[2]
        leak = Leak(float(apart.max()), tolerance, token + where, mine.layer, None, mine.part)
        if mine.layer is not None and apart.shape[2] > 1:
            leak = leak._replace(head=head)
        if leak.real:
            return leak
        if number == last or leak.difference > largest.difference:
            largest = leak
    return largest


def look_ahead(subject: Subject) -> Finding:
    """Change token j: outputs before j must not move. Alone, beside [PAD] on the left, and after a cache."""
    if not subject.causal:
        return Finding(None, note="an encoder may look ahead")
    with torch.no_grad():
        leaks = {"without a mask": ahead(subject, 0, None)}
        if subject.takes_padding and not subject.has_source:
            leaks["with a mask"] = ahead(subject, 0, torch.ones(1, subject.length, dtype=torch.bool))
            leaks["beside [PAD] on the left"] = ahead(subject, 0, beside(subject.length, PADS, 0))
        if subject.takes_cache:
            leaks["after a cache"] = ahead(subject, subject.length // 3, None)
    if subject.gradients:
        leaks["in the gradient"] = gradient_ahead(subject)
    return found(leaks)


def ahead(subject: Subject, cached: int, real: Tensor | None) -> Leak:
    """Change each token in a text of its own, beside an unchanged text in the same batch."""
    text = subject.texts()
    start = 0 if real is None else int((~real).sum())
    begun: dict[str, Any] = {}
    length = text.shape[1]
    tokens = range(max(cached, start) + 1, length)
    texts = text.expand(len(tokens) + 1, *text.shape[1:])
    if cached:
        begun["cache"] = subject.run(texts[:, :cached], keep=True).cache
        begun["keep"] = True
    changed = torch.zeros(len(texts), length, dtype=torch.bool)
    equal = torch.ones(len(tokens), length, dtype=torch.bool)
    for row, token in enumerate(tokens):
        changed[row + 1, token] = True
        equal[row, token:] = False
    equal[:, :start] = False
    mask = None if real is None else real.expand(len(texts), -1)
    run = subject.run(texts[:, cached:], mask, changed[:, cached:], **told(subject, real), **begun)
    base = Run([stage._replace(vectors=stage.vectors[:1].expand_as(stage.vectors[1:])) for stage in run.stages])
    return difference(run.texts(slice(1, None)), base, equal[:, cached:], cached)


def gradient_ahead(subject: Subject) -> Leak:
    """The gradient of an output with respect to the vectors of later tokens is exactly 0."""
    text, vectors = subject.texts(), []
    if subject.embedding is None:
        if subject.vocab_size is not None:
            return Leak(0.0, 0.0)
        text = text.requires_grad_()
        vectors.append(text)
        output = subject.run(text).stages[-1].vectors
    else:

        def keep(module: Any, inputs: Any, made: Tensor) -> Tensor | None:
            if vectors or not torch.equal(inputs[0], text):
                return None
            vectors.append(made.detach().requires_grad_())
            return vectors[0]

        handle = subject.embedding.register_forward_hook(keep)
        try:
            output = subject.run(text).stages[-1].vectors
        finally:
            handle.remove()
    worst = Leak(0.0, 0.0)
    outputs = (output * noise(output.flatten(2)).view_as(output)).flatten(2).sum(-1)[0]
    for token in range(len(outputs) - 1):
        [gradient] = torch.autograd.grad(outputs[token], vectors, retain_graph=True, allow_unused=True)
        if gradient is None:
            continue
        size = gradient.abs().amax(-1)[0].double().nan_to_num(nan=torch.inf)
        leak = Leak(float(size[token + 1 :].max()), torch.finfo(torch.float32).eps * float(size.max()), token)
        worst = max(worst, leak, key=lambda one: (one.real, one.difference))
    return worst


def beside(length: int, left: int, right: int) -> Tensor:
    """Return which tokens of a padded text are real, bool `[1, token]`."""
    real = torch.ones(1, length, dtype=torch.bool)
    real[:, :left] = False
    real[:, length - right :] = False
    return real


def told(subject: Subject, real: Tensor | None) -> dict[str, Any]:
    """Tell positions as `generate` does: those of [PAD] do not count."""
    if real is None or not subject.takes_positions:
        return {}
    return {"positions": (real.long().cumsum(-1) - 1).clamp(min=0)}


def padding(subject: Subject, side: str) -> Finding:
    """Pad a text on one side: changing the vectors of [PAD] moves nothing, nor does [PAD] itself."""
    if not subject.takes_padding:
        return Finding(None, note="the model takes no mask of [PAD]")
    if subject.has_source:
        return source_padding(subject, side)
    length = subject.length - PADS
    real = beside(subject.length, *((PADS, 0) if side == "left" else (0, PADS)))
    text = subject.texts(1, length)
    padded = text.new_full((1, subject.length, *text.shape[2:]), subject.pad_id)
    padded[real] = text[0]
    with torch.no_grad():
        alone = subject.run(text)
        run = subject.run(padded, real, **told(subject, real))
        again = subject.run(padded, real, changed=~real, **told(subject, real))
    where = slice(PADS, None) if side == "left" else slice(0, length)
    leaks = {"changing [PAD] moves real tokens": difference(run, again, real)}
    unpadded = difference(alone, run.tokens(where))
    if side == "left" and not subject.takes_positions and unpadded.real:
        note = "the text alone differs, as the model takes no position_ids" if subject.causal else ""
        return found(leaks)._replace(note=note) if not found(leaks).leak.real else found(leaks)  # type: ignore[union-attr]
    leaks["the text alone differs"] = unpadded
    return found(leaks)


def source_padding(subject: Subject, side: str) -> Finding:
    """Pad the encoder's text: what the decoder makes of it must not move."""
    source = subject.source()  # type: ignore[attr-defined]
    length = source.shape[1]
    real = beside(length, *((PADS, 0) if side == "left" else (0, PADS)))
    padded = torch.where(real, source, subject.pad_id)
    with torch.no_grad():
        run = subject.run(subject.texts(), source=(padded, real))
        other = subject.run(subject.texts(), source=(torch.where(real, padded, padded + 3), real))
        alone = subject.run(subject.texts(), source=(source[:, real[0]], None))
    leaks = {"changing [PAD] moves the decoder": outputs(run, other)}
    unpadded = outputs(alone, run)
    if side == "left" and unpadded.real:
        return found(leaks)._replace(note="the text alone differs, as the encoder takes no position_ids")
    return found({**leaks, "the text alone differs": unpadded})


def outputs(one: Run, other: Run) -> Leak:
    """Compare the outputs alone."""
    return difference(Run(one.stages[-1:]), Run(other.stages[-1:]))


def batches(subject: Subject) -> Finding:
    """A padded batch of texts of several lengths gives what each text gives alone."""
    if not subject.takes_padding or subject.has_source:
        return Finding(
            None, note="the model takes no mask of [PAD]" if not subject.takes_padding else "padding says it"
        )
    lengths = [subject.length, subject.length - 4, 2]
    texts = subject.texts(len(lengths))
    sides = ["right", *(["left"] if subject.takes_positions else [])]
    leaks = {}
    with torch.no_grad():
        for side in sides:
            for row, leak in enumerate(batch_leaks(subject, texts, lengths, side)):
                leaks[f"text {row} of a batch padded on the {side}"] = leak
    return found(leaks)


def batch_leaks(subject: Subject, texts: Tensor, lengths: list[int], side: str) -> list[Leak]:
    """Compare each text of a padded batch with itself alone."""
    longest = max(lengths)
    parts = [slice(longest - one, None) if side == "left" else slice(0, one) for one in lengths]
    real = torch.zeros(len(lengths), longest, dtype=torch.bool)
    padded = torch.full_like(texts, subject.pad_id)
    for row, part in enumerate(parts):
        real[row, part] = True
        padded[row, part] = texts[row, : lengths[row]]
    run = subject.run(padded, real, **told(subject, real))
    return [
        difference(subject.run(texts[row : row + 1, : lengths[row]]), run.texts(slice(row, row + 1)).tokens(part))
        for row, part in enumerate(parts)
    ]


def cached_steps(subject: Subject) -> Finding:
    """Steps with a cache give what one pass gives: one token at a time, in chunks, and twice from one cache."""
    if not subject.takes_cache:
        return Finding(None, note="the model has no cache" if subject.causal else "an encoder has no cache")
    length = subject.length
    leaks = {}
    with torch.no_grad():
        text = subject.texts()
        whole = own(subject, subject.run(text))
        as_generate = beside(length, 0, 0) if subject.takes_padding and subject.takes_positions else None
        leaks["one token at a time"] = difference(whole, stepped(subject, text, [1] * length, as_generate))
        leaks["in chunks"] = difference(whole, stepped(subject, text, [3, 1, 5, length - 9], as_generate))
        leaks["twice from one cache"] = twice(subject, text, whole, as_generate)
        if as_generate is not None:  # the model then counts positions itself
            leaks["without position_ids"] = difference(whole, stepped(subject, text, [1] * length, None))
        if subject.takes_padding and subject.takes_positions:
            real = beside(length, PADS, 0)
            run = subject.run(text, real, **told(subject, real))
            steps = stepped(subject, text, [PADS + 1, *[1] * (length - PADS - 1)], real)
            leaks["one token at a time, beside [PAD] on the left"] = difference(run, steps, real)
    return found(leaks)


def stepped(subject: Subject, text: Tensor, sizes: list[int], real: Tensor | None) -> Run:
    """Run a text in pieces of these sizes, each with the cache of those before."""
    runs, cache, end = [], None, 0
    for size in sizes:
        begin, end = end, end + size
        mask = None if real is None else real[:, :end]
        positions: dict[str, Any] = {name: one[:, begin:end] for name, one in told(subject, real).items()}
        run = subject.run(text[:, begin:end], mask, cache=cache, keep=True, **positions)
        runs.append(run)
        cache = run.cache
        if cache is None:
            raise NotImplementedError("the model returned no cache")
    return join([own(subject, run) for run in runs])


def own(subject: Subject, run: Run) -> Run:
    """Leave out what an encoder gives, which reads its text in one piece."""
    return Run([stage for stage in run.stages if stage.part != "encoder"]) if subject.has_source else run


def twice(subject: Subject, text: Tensor, whole: Run, real: Tensor | None) -> Leak:
    """Go on from copies of one cache with another text first, then with the text itself."""
    half = subject.length // 2
    begun = None if real is None else real[:, :half]
    rest: dict[str, Any] = {name: one[:, half:] for name, one in told(subject, real).items()}
    first = subject.run(text[:, :half], begun, keep=True, **told(subject, begun))
    subject.run(text[:, half:].flip(1), real, cache=deepcopy(first.cache), keep=True, **rest)
    second = subject.run(text[:, half:], real, cache=deepcopy(first.cache), keep=True, **rest)
    return difference(whole, join([own(subject, first), own(subject, second)]))


def packed(subject: Subject) -> Finding:
    """Two documents in one row, told apart by positions that start again, give what each gives alone."""
    if not subject.causal or not subject.takes_positions:
        return Finding(None, note="an encoder is not told of documents" if not subject.causal else "no position_ids")
    length = subject.length
    half = length // 2
    text = subject.texts()
    positions = torch.cat([torch.arange(half), torch.arange(length - half)])[None]
    more: dict[str, Any] = (
        {"cu_seqlens": torch.tensor([0, half, length], dtype=torch.int32)} if subject.takes_cu_seqlens else {}
    )
    with torch.no_grad():
        run = subject.run(text, positions=positions, **more)
        first, second = subject.run(text[:, :half]), subject.run(text[:, half:])
        return found(
            {
                "the first of two documents": difference(first, run.tokens(slice(0, half))),
                "the second of two documents": difference(second, run.tokens(slice(half, None)), where=half),
            }
        )


# --- inside one layer ----------------------------------------------------------------------------------------------


def reads(subject: Subject, stage: int, length: int) -> Tensor:
    """Return which tokens each head of one attention reads, bool `[head, query, key]`: change each token before it."""
    text = subject.texts(1, length)
    texts = text.expand(length + 1, *text.shape[1:])
    rows = torch.zeros(length + 1, length, dtype=torch.bool)
    rows[1:] = torch.eye(length, dtype=torch.bool)

    def other(vectors: Tensor) -> Tensor:
        if vectors.shape[:2] != rows.shape:
            return vectors
        return torch.where(rows[..., None], vectors + noise(vectors), vectors)

    with torch.no_grad():
        run = subject.run(texts, inside=Inside(stage, other))
    return moved(run.stages[stage].vectors).permute(2, 1, 0)


def moved(vectors: Tensor) -> Tensor:
    """Return which vectors of later texts differ from those of the first one, bool `[text, token, head]`."""
    tolerance = rounding(1, vector_size(vectors), vectors.dtype)
    return (vectors[1:] - vectors[:1]).abs().amax(-1).nan_to_num(nan=torch.inf) > tolerance


def window(subject: Subject) -> Finding:
    """The furthest token that moves an output through one layer is the one that the configuration says."""
    if subject.config is None:
        return Finding(None, note="no configuration says how far a token sees")
    if not subject.places:
        return Finding(None, note="no attention module was found")
    said = windows(subject.config, subject.causal)
    if said is None or subject.has_source:
        return Finding(None, note="the configuration has no window")
    for number, place in enumerate(subject.places):
        if (expected := said(place.layer)) is OTHER:
            continue
        edges = reads(subject, number, subject.length)
        distance = torch.arange(subject.length)[:, None] - torch.arange(subject.length)
        back, on = (int((edges * sign * distance).max()) for sign in (1, -1))
        furthest = subject.length - 1 if expected is None else expected
        for seen, what in ((back, "back"), *(() if subject.causal else ((on, "ahead"),))):
            if seen != min(furthest, subject.length - 1):
                says = "no window" if expected is None else f"{expected} tokens"
                head = int((edges * distance.abs()).amax((1, 2)).argmax())
                leak = Leak(float(abs(seen - furthest)), 0.0, None, place.layer, head)
                return Finding(
                    False,
                    leak,
                    f"in layer {place.layer} a token sees {seen} tokens {what}; the configuration says {says}",
                )
    return Finding(True)


OTHER = -1  # a layer of another kind, such as linear attention


def windows(config: Any, causal: bool) -> Callable[[int], int | None] | None:
    """Return how many tokens back a layer sees, by layer, as the configuration says; None if it says nothing.

    The window of a decoder counts the token itself, that of an encoder the tokens on each side of it.
    """
    kinds = getattr(config, "layer_types", None)
    if getattr(config, "attention_layers", None) is not None and hasattr(config, "window_size"):  # GPT-Neo
        return lambda layer: config.window_size - 1 if config.attention_layers[layer] == "local" else None
    size = getattr(config, "sliding_window", None)
    if not isinstance(size, int):
        return None
    back = size - 1 if causal else size
    if kinds is None:
        return lambda layer: back
    if "sliding_attention" not in kinds:
        return None
    sizes = {"sliding_attention": back, "full_attention": None}
    return lambda layer: sizes.get(kinds[layer], OTHER)


def key_heads(subject: Subject) -> Finding:
    """Query head h reads key head h // group: change one key head's projection, and see which heads move."""
    checked = 0
    for number, place in enumerate(subject.places):
        if place.projection is None or place.part == "cross":
            continue
        for leaf in place.leaves:
            order = readers(subject, number, leaf)
            if order is None:
                continue
            checked += 1
            if not in_order(order[0], order[1]):
                said = "; ".join(", ".join(map(str, heads)) for heads in order[0])
                leak = Leak(1.0, 0.0, None, place.layer, order[0][0][0] if order[0][0] else None, place.part)
                return Finding(False, leak, f"in layer {place.layer} the query heads of each key head are {said}")
    if not checked:
        return Finding(None, note="no projection of key heads was found")
    return Finding(True)


def readers(subject: Subject, stage: int, leaf: Any) -> tuple[list[list[int]], int] | None:
    """Return the query heads that read each part of a projection's output, a head wide, and how many heads there are.

    None for a projection that no other token reads, or all of whose parts every head reads.
    """
    sizes: list[int] = []
    text = subject.texts()
    token = subject.length // 2

    def other(vectors: Any, parts: int, width: int) -> Any:
        if not isinstance(vectors, Tensor) or vectors.shape[:2] != (parts + 1, subject.length):
            return vectors
        flat = vectors.flatten(2)
        changed = torch.zeros(parts + 1, 1, flat.shape[2], dtype=torch.bool)
        for part in range(parts):
            changed[part + 1, 0, part * width : (part + 1) * width] = True
        at = torch.zeros(1, subject.length, 1, dtype=torch.bool)
        at[:, : token + 1] = True
        return torch.where(changed & at, flat + noise(flat), flat).view_as(vectors)

    def measure(vectors: Any) -> Any:
        if isinstance(vectors, Tensor) and vectors.shape[:2] == text.shape[:2]:
            sizes.append(vectors.flatten(2).shape[2])
        return vectors

    with torch.no_grad():
        heads, size = subject.run(text, inside=Inside(stage, measure, leaf)).stages[stage].vectors.shape[2:]
        if heads == 1 or not sizes or sizes[0] % size or sizes[0] == size:
            return None
        parts = sizes[0] // size
        texts = text.expand(parts + 1, *text.shape[1:])
        run = subject.run(texts, inside=Inside(stage, lambda one: other(one, parts, size), leaf))
    others = moved(run.stages[stage].vectors)
    others[:, : token + 1] = False
    order = [[int(head) for head in row.nonzero()[:, 0]] for row in others.any(1)]
    order = [one for one in order if one]
    if not order or all(len(one) == heads for one in order):
        return None
    return order, heads


def in_order(order: list[list[int]], heads: int) -> bool:
    """Say whether parts are read by groups of consecutive heads, and the groups follow each other, once or twice.

    A head may read a part of its group without being moved by it, where it looks elsewhere.
    """
    group = max(map(len, order))
    blocks = [{head // group for head in one} for one in order]
    if heads % group or any(len(one) > 1 for one in blocks):
        return False
    first = [min(one) for one in blocks]
    falls = [at for at in range(1, len(first)) if first[at] < first[at - 1]]
    return len(falls) <= 1 and all(first[at] <= min(first) for at in (0, *falls))


LAWS: dict[str, Callable[[Subject], Finding]] = {
    "look-ahead": look_ahead,
    "padding on the right": lambda subject: padding(subject, "right"),
    "padding on the left": lambda subject: padding(subject, "left"),
    "padded batches": batches,
    "window": window,
    "key heads": key_heads,
    "cached steps": cached_steps,
    "packed documents": packed,
}
AGREE = "backends agree"


def passes(subject: Subject) -> dict[str, tuple[Run, Tensor | None]]:
    """Run what backends must agree on: a text, and a text with [PAD] on each side. With the tokens to compare."""
    text = subject.texts()
    with torch.no_grad():
        made: dict[str, tuple[Run, Tensor | None]] = {"alone": (subject.run(text), None)}
        if subject.takes_padding and not subject.has_source:
            for side, real in (
                ("right", beside(subject.length, 0, subject.length - 2)),
                ("left", beside(subject.length, PADS, 0)),
            ):
                run = subject.run(text, real, **told(subject, real))
                made[f"with [PAD] on the {side}"] = run, real
    return made


def agree(mine: dict[str, tuple[Run, Tensor | None]], theirs: dict[str, tuple[Run, Tensor | None]]) -> Finding:
    """Compare the same passes of two backends, in the coarser dtype of both."""
    coarse = min((one["alone"][0].stages[-1].vectors.dtype for one in (mine, theirs)), key=lambda dtype: dtype.itemsize)
    return found(
        {name: difference(cast(theirs[name][0], coarse), cast(run, coarse), real) for name, (run, real) in mine.items()}
    )


def cast(run: Run, dtype: torch.dtype) -> Run:
    """Return a run in another dtype."""
    return Run([stage._replace(vectors=stage.vectors.to(dtype)) for stage in run.stages])
