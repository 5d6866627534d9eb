"""The laws. Each takes a subject and returns whether the law holds, with the worst comparison.

Every law compares vectors that must be equal. They may differ by rounding: by 32 eps x layers x their size, as in
`attncli.checks.tolerance`. The eps is that of float32 even in float64, as most models compute softmax, norms and angles
in float32. Where a model does not run in float64, the tolerance is 32 times as large. A difference is
attributed to the first layer whose heads moved: no earlier layer can have caused it.

transformers does not promise everything that a law compares. Such a difference is a note ("not promised: ...").
"""

import math
from collections.abc import Callable, Iterable, Sequence
from contextlib import nullcontext
from copy import deepcopy
from dataclasses import dataclass, field
from functools import partial
from operator import itemgetter
from typing import Any, NamedTuple
from unittest.mock import patch

import numpy as np
import torch
from torch import Tensor, nn

from attncli.base.arrays import finite
from attncli.base.errors import RequestError
from attncli.base.printable import first_line, printable
from attncli.checks.behaviour.model import Edit, ModelSubject, RecordedRun, add_noise, noise
from attncli.checks.machine import one_thread
from attncli.checks.tolerance import scaled_tolerance, vector_size

# --- results ------------------------------------------------------------------------------------------

WORDS = {True: "holds", False: "BROKEN", None: "not checked"}
NOT_PROMISED = "not promised: "  # begins the note on a difference that the model's library does not rule out


class Outcome(NamedTuple):
    """The result of a law on a backend, or of one comparison for it.

    holds: None where it was not checked; the note says why. difference: the largest one between vectors that must be
    equal. tolerance: the difference that rounding explains. position: the token that moved; None where the note names
    what differs. layer, head: the first layer that moved, and its head that moved most; None where no attention module
    shows it. part: encoder, decoder or cross, in a model that has several. cause: the token whose change moved it.
    """

    holds: bool | None
    note: str = ""
    difference: float | None = None
    tolerance: float | None = None
    position: int | None = None
    layer: int | None = None
    head: int | None = None
    part: str = ""
    cause: int | None = None
    law: str = ""
    backend: str = ""
    dtype: str = ""

    @property
    def says(self) -> str:
        """Return the result in words."""
        if self.holds is not False or self.position is None or self.difference is None:
            return self.note
        size = f"{self.difference:.2g}" if math.isfinite(self.difference) else "NaN or infinity"
        layer = "" if self.layer is None else f" in {self.part} layer {self.layer}".replace("  ", " ")
        head = "" if self.head is None else f", head {self.head}"
        cause = "" if self.cause is None else f" when token {self.cause} changes"
        place = f"token {self.position} differs by {size}{layer}{head}{cause}"
        return f"{place} (rounding explains {self.tolerance:.1g}): {self.note}"

    def document(self) -> dict[str, Any]:
        """Return the result as JSON data."""
        document = {"name": self.law, **self._asdict(), "difference": finite(self.difference), "says": self.says}
        del document["law"], document["cause"]
        return document

    def __str__(self) -> str:
        backend = f" ({self.backend})" if self.backend else ""
        return f"{self.law}{backend}: {WORDS[self.holds]}{f': {self.says}' if self.says else ''}"


@dataclass(frozen=True)
class Behaviour:
    """The results for a model. missing: the reason why a backend could not be run, by its name."""

    name: str
    kind: str
    outcomes: tuple[Outcome, ...]
    missing: dict[str, str] = field(default_factory=dict)

    @property
    def broken(self) -> list[Outcome]:
        return [one for one in self.outcomes if one.holds is False]

    @property
    def right(self) -> bool:
        return not self.broken and any(one.holds for one in self.outcomes)

    @property
    def verdict(self) -> str:
        """Return the result in one sentence."""
        if self.broken:
            laws = dict.fromkeys(f"{one.law} ({one.backend})" if one.backend else one.law for one in self.broken)
            return printable(f"wrong: {self.name} breaks {', '.join(laws)}")
        checked = len({one.law for one in self.outcomes if one.holds is not None})
        return printable(f"right: {self.name} keeps {checked} laws" if self.right else f"{self.name}: nothing checked")

    def document(self) -> dict[str, Any]:
        """Return the results as JSON data, with the fields of a check of attention code, which are empty."""
        backends = {one.backend: "" for one in self.outcomes} | self.missing
        return {
            "name": self.name,
            "kind": self.kind,
            "checks": [one.document() for one in self.outcomes],
            **{"conventions": [], "diagnosis": [], "smallest": None, "maps": None},
            "backends": [
                {"name": name, "available": name not in self.missing, "note": note} for name, note in backends.items()
            ],
            "verdict": self.verdict,
            "right": self.right,
        }

    def __str__(self) -> str:
        missing = [f"not checked: {name} ({reason})" for name, reason in self.missing.items()]
        return "\n".join([self.verdict, *map(str, self.broken), *missing])


FLOAT32_STEPS = 32
PADS = 3  # [PAD] on one side of a text
NO_DIFFERENCE = Outcome(True, difference=0.0, tolerance=0.0)


def rounding(layers: int, size: float, dtype: torch.dtype) -> float:
    """Return the largest difference that rounding explains. Experts and recurrences add up more of it in float32."""
    steps = 1 if dtype == torch.float64 else FLOAT32_STEPS
    return steps * scaled_tolerance(torch.float32, layers, size)


def worst(outcomes: Iterable[Outcome]) -> Outcome:
    """Return the comparison with the largest difference; one that breaks the law and names a layer goes first."""
    return max(outcomes, key=lambda one: (not one.holds, one.layer is not None, one.difference))


def judge(outcomes: dict[str, Outcome], note: str = "") -> Outcome:
    """Return the worst comparison. Its note names the situations that break the law."""
    situations = "; ".join(situation for situation, outcome in outcomes.items() if not outcome.holds)
    return worst(outcomes.values())._replace(note=situations or note)


def compare(
    one: RecordedRun, other: RecordedRun, equal: Tensor | None = None, first: int = 0, causes: Sequence[int] = ()
) -> Outcome:
    """Compare two runs. Return the first stage that differs, else the one with the largest difference.

    equal: the tokens, bool `[text, token]`, that must be equal; by default all. first: the position of the first token.
    causes: the token that was changed, by text.
    """
    largest = NO_DIFFERENCE
    for number, (mine, theirs) in enumerate(zip(one.stages, other.stages, strict=True)):
        a, b = mine.vectors.detach(), theirs.vectors.detach()
        distance = (a - b).abs().amax(-1).double().nan_to_num(nan=torch.inf)  # [text, token, head]
        if equal is not None:
            distance = torch.where(equal[..., None], distance, 0.0)
            a = a[equal.expand(a.shape[:2])]
        text, token, head = map(int, np.unravel_index(int(distance.argmax()), distance.shape))  # torch's imports sympy
        difference, tolerance = float(distance.max()), rounding(number + 1, vector_size(a), a.dtype)
        outcome = Outcome(
            difference <= tolerance,
            difference=difference,
            tolerance=tolerance,
            position=first + token,
            layer=mine.layer,
            head=head if mine.layer is not None and distance.shape[2] > 1 else None,
            part=mine.part,
            cause=causes[text] if causes else None,
        )
        if not outcome.holds:
            return outcome
        largest = worst([largest, outcome])
    return largest


# --- look-ahead ------------------------------------------------------------------------------------------------------


def look_ahead(subject: ModelSubject) -> Outcome:
    """Change token j: outputs before j must not move, in a text alone, with [PAD] on the left, and after a cache."""
    if not subject.causal:
        return Outcome(None, "an encoder may look ahead")
    with torch.no_grad():
        outcomes = {"without a mask": compare_futures(subject)}
        if subject.takes_padding and not subject.is_encoder_decoder:
            outcomes["with a mask"] = compare_futures(subject, real_tokens([subject.length]))
            padded = real_tokens([subject.length - PADS], "left", subject.length)
            outcomes["with [PAD] on the left"] = compare_futures(subject, padded)
        if subject.takes_cache:
            outcomes["after a cache"] = compare_futures(subject, cached=subject.length // 3)
    if subject.has_gradients:
        outcomes["in the gradient"] = compare_gradients(subject)
    return judge(outcomes)


def compare_futures(subject: ModelSubject, real: Tensor | None = None, cached: int = 0) -> Outcome:
    """Change each token in a text of its own, with an unchanged text in the same batch.

    cached: the number of tokens that are in a cache already.
    """
    pads = 0 if real is None else int((~real).sum())
    text = subject.texts()
    length = text.shape[1]
    tokens = range(max(cached, pads) + 1, length)
    texts = text.expand(len(tokens) + 1, *text.shape[1:])
    changed = torch.zeros(len(texts), length, dtype=torch.bool)
    equal = torch.ones(len(tokens), length, dtype=torch.bool)
    equal[:, :pads] = False
    for row, token in enumerate(tokens):
        changed[row + 1, token] = True
        equal[row, token:] = False
    options = {}
    if cached:
        options = {"cache": subject.run(texts[:, :cached], keep_cache=True).cache, "keep_cache": True}
    mask = None if real is None else real.expand(len(texts), -1)
    run = subject.run(texts[:, cached:], mask, changed[:, cached:], **options).decoder()
    unchanged = run.map(lambda vectors: vectors[:1].expand_as(vectors[1:]))
    return compare(run.map(lambda vectors: vectors[1:]), unchanged, equal[:, cached:], cached, tokens)


def compare_gradients(subject: ModelSubject) -> Outcome:
    """Return the largest gradient of an output with respect to the vectors of a later token, which must be 0."""
    if subject.embedding is None and subject.vocab_size is not None:
        return NO_DIFFERENCE
    embedded: list[Tensor] = []

    def keep(vectors: Tensor) -> Tensor:
        embedded.append(vectors.detach().requires_grad_())
        return embedded[-1]

    output = subject.run(subject.texts(), edit_embedding=keep).stages[-1].vectors.flatten(2)
    sums = (output * noise(output)).sum(-1)[0]
    outcomes = [NO_DIFFERENCE]
    for token in range(len(sums) - 1):
        for gradient in torch.autograd.grad(sums[token], embedded, retain_graph=True, allow_unused=True):
            if gradient is not None:
                size = gradient.abs().amax(-1)[0].double().nan_to_num(nan=torch.inf)
                later = token + 1 + int(size[token + 1 :].argmax())
                largest = float(size.nan_to_num(posinf=0.0).max())
                difference, tolerance = float(size[later]), torch.finfo(torch.float32).eps * largest
                outcomes.append(Outcome(difference <= tolerance, "", difference, tolerance, token, cause=later))
    return worst(outcomes)


# --- [PAD] ---------------------------------------------------------------------------------------------------------


def real_tokens(lengths: Sequence[int], side: str = "right", longest: int = 0) -> Tensor:
    """Return which tokens of a batch are not [PAD], bool `[text, token]`. side: that of [PAD]."""
    longest = longest or max(lengths)
    real = torch.arange(longest) < torch.tensor(lengths)[:, None]
    return real.flip(1) if side == "left" else real


def padding(subject: ModelSubject, lengths: Sequence[int], sides: Sequence[str]) -> Outcome:
    """Pad texts to one length: changing [PAD] must move nothing, and each text must give the same output as alone."""
    if not subject.takes_padding:
        return Outcome(None, "the model takes no mask of [PAD]")
    outcomes, note = {}, ""
    texts = subject.texts(len(lengths))
    with torch.no_grad():
        for side in sides:
            real = real_tokens(lengths, side, subject.length)
            padded = torch.full_like(texts, subject.pad_id)
            padded[real] = texts[real_tokens(lengths, longest=subject.length)]
            run = subject.run_padded(padded, real)
            equal = None if subject.is_encoder_decoder else real
            changed = compare(run, subject.run_padded(padded, real, changed=~real), equal)
            outcomes[f"changing [PAD] on the {side} moves real tokens"] = changed
            for row, length in enumerate(lengths):
                alone = subject.run_padded(texts[row : row + 1, :length], None)
                mine = run.map(itemgetter((slice(row, row + 1), slice(None) if equal is None else real[row])))
                outcome = compare(alone, mine)
                if side == "left" and not subject.takes_positions and not outcome.holds:
                    note = f"{NOT_PROMISED}equality with the text alone, as positions count [PAD]"
                else:
                    outcomes[f"text {row} with [PAD] on the {side} differs from the text alone"] = outcome
    return judge(outcomes, note)


# --- a cache, and documents in one row -----------------------------------------------------------------------------


def cached_steps(subject: ModelSubject) -> Outcome:
    """Steps with a cache must give the same as one pass: one token at a time, in chunks, and twice from one cache."""
    if not subject.takes_cache:
        return Outcome(None, "the model has no cache" if subject.causal else "an encoder has no cache")
    length, half, note = subject.length, subject.length // 2, ""
    single = [1] * length
    with torch.no_grad():
        text = subject.texts()
        steps = partial(run_in_steps, subject, text)
        expected = subject.run(text).decoder()
        real = real_tokens([length]) if subject.takes_positions and subject.takes_padding else None
        outcomes = {
            "one token at a time": compare(expected, steps(single, real)),
            "in chunks": compare(expected, steps([3, 1, 5, length - 9], real)),
            "twice from one cache": compare(expected, steps([half, length - half], real, times=2)),
        }
        if real is not None:
            outcome = compare(expected, steps(single, None))
            if outcome.holds or not compare(steps(single, None, count=False), steps(single, None)).holds:
                outcomes["without position_ids"] = outcome
            else:
                note = f"{NOT_PROMISED}steps without position_ids, which the model counts from 0; `generate` gives them"
            real = real_tokens([length - PADS], "left", length)
            padded = steps([PADS + 1, *single[PADS + 1 :]], real)
            outcomes["one token at a time, with [PAD] on the left"] = compare(subject.run(text, real), padded, real)
    return judge(outcomes, note)


def run_in_steps(
    subject: ModelSubject, text: Tensor, sizes: list[int], real: Tensor | None, times: int = 1, count: bool = True
) -> RecordedRun:
    """Run a text in pieces of these sizes, each with the cache of those before.

    times: 2 goes on from a copy of each cache with another text first. count: without it, each piece begins at 0.
    """
    runs: list[RecordedRun] = []
    cache, end = None, 0
    for size in sizes:
        begin, end = end, end + size
        mask = None if real is None else real[:, :end]
        options: dict[str, Any] = {} if count else {"positions": torch.arange(size)[None]}
        if times == 2 and cache is not None:
            subject.run(text[:, begin:end].flip(1), mask, cache=deepcopy(cache), keep_cache=True, **options)
        run = subject.run(text[:, begin:end], mask, cache=cache, keep_cache=True, **options)
        runs.append(run.decoder())
        cache = run.cache
        if cache is None:
            raise NotImplementedError("the model returned no cache")
    same_stages = zip(*(run.stages for run in runs), strict=True)
    return RecordedRun(
        [same[0]._replace(vectors=torch.cat([one.vectors for one in same], dim=1)) for same in same_stages]
    )


def packed(subject: ModelSubject, with_ones: bool = False, **options: Any) -> Outcome:
    """Two documents in one row, whose positions start again, must give the same as each alone.

    with_ones: pass a mask in which all tokens are real, as collators do. options: of the run.
    """
    if not subject.causal or not subject.takes_positions:
        return Outcome(None, "an encoder packs no documents" if not subject.causal else "no position_ids")
    from transformers import masking_utils

    text, length = subject.texts(), subject.length
    half = length // 2
    positions = torch.cat([torch.arange(half), torch.arange(length - half)])[None]
    original = masking_utils.find_packed_sequence_indices
    with torch.no_grad(), patch.object(masking_utils, "find_packed_sequence_indices", wraps=original) as find:
        run = subject.run(
            text, torch.ones_like(text, dtype=torch.bool) if with_ones else None, positions=positions, **options
        )
    with torch.no_grad():
        first, second = subject.run(text[:, :half]), subject.run(text[:, half:])
    outcome = judge(
        {
            "the first of two documents": compare(first, run.map(lambda vectors: vectors[:, :half])),
            "the second of two documents": compare(second, run.map(lambda vectors: vectors[:, half:]), first=half),
        }
    )
    # transformers promises this where its mask gets the positions, and for flash attention: see its
    # docs/source/en/padding_free.md, and its pull request 39194 for eager, sdpa and flex attention.
    kinds = dict.fromkeys(getattr(subject.config, "layer_types", None) or ())
    others = ", ".join(kind for kind in kinds if kind not in ATTENTION_KINDS)
    backend = getattr(subject.config, "_attn_implementation", "")
    usual = not with_ones and not options
    if outcome.holds or (usual and not others and (find.called or "flash" in backend)):
        return outcome
    way = "" if usual else ", with a mask of ones," if with_ones else ", with a cache,"
    reason = f"layers without attention ({others}) do" if others else f"{backend} attention of this model{way} does"
    note = f"{reason} not tell documents apart by position_ids, and outputs differ by {outcome.difference:.2g}"
    return outcome._replace(holds=None, note=f"{NOT_PROMISED}{note}")


ATTENTION_KINDS = ("full_attention", "sliding_attention", "chunked_attention")


# --- inside one layer ----------------------------------------------------------------------------------------------


def change_projections(subject: ModelSubject, stage: int, projections: list[nn.Module], changed: Tensor) -> Tensor:
    """Return which heads of one attention move when the outputs of some of its projections are changed.

    changed: bool `[text, token, size]`, False in the first text. Returns bool `[text, token, head]`.
    """

    def change(vectors: Tensor) -> Tensor:
        return add_noise(vectors, changed) if vectors.shape[:2] == changed.shape[:2] else vectors

    text = subject.texts()
    with torch.no_grad():
        run = subject.run(text.expand(len(changed), *text.shape[1:]), edit=Edit(stage, projections, change))
    vectors = run.stages[stage].vectors
    tolerance = rounding(1, vector_size(vectors), vectors.dtype)
    return (vectors[1:] - vectors[:1]).abs().amax(-1).nan_to_num(nan=torch.inf) > tolerance


def window(subject: ModelSubject) -> Outcome:
    """Compare the furthest token that moves an output through one layer with the window of the configuration."""
    length, windows = subject.length, windows_of(subject)
    if subject.is_encoder_decoder or all(one is None or one == length - 1 for one in windows):
        return Outcome(None, "the configuration has no window" if subject.config else "no configuration gives a window")
    each_token = torch.eye(length, dtype=torch.bool)
    changed = torch.cat([torch.zeros_like(each_token[:1]), each_token])[..., None]
    distance = torch.arange(length)[:, None] - torch.arange(length)
    for stage, (place, expected) in enumerate(zip(subject.places, windows, strict=True)):
        if expected is None:
            continue
        projections = [projection for projection, _ in place.inputs]
        visible = change_projections(subject, stage, projections, changed).permute(2, 1, 0)  # [head, query, key]
        for sign, direction in ((1, "back"),) if subject.causal else ((1, "back"), (-1, "ahead")):
            furthest = (visible * sign * distance).amax((1, 2))
            head = int((furthest - expected).abs().argmax())
            seen = int(furthest[head])
            if seen != expected and not (expected == length - 1 == furthest.max()):  # a head may look elsewhere
                note = f"in layer {place.layer}, head {head} sees {seen} tokens {direction}"
                note = f"{note}; the configuration says {expected}"
                return Outcome(False, note, abs(seen - expected), 0.0, None, place.layer, head)
    return Outcome(True)


def windows_of(subject: ModelSubject) -> list[int | None]:
    """Return the number of tokens that each attention sees on a side, by the configuration; None for other layers.

    The window of a decoder counts the token itself.
    """
    config, most = subject.config, subject.length - 1
    kinds = getattr(config, "layer_types", None)
    size = getattr(config, "sliding_window", None)
    if hasattr(config, "attention_layers") and hasattr(config, "window_size"):  # GPT-Neo
        kinds, size = config.attention_layers, config.window_size
    if not isinstance(size, int):
        return []
    side = min(size - 1 if subject.causal else size, most)
    sizes = {"sliding_attention": side, "local": side, "full_attention": most, "global": most}
    return [sizes.get(kinds[place.layer]) if kinds else side for place in subject.places]


def key_heads(subject: ModelSubject) -> Outcome:
    """Query head h reads key head h // group: change a key head at the first tokens, and see which heads move later.

    Only outputs at later tokens count.
    """
    checked, middle = False, subject.length // 2
    with torch.no_grad():
        stages = subject.run(subject.texts()).stages
        for stage, place in enumerate(subject.places):
            heads, size = stages[stage].vectors.shape[2:]
            for projection, width in place.inputs:
                if place.output is None or place.part == "cross" or heads == 1 or width % size or width == size:
                    continue
                changed = torch.zeros(width // size + 1, subject.length, width, dtype=torch.bool)
                for part in range(width // size):
                    changed[part + 1, : middle + 1, part * size : (part + 1) * size] = True
                moved = change_projections(subject, stage, [projection], changed)[:, middle + 1 :].any(1)
                order = [
                    row.nonzero()[:, 0].tolist() for row in moved if row.any()
                ]  # changed queries move no later token
                if not order or all(len(one) == heads for one in order):
                    continue
                checked = True
                if not in_order(order, heads):
                    groups = "; ".join(", ".join(map(str, one)) for one in order)
                    note = f"in layer {place.layer} the query heads of each key head are {groups}"
                    return Outcome(False, note, 1.0, 0.0, None, place.layer, order[0][0], place.part)
    return Outcome(True) if checked else Outcome(None, "no projection of key heads was found")


def in_order(order: list[list[int]], heads: int) -> bool:
    """Return whether consecutive heads read each part, in the order of the parts, which may run through twice.

    A head that attends elsewhere may read its part without being moved by it.
    """
    group = max(map(len, order))
    blocks = [{head // group for head in one} for one in order]
    if heads % group or any(len(one) > 1 for one in blocks):
        return False
    first = [min(one) for one in blocks]
    falls = [at for at in range(1, len(first)) if first[at] < first[at - 1]]
    return len(falls) <= 1 and all(first[at] <= min(first) for at in (0, *falls))


# --- all laws on all backends --------------------------------------------------------------------------------------

LAWS: dict[str, Callable[[ModelSubject], Outcome]] = {
    "look-ahead": look_ahead,
    "padding on the right": lambda subject: padding(subject, [subject.length - PADS], ["right"]),
    "padding on the left": lambda subject: padding(subject, [subject.length - PADS], ["left"]),
    "padded batches": lambda subject: padding(subject, [subject.length, subject.length - 4, 2], ["right", "left"]),
    "window": window,
    "key heads": key_heads,
    "cached steps": cached_steps,
    "packed documents": packed,
    "packed documents, a mask of ones": partial(packed, with_ones=True),
    "packed documents, a cache kept": partial(packed, keep_cache=True),
}
AGREE = "backends agree"
BACKENDS = ("eager", "sdpa", "flex_attention", "flash_attention_2")


Situation = tuple[str, RecordedRun, Tensor | None]  # its name, and the tokens to compare


def runs_to_compare(subject: ModelSubject) -> list[Situation]:
    """Run a text alone and with [PAD] on each side."""
    with torch.no_grad():
        runs: list[Situation] = [("alone", subject.run(subject.texts()), None)]
        if subject.takes_padding and not subject.is_encoder_decoder:
            for side, length in (("right", 2), ("left", subject.length - PADS)):
                real = real_tokens([length], side, subject.length)
                runs.append((f"with [PAD] on the {side}", subject.run(subject.texts(), real), real))
    return runs


def examine(
    name: str,
    kind: str,
    make: Callable[[str], ModelSubject],
    backends: Iterable[str] = BACKENDS,
    laws: Sequence[str] = (*LAWS, AGREE),
    advance: Callable[[str], None] = lambda _: None,
) -> Behaviour:
    """Check the laws of a model. make: makes it with a backend, or raises an error where that is not available.

    Raises RequestError when no backend can be run.
    """
    outcomes: list[Outcome] = []
    missing: dict[str, str] = {}
    first: tuple[str, list[Situation]] | None = None
    for backend in backends:
        advance(backend)
        flex = backend.startswith("flex")  # compiled, it takes seconds for each length
        with torch.compiler.set_stance("force_eager") if flex else nullcontext(), one_thread():
            try:
                subject = make(backend)
                subject.has_gradients = not flex  # flex attention has none on a processor
                runs = runs_to_compare(subject)
            except Exception as error:  # noqa: BLE001  (the model's code may raise anything)
                missing[backend] = first_line(error)
                continue
            for law in laws:
                if law != AGREE:
                    try:
                        outcome = LAWS[law](subject)
                    except Exception as error:  # noqa: BLE001
                        outcome = Outcome(None, f"the model fails: {type(error).__name__}: {first_line(error)}")
                elif first is None:
                    outcome = Outcome(None, "the other backends are compared with this one")
                else:
                    dtypes = [these[0][1].stages[-1].vectors.dtype for these in (first[1], runs)]
                    coarser = partial(Tensor.to, dtype=min(dtypes, key=lambda one: one.itemsize))
                    pairs = zip(first[1], runs, strict=True)
                    outcome = judge(
                        {s: compare(b.map(coarser), a.map(coarser), real) for (s, a, real), (_, b, _) in pairs}
                    )
                    if not outcome.holds:
                        outcome = outcome._replace(note=f"compared with {first[0]}, {outcome.note}")
                dtype = str(subject.dtype).removeprefix("torch.")
                outcomes.append(outcome._replace(law=law, backend=backend, dtype=dtype))
            first = first or (backend, runs)
    if not outcomes:
        raise RequestError(f"{name} can't be run: {next(iter(missing.values()), 'there is no backend')}")
    return Behaviour(name, kind, tuple(outcomes), missing)
