"""Run a model, record the vectors of every head, and change some of its vectors on the way."""

import inspect
import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
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
CROSS = re.compile(r"cross|encoder_attn|encdec|decoder\.block\.\d+\.layer\.1", re.IGNORECASE)

VectorChange = Callable[[Tensor], Tensor]


class Stage(NamedTuple):
    """The vectors `[text, token, head, size]` of one attention before its output projection; layer None: the output.

    part: encoder, decoder or cross, in a model that has several.
    """

    layer: int | None
    vectors: Tensor
    part: str = ""


class RecordedRun(NamedTuple):
    """One pass: its stages in the order of the pass, of which the last is the model's output; and its cache."""

    stages: list[Stage]
    cache: Any = None

    def map(self, change: VectorChange) -> "RecordedRun":
        """Return the run with changed vectors."""
        return RecordedRun([stage._replace(vectors=change(stage.vectors)) for stage in self.stages])

    def decoder(self) -> "RecordedRun":
        """Leave out the stages of an encoder."""
        return self._replace(stages=[stage for stage in self.stages if stage.part != "encoder"])


class Edit(NamedTuple):
    """A change of the outputs of some projections of one attention.

    stage: its number in a pass. change: a function from the vectors to the changed ones.
    """

    stage: int
    projections: list[nn.Module]
    change: VectorChange


class AttentionCall(NamedTuple):
    """One call of an attention module in a pass.

    output: its output projection, whose input is recorded; None: the module's own output is recorded.
    inputs: its other projections, with the sizes of their outputs.
    """

    module: nn.Module
    output: nn.Module | None
    inputs: list[tuple[nn.Module, int]]
    layer: int = 0
    part: str = ""


class ModelSubject:
    """A model to check.

    function: runs it on texts and a padding mask (True is a real token, or None). vocab_size: of a model that reads
    ids; width: of one that reads vectors. causal: it must not look ahead. config: a configuration of transformers.
    """

    takes_padding = False  # the model can be given a padding mask
    takes_positions = False  # the model can be given positions
    takes_cache = False
    is_encoder_decoder = False
    has_gradients = True
    config: Any = None
    pad_id = 0

    def __init__(
        self,
        model: Any,
        function: Callable[[Tensor, Tensor | None], Any],
        causal: bool,
        vocab_size: int | None = None,
        width: int | None = None,
        dtype: torch.dtype = torch.float32,
    ) -> None:
        self.model, self.function, self.causal = model, function, causal
        self.vocab_size, self.width, self.dtype = vocab_size, width, dtype
        self.length = LENGTH
        self.places: list[AttentionCall] = []
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

    def call(self, texts: Tensor, real: Tensor | None, **options: Any) -> tuple[Tensor, Any]:
        """Run the model itself. Returns its output `[text, token, size]` and its cache."""
        output = self.function(texts, real)
        output = output[0] if isinstance(output, tuple) else getattr(output, "last_hidden_state", output)
        if not isinstance(output, Tensor) or output.dim() != 3 or output.shape[:2] != texts.shape[:2]:
            raise RequestError("The model must return a tensor [text, token, size]. Give call= a function that does.")
        return output, None

    def run(
        self,
        texts: Tensor,
        real: Tensor | None = None,
        changed: Tensor | None = None,
        edit: Edit | None = None,
        edit_embedding: VectorChange | None = None,
        **options: Any,
    ) -> RecordedRun:
        """Run the model. changed: the tokens, bool `[text, token]`, whose embeddings or ids are changed.

        edit_embedding: a function from the vectors of the texts to the changed ones.
        """
        stages: list[Stage] = []
        torch.manual_seed(SEED)  # a model that draws random numbers draws the same ones in every run
        if changed is not None and self.embedding is None and self.vocab_size is not None:
            texts = self.change_ids(texts, changed)
        elif changed is not None:
            edit_embedding = lambda vectors: add_noise(vectors, changed[..., None])  # noqa: E731
        with ExitStack() as stack:
            if edit_embedding is not None and self.embedding is None:
                texts = edit_embedding(texts)
            elif edit_embedding is not None:
                embed = lambda _, inputs, made: edit_embedding(made) if reads_ids(inputs, texts) else None  # noqa: E731
                stack.enter_context(hook(self.embedding, embed))
            stack.enter_context(self.recording(len(texts), stages, edit))
            output, cache = self.call(texts, real, **options)
        return RecordedRun([*stages, Stage(None, output.unsqueeze(2))], cache)

    def run_padded(self, texts: Tensor, real: Tensor | None, changed: Tensor | None = None) -> RecordedRun:
        """Run the model on texts with [PAD]."""
        return self.run(texts, real, changed)

    def change_ids(self, texts: Tensor, changed: Tensor) -> Tensor:
        """Replace the ids of the changed tokens."""
        assert self.vocab_size is not None
        return torch.where(changed, (texts + 1) % self.vocab_size, texts)

    # --- attention modules ---------------------------------------------------------------------------------------

    def find_places(self) -> None:
        """Find attention modules, their projections and the embedding of the tokens, by one pass."""
        if not isinstance(self.model, nn.Module):
            return

        texts, calls = self.texts(), list[tuple[nn.Module, Any]]()

        def record(module: nn.Module, inputs: Any, output: Any) -> None:
            if self.embedding is None and isinstance(module, nn.Embedding) and reads_ids(inputs, texts):
                self.embedding = module
            calls.append((module, output))

        named = {name: one for name, one in self.model.named_modules() if ATTENTION.search(type(one).__name__)}
        if len(named) > 2:
            named.pop("", None)  # the whole model
        outermost = {  # the attention modules that lie in no other attention module, with their names
            module: name
            for name, module in named.items()
            if not any(name != other and (not other or name.startswith(f"{other}.")) for other in named)
        }
        with ExitStack() as stack:
            for module in set(self.model.modules()):
                stack.enter_context(hook(module, record))
            self.call(texts, None)
        linear: list[tuple[nn.Module, int]] = []  # those called since the last attention
        names = []
        for module, output in calls:
            if isinstance(module, nn.Linear) or type(module).__name__ == "Conv1D":
                linear.append((module, output.shape[-1]))
            if module in outermost:
                parts = set(module.modules())
                own = [one for one in linear if one[0] in parts]
                last = own[-1][0] if own and own[-1][0] is not own[0][0] else None
                names.append(outermost[module])
                part = ""
                if self.is_encoder_decoder:
                    part = "decoder" if "decoder" in names[-1].split(".") else "encoder"
                    part = "cross" if CROSS.search(names[-1]) else part
                self.places.append(AttentionCall(module, last, [one for one in own if one[0] is not last], part=part))
                linear = []
        for part in {place.part for place in self.places}:
            same = [number for number, place in enumerate(self.places) if place.part == part]
            for number, layer in zip(same, numbers_of([names[one] for one in same]), strict=True):
                self.places[number] = self.places[number]._replace(layer=layer)

    @contextmanager
    def recording(self, count: int, stages: list[Stage], edit: Edit | None) -> Iterator[None]:
        """Record the vectors of every attention in a pass over `count` texts, and make the edit."""

        def record(vectors: Any) -> None:
            place = self.places[len(stages)]
            vectors = vectors[0] if isinstance(vectors, tuple) else vectors
            if vectors.dim() == 2:
                vectors = vectors.unflatten(0, (count, -1))
            elif vectors.shape[0] != count and vectors.shape[1] == count:
                vectors = vectors.transpose(0, 1)
            heads = 1 if place.output is None else head_count(place.module, vectors.shape[-1], self.config)
            stages.append(Stage(place.layer, vectors.flatten(2).unflatten(-1, (heads, -1)), place.part))

        def change(module: nn.Module, inputs: Any, output: Any) -> Any:
            return edit.change(output) if edit is not None and len(stages) == edit.stage else None

        with ExitStack() as stack:
            for module in {place.module for place in self.places if place.output is None}:
                stack.enter_context(hook(module, lambda _, inputs, output: record(output)))
            for output in {place.output for place in self.places if place.output is not None}:
                before = output.register_forward_pre_hook(lambda _, inputs: record(inputs[0]))
                stack.callback(before.remove)
            for projection in edit.projections if edit is not None else ():
                stack.enter_context(hook(projection, change))
            yield


class TransformersSubject(ModelSubject):
    """A model of transformers."""

    def __init__(self, model: Any, causal: bool, dtype: torch.dtype) -> None:
        config = model.config.get_text_config(decoder=True) if causal else model.config
        super().__init__(model, model, causal, vocab_size=config.vocab_size, dtype=dtype)
        self.config = config
        pad_id = getattr(config, "pad_token_id", None)
        self.pad_id = pad_id if isinstance(pad_id, int) and pad_id >= 0 else 0
        self.parameters = inspect.signature(model.forward).parameters
        self.is_encoder_decoder = (
            bool(getattr(model.config, "is_encoder_decoder", False)) and "decoder_input_ids" in self.parameters
        )
        self.takes_padding = "attention_mask" in self.parameters
        self.cache_name = next((name for name in CACHES if name in self.parameters), None)
        self.takes_cache = causal and self.cache_name is not None
        longest = getattr(config, "max_position_embeddings", None)
        self.length = min(LENGTH, longest) if isinstance(longest, int) and longest > 0 else LENGTH
        with torch.no_grad():
            self.find_places()
            if "position_ids" in self.parameters and not self.is_encoder_decoder:
                # It counts 0, 1, 2, ... when it is given none.
                texts = self.texts()
                counted, default = self.run(texts, positions=torch.arange(texts.shape[1])[None]), self.run(texts)
                last, usual = counted.stages[-1].vectors, default.stages[-1].vectors
                self.takes_positions = torch.allclose(last, usual, rtol=1e-4, atol=1e-4)

    def call(
        self,
        texts: Tensor,
        real: Tensor | None,
        positions: Tensor | None = None,
        cache: Any = None,
        keep_cache: bool = False,
        source: Tensor | None = None,
        **options: Any,
    ) -> tuple[Tensor, Any]:
        """Run the model. source: the encoder's text `[text, token]`; `real` is then its padding mask.

        positions: by default those that `generate` gives with a padding mask, in which [PAD] does not count.
        """
        given: dict[str, Any] = {"input_ids": texts}
        if self.is_encoder_decoder:
            source = self.texts(1, self.length - 2).flip(1) if source is None else source
            given = {"input_ids": source.expand(len(texts), -1), "decoder_input_ids": texts}
        elif real is not None and positions is None and self.takes_positions:
            positions = (real.long().cumsum(-1) - 1).clamp(min=0)[:, -texts.shape[1] :]
        if real is not None:
            given["attention_mask"] = real.long()
        if positions is not None:
            given["position_ids"] = positions
        if "use_cache" in self.parameters:
            given["use_cache"] = keep_cache
        if cache is not None and self.cache_name is not None:
            given[self.cache_name] = cache
        made = self.model(**given)
        output = vectors_of(made)
        if not isinstance(output, Tensor) or output.dim() != 3:
            raise RequestError(f"{type(self.model).__name__} returns no vectors of tokens.")
        return output, next((made[name] for name in CACHES if name in made), None) if keep_cache else None

    def run_padded(self, texts: Tensor, real: Tensor | None, changed: Tensor | None = None) -> RecordedRun:
        """Run the model on texts with [PAD]. The texts of an encoder-decoder go to its encoder.

        Returns only the output of an encoder-decoder: the tokens of its encoder and its decoder are not the same.
        """
        if not self.is_encoder_decoder:
            return super().run_padded(texts, real, changed)
        source = texts if changed is None else self.change_ids(texts, changed)
        decoder_texts = self.texts(1, self.length - 2).expand(len(texts), -1)
        return RecordedRun(self.run(decoder_texts, real, source=source).stages[-1:])


def vectors_of(made: Any) -> Any:
    """Return the last vectors, or else the logits, of what a model of transformers returns; None if it has neither."""
    return next((made[name] for name in ("last_hidden_state", "logits") if name in made), None)


@contextmanager
def hook(module: Any, after: Callable[..., Any]) -> Iterator[None]:
    """Call a function after a module."""
    handle = module.register_forward_hook(after)
    try:
        yield
    finally:
        handle.remove()


def reads_ids(inputs: tuple[Any, ...], texts: Tensor) -> bool:
    """Return whether a module's input is exactly these ids."""
    return bool(inputs) and isinstance(inputs[0], Tensor) and torch.equal(inputs[0], texts)


def add_noise(vectors: Tensor, changed: Tensor) -> Tensor:
    """Add random numbers to the changed vectors `[text, token, size]`. Each text gets the same ones."""
    return torch.where(changed, vectors + noise(vectors), vectors)


def noise(vectors: Tensor) -> Tensor:
    """Return the same random numbers for each text, as large as those of the vectors `[text, token, size]`."""
    generator = torch.Generator().manual_seed(SEED + 1)
    drawn = torch.randn(1, *vectors.shape[1:], generator=generator, dtype=torch.float64)
    return (drawn * vectors.detach().double().std().clamp(min=0.1)).to(vectors)


def head_count(module: nn.Module, width: int, config: Any) -> int:
    """Return the number of heads in a vector of this width; 1 if neither the module nor the configuration gives it."""
    inner = [module, *module.children()]
    for names, places, is_count in ((HEAD_SIZES, inner, False), (HEAD_COUNTS, [*inner, config], True)):
        for name in names:
            for place in places:
                number = getattr(place, name, None)
                if isinstance(number, int) and number > 0 and width % number == 0:
                    return number if is_count else width // number
    return 1
