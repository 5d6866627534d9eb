"""Run a model, record what every head gives, and change some tokens on the way."""

import inspect
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from attncli.base.errors import RequestError
from attncli.models.transformers_place import numbers_of

SEED = 36
LENGTH = 13  # tokens of a text: more than three times the windows of the small models
HEAD_COUNTS = ("num_heads", "num_attention_heads", "n_heads", "n_head", "nhead", "heads", "h")
HEAD_SIZES = ("v_head_dim", "head_dim", "attention_head_size", "head_size", "d_kv", "key_value_proj_dim")
CACHES = ("cache", "past_key_values")  # names of the cache, the newer one first
ATTENTION = re.compile("attention|attn", re.IGNORECASE)


class Stage(NamedTuple):
    """The vectors `[text, token, head, size]` of one attention before its output projection; layer None: the output.

    part: encoder, decoder or cross, in a model that has several.
    """

    layer: int | None
    vectors: Tensor
    part: str = ""


class Run(NamedTuple):
    """One pass: its stages in the order of the pass, of which the last is the model's output; and its cache."""

    stages: list[Stage]
    cache: Any = None

    def tokens(self, where: slice) -> "Run":
        return Run([stage._replace(vectors=stage.vectors[:, where]) for stage in self.stages])

    def texts(self, where: slice) -> "Run":
        return Run([stage._replace(vectors=stage.vectors[where]) for stage in self.stages])


def join(runs: Sequence[Run]) -> Run:
    """Join the runs of consecutive pieces of a text."""
    every = zip(*(run.stages for run in runs), strict=True)
    return Run([same[0]._replace(vectors=torch.cat([one.vectors for one in same], dim=1)) for same in every])


class Inside(NamedTuple):
    """A change inside one pass: the stage it is made in, and a function from a module's vectors to the changed ones.

    leaf: the module whose output is changed; None for the input of the stage's attention.
    """

    stage: int
    change: Callable[[Tensor], Tensor]
    leaf: nn.Module | None = None


@dataclass
class Place:
    """An attention module: its output projection (None: its own output is recorded), and its other projections."""

    module: nn.Module
    projection: nn.Module | None
    leaves: list[nn.Module]
    layer: int = 0
    part: str = ""


class Subject:
    """A model that laws are put to.

    call: runs it on texts and a padding mask (True is a real token, or None). vocab_size: of a model that reads ids;
    width: of one that reads vectors. causal: it must not look ahead. config: a configuration of transformers.
    """

    takes_padding = True  # the model can be told which tokens are [PAD]
    takes_positions = False  # the model can be told positions
    takes_cache = False
    takes_cu_seqlens = False
    has_source = False  # a decoder that reads an encoder's text
    gradients = True
    config: Any = None
    pad_id = 0

    def __init__(
        self,
        model: Any,
        call: Callable[[Tensor, Tensor | None], Any],
        causal: bool,
        vocab_size: int | None = None,
        width: int | None = None,
        dtype: torch.dtype = torch.float32,
    ) -> None:
        self.model, self.simple_call, self.causal = model, call, causal
        self.vocab_size, self.width, self.dtype = vocab_size, width, dtype
        self.length = LENGTH
        self.places: list[Place] = []
        self.embedding: nn.Module | None = None

    def texts(self, count: int = 1, length: int | None = None) -> Tensor:
        """Return random texts, the same ones each time."""
        generator = torch.Generator().manual_seed(SEED)
        size = (count, length or self.length)
        if self.vocab_size is None:
            assert self.width is not None
            return torch.randn(*size, self.width, generator=generator, dtype=torch.float64).to(self.dtype)
        first = min(5, self.vocab_size // 2)  # the first ids are [PAD] and other special tokens
        return torch.randint(first, self.vocab_size, size, generator=generator)

    def call(self, texts: Tensor, real: Tensor | None, **more: Any) -> tuple[Tensor, Any]:
        """Run the model itself. Returns its output `[text, token, size]` and its cache."""
        output = self.simple_call(texts, real)
        output = output[0] if isinstance(output, tuple) else getattr(output, "last_hidden_state", output)
        if not isinstance(output, Tensor) or output.dim() != 3 or output.shape[:2] != texts.shape[:2]:
            raise RequestError("the model must return a tensor [text, token, size]: give call= a function that does")
        return output, None

    def run(
        self,
        texts: Tensor,
        real: Tensor | None = None,
        changed: Tensor | None = None,
        inside: Inside | None = None,
        **more: Any,
    ) -> Run:
        """Run the model. changed: the tokens, bool `[text, token]`, whose vectors are changed."""
        stages: list[Stage] = []
        torch.manual_seed(SEED)  # a model that draws random numbers draws the same ones in every run
        with ExitStack() as stack:
            if changed is not None and self.embedding is None:
                texts = self.other(texts, changed)
            elif changed is not None:
                stack.enter_context(hook(self.embedding, partial(self.embedded, texts, changed)))
            stack.enter_context(self.watching(texts, stages, inside))
            output, cache = self.call(texts, real, **more)
        return Run([*stages, Stage(None, output.unsqueeze(2))], cache)

    def other(self, texts: Tensor, changed: Tensor) -> Tensor:
        """Put other ids or vectors in the place of some."""
        if self.vocab_size is not None:
            return torch.where(changed, (texts + 1) % self.vocab_size, texts)
        return torch.where(changed[..., None], noise(texts) + texts, texts)

    def embedded(self, texts: Tensor, changed: Tensor, module: Any, inputs: Any, output: Tensor) -> Tensor | None:
        """Change the vectors of some tokens as they come out of the embedding."""
        if not reads_ids(inputs, texts):
            return None
        return torch.where(changed[..., None], output + noise(output), output)

    # --- attention modules ---------------------------------------------------------------------------------------

    def find_places(self) -> None:
        """Find attention modules, their projections and the embedding of the tokens, by one pass."""
        if not isinstance(self.model, nn.Module):
            return
        from transformers.pytorch_utils import Conv1D

        texts, calls = self.texts(), list[nn.Module]()
        modules = dict(self.model.named_modules())
        named = {name: module for name, module in modules.items() if ATTENTION.search(type(module).__name__)}
        if len(named) > 2 and "" in named:  # a whole model
            del named[""]
        outer = {
            id(module): name
            for name, module in named.items()
            if not any(name != other and (not other or name.startswith(f"{other}.")) for other in named)
        }
        leaves = {id(module) for module in modules.values() if not list(module.children())}

        def called(module: nn.Module, inputs: Any, output: Any) -> None:
            if self.embedding is None and isinstance(module, nn.Embedding) and reads_ids(inputs, texts):
                self.embedding = module
            calls.append(module)

        with ExitStack() as stack:
            for module in modules.values():
                stack.enter_context(hook(module, called))
            self.call(texts, None)
        begun: list[nn.Module] = []
        for module in calls:
            if id(module) in outer:
                inner = {id(one) for one in module.modules()}
                own = [one for one in begun if id(one) in inner and id(one) in leaves]
                linear = [one for one in own if isinstance(one, nn.Linear | Conv1D)]
                projection = linear[-1] if linear and linear[-1] is not linear[0] else None
                self.places.append(Place(module, projection, [one for one in own if one is not projection]))
                begun = []
            else:
                begun.append(module)
        names = [outer[id(place.module)] for place in self.places]
        parts = [part_of(name) if self.has_source else "" for name in names]
        for part in set(parts):
            same = [number for number, other in enumerate(parts) if other == part]
            for number, layer in zip(same, numbers_of([names[one] for one in same]), strict=True):
                self.places[number].layer, self.places[number].part = layer, part

    @contextmanager
    def watching(self, texts: Tensor, stages: list[Stage], inside: Inside | None) -> Iterator[None]:
        """Record what the heads of every attention give; make the change inside, if there is one."""
        seen: Counter[int] = Counter()

        def record(number_of: dict[int, list[int]], module: nn.Module, joined: Any) -> None:
            numbers = number_of[id(module)]
            number = numbers[seen[id(module)] % len(numbers)]
            seen[id(module)] += 1
            place = self.places[number]
            joined = joined[0] if isinstance(joined, tuple) else joined
            if joined.dim() == 2:
                joined = joined.unflatten(0, (texts.shape[0], -1))
            elif joined.shape[0] != texts.shape[0] and joined.shape[1] == texts.shape[0]:
                joined = joined.transpose(0, 1)
            heads = 1 if place.projection is None else head_count(place.module, joined.shape[-1], self.config)
            stages.append(Stage(place.layer, joined.flatten(2).unflatten(-1, (heads, -1)), place.part))

        numbers_of_module: dict[int, list[int]] = {}
        with ExitStack() as stack:
            for number, place in enumerate(self.places):
                watched = place.projection or place.module
                again = id(watched) in numbers_of_module
                numbers_of_module.setdefault(id(watched), []).append(number)
                if again:
                    continue
                if place.projection is not None:
                    before = lambda module, inputs: record(numbers_of_module, module, inputs[0])  # noqa: E731
                    stack.callback(watched.register_forward_pre_hook(before).remove)
                else:
                    stack.enter_context(hook(watched, lambda m, _, output: record(numbers_of_module, m, output)))
            if inside is not None:
                stack.enter_context(self.changing(inside, stages))
            yield

    @contextmanager
    def changing(self, inside: Inside, stages: list[Stage]) -> Iterator[None]:
        """Change the input of one attention, or the output of one of its projections."""

        def enter(module: Any, args: tuple[Any, ...], given: dict[str, Any]) -> Any:
            if len(stages) != inside.stage:
                return None
            if args and isinstance(args[0], Tensor):
                same = [inside.change(one) if one is args[0] else one for one in args]
                return tuple(same), given
            name = "hidden_states" if "hidden_states" in given else next(iter(given))
            return args, {**given, name: inside.change(given[name])}

        def leave(module: Any, inputs: Any, output: Any) -> Any:
            return inside.change(output) if len(stages) == inside.stage else None

        if inside.leaf is not None:
            with hook(inside.leaf, leave):
                yield
            return
        handle = self.places[inside.stage].module.register_forward_pre_hook(enter, with_kwargs=True)
        try:
            yield
        finally:
            handle.remove()


class TheirModel(Subject):
    """A model of transformers. source: an encoder's text `[1, token]`, for a decoder that reads one."""

    def __init__(self, model: Any, causal: bool, dtype: torch.dtype) -> None:
        config = model.config.get_text_config(decoder=True) if causal else model.config
        super().__init__(model, model, causal, vocab_size=config.vocab_size, dtype=dtype)
        self.config = config
        pad_id = getattr(config, "pad_token_id", None)
        self.pad_id = pad_id if isinstance(pad_id, int) and pad_id >= 0 else 0
        taken = inspect.signature(model.forward).parameters
        self.has_source = bool(getattr(model.config, "is_encoder_decoder", False)) and "decoder_input_ids" in taken
        self.takes_padding = "attention_mask" in taken
        self.cache_name = next((name for name in CACHES if name in taken), None)
        self.takes_cache = causal and self.cache_name is not None
        self.takes_cu_seqlens = "cu_seqlens" in taken
        self.takes_use_cache = "use_cache" in taken
        longest = getattr(config, "max_position_embeddings", None)
        self.length = min(LENGTH, longest) if isinstance(longest, int) and longest > 0 else LENGTH
        with torch.no_grad():
            self.find_places()
            if "position_ids" in taken and not self.has_source:
                self.takes_positions = self.counts_from_0()

    def counts_from_0(self) -> bool:
        """Try whether positions 0, 1, 2, ... are what the model takes where it is told none."""
        texts = self.texts()
        told, alone = self.run(texts, positions=torch.arange(texts.shape[1])[None]), self.run(texts)
        return bool(torch.allclose(told.stages[-1].vectors, alone.stages[-1].vectors, rtol=1e-4, atol=1e-4))

    def call(
        self,
        texts: Tensor,
        real: Tensor | None,
        positions: Tensor | None = None,
        cache: Any = None,
        keep: bool = False,
        source: tuple[Tensor, Tensor | None] | None = None,
        cu_seqlens: Tensor | None = None,
        **more: Any,
    ) -> tuple[Tensor, Any]:
        given: dict[str, Any] = {"decoder_input_ids" if self.has_source else "input_ids": texts}
        if self.has_source:
            read, shown = source if source is not None else (self.source(), None)
            given["input_ids"] = read.expand(len(texts), -1)
            if shown is not None:
                given["attention_mask"] = shown.long().expand(len(texts), -1)
        elif real is not None:
            given["attention_mask"] = real.long()
        if positions is not None:
            given["position_ids"] = positions
        if cu_seqlens is not None:
            given["cu_seqlens"] = cu_seqlens
        if self.takes_use_cache:
            given["use_cache"] = keep
        if cache is not None and self.cache_name is not None:
            given[self.cache_name] = cache
        made = self.model(**given)
        output = next((made[name] for name in ("last_hidden_state", "logits") if name in made), None)
        if not isinstance(output, Tensor) or output.dim() != 3:
            raise RequestError(f"{type(self.model).__name__} returns no vectors of tokens")
        return output, next((made[name] for name in CACHES if name in made), None) if keep else None

    def source(self) -> Tensor:
        return self.texts(1, self.length - 2).flip(1)


@contextmanager
def hook(module: Any, after: Callable[..., Any]) -> Iterator[None]:
    """Call a function after a module."""
    handle = module.register_forward_hook(after)
    try:
        yield
    finally:
        handle.remove()


def reads_ids(inputs: tuple[Any, ...], texts: Tensor) -> bool:
    """Say whether a module is given just these ids."""
    return bool(inputs) and isinstance(inputs[0], Tensor) and torch.equal(inputs[0], texts)


def noise(like: Tensor) -> Tensor:
    """Return the same random numbers for each text, as large as those of a tensor `[text, token, size]`."""
    generator = torch.Generator().manual_seed(SEED + 1)
    drawn = torch.randn(1, *like.shape[1:], generator=generator, dtype=torch.float64)
    return (drawn * like.detach().double().std().clamp(min=0.1)).to(like)


def part_of(name: str) -> str:
    """Tell from the name of an attention module which half of an encoder-decoder it is in, or that it joins both."""
    if re.search(r"cross|encoder_attn|encdec|layer\.1\.EncDec|decoder\.block\.\d+\.layer\.1", name, re.IGNORECASE):
        return "cross"
    return "decoder" if "decoder" in name.split(".") else "encoder"


def head_count(module: nn.Module, width: int, config: Any) -> int:
    """Return how many heads are joined in a vector of this width; 1 where nothing says it."""
    inner = [module, *module.children()]
    for name in HEAD_SIZES:
        for one in inner:
            size = getattr(one, name, None)
            if isinstance(size, int) and size > 0 and width % size == 0:
                return width // size
    for name in HEAD_COUNTS:
        for one in [*inner, config]:
            count = getattr(one, name, None)
            if isinstance(count, int) and count > 0 and width % count == 0:
                return count
    return 1
