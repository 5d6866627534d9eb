"""Load the same checkpoint in transformers for comparison. This module handles imports of transformers."""

import re
import reprlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import deepcopy
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from attncli.attention import MASKS, self_mask
from attncli.base.errors import RequestError, install_hint, quiet_panics
from attncli.base.printable import first_line, shorten
from attncli.models.checkpoint_files import CONFIG_FILE, weight_files
from attncli.models.config import ModelConfig, native, read_config
from attncli.models.weights import BUFFERS, SafetensorsFile
from attncli.text.tokens import Tokens

# Packages that transformers needs for sentencepiece models.
_SENTENCEPIECE_READERS = ("sentencepiece", "google.protobuf")
# Networks that compute some parts in float32 for any dtype: angles, their sines, a scale, norms, softmax.
PARTLY_SINGLE = (
    "modernbert", "deberta", "deberta-v2", "roformer", "eurobert", "nomic_bert", "gte", "jina_embeddings_v3",
    "llama", "mistral", "qwen2", "smollm3", "qwen3", "olmo2", "phi3", "gemma", "gemma2", "gemma3_text", "gpt_neox",
)  # fmt: skip
HIDDEN_FROM_PADDING = ("deberta", "deberta-v2")  # networks that hide everything from [PAD]


def tensor_shapes(config: dict[str, Any]) -> dict[str, torch.Size]:
    """Return the names and shapes of an architecture's parameters in transformers, without taking memory."""
    from transformers import AutoModel

    with torch.device("meta"):
        network = AutoModel.from_config(reference_config(config))
    return {name: tensor.shape for name, tensor in network.named_parameters() if tensor.requires_grad}


def peer(config: dict[str, Any], tensors: Mapping[str, Tensor], attention: str) -> Any:
    """Return transformers' own encoder, sharing these tensors. `attention` is "eager" or "sdpa"."""
    from transformers import AutoModel

    with quiet():
        with torch.device("meta"):
            kind = type(AutoModel.from_config(reference_config(config)))
        return kind.from_pretrained(
            None,
            config=reference_config(config),
            state_dict=dict(tensors),
            attn_implementation=attention,
            dtype=torch.float32,
        )


MOST_LAYERS = 1000  # or experts, of a checkpoint with fewer tensors
MOST_LABELS = 1_000_000
_COUNTED = re.compile(r".*(layers?|experts|labels)")


def check_counts(directory: Path, data: Mapping[str, Any]) -> None:
    """Raises RequestError for a config.json with more layers, experts or labels than the checkpoint's files can have.

    transformers would create all of them, for minutes, before it looks for their tensors. Also raises it for entries
    that transformers reads without a check of their type.
    """
    paths = weight_files(directory)
    are_named = all(path.suffix == ".safetensors" for path in paths)  # unlike in pickles, by a header
    tensors = len({name for path in paths for name in SafetensorsFile(path).shapes()}) if are_named else 0
    most, parts, where = max(MOST_LAYERS, tensors), [data], directory / CONFIG_FILE
    holds = f" in files of {tensors:,} tensors" if tensors else ""
    for part in parts:
        for key, value in part.items():
            counted = _COUNTED.fullmatch(key)
            limit = MOST_LABELS if counted and counted[1] == "labels" else most
            if counted and type(value) in (int, float) and value > limit:
                raise RequestError(f"{where}: {key} is {shorten(repr(value), 40)}, more than {limit:,}{holds}")
            if key.endswith("_config") and not isinstance(value, dict | None):
                raise RequestError(f"{where}: {key} is {reprlib.repr(value)}, not an object")
            if isinstance(value, dict):
                parts.append(value)
    if not isinstance(data.get("architectures"), list | None):
        raise RequestError(f"{where}: architectures is {reprlib.repr(data['architectures'])}, not a list")


def reference_config(config: dict[str, Any]) -> Any:
    from transformers import AutoConfig

    return AutoConfig.for_model(**deepcopy(native(config)))  # a copy, since it changes its argument


class Reference:
    """transformers' network with eager attention, run on exactly the tokens that attncli runs on.

    whole: the network with its head, if it has one; network: without.
    """

    def __init__(self, network: Any, device: torch.device, dtype: torch.dtype) -> None:
        self.whole = network.to(device=device).eval()
        self.network = self.whole.base_model
        for one in self.whole.parameters():  # not the buffers of angles, which from_pretrained leaves in float32
            one.data = one.data.to(dtype)
        self.device = device
        self.dtype = dtype

    @cached_property
    def in_float32(self) -> "Reference":
        """Return a copy that computes in float32 with the same rounded weights."""
        return Reference(deepcopy(self.whole), self.device, torch.float32)

    def run(self, tokens: Tokens, mask: str) -> tuple[list[Tensor], list[Tensor]]:
        """Return, for one text, every layer's weights `[head, query, key]`, and the vectors `[token, hidden_size]`.

        The vectors are those after the embeddings and after every layer.
        """
        with torch.inference_mode():
            made = self.made_of(tokens, mask)
        return [weights[0] for weights in made.attentions], [state[0] for state in made.hidden_states]

    def made_of(self, tokens: Tokens, mask: str, head: bool = False) -> Any:
        """Run the network on one text, with its head if requested.

        Return transformers' output, with all weights and vectors.
        """
        network = self.whole if head else self.network
        ids = torch.tensor([tokens.ids], device=self.device)
        others: dict[str, Any] = {"attention_mask": self.attention_mask(tokens, mask)}
        if self.uses_segments:
            others["token_type_ids"] = torch.tensor([tokens.segments], device=self.device)
        if tokens.first:
            others["position_ids"] = positions_after_padding([tokens]).to(self.device)
        with self.mask_applied(others):
            return network(ids, output_attentions=True, output_hidden_states=True, **others)

    @contextmanager
    def watched(self, modules: Iterable[str]) -> Iterator[dict[str, list[Tensor]]]:
        """Record the outputs of modules, by name, for a text that runs inside the block: `[token, size]` per call.

        Modules may be called several times if layers share them.
        """
        made: dict[str, list[Tensor]] = {}

        def watch(name: str) -> Any:
            def keep(module: Any, inputs: Any, output: Tensor) -> None:
                made.setdefault(name, []).append(output[0])

            return self.network.get_submodule(name).register_forward_hook(keep)

        hooks = [watch(name) for name in modules]
        try:
            yield made
        finally:
            for hook in hooks:
                hook.remove()

    @cached_property
    def uses_segments(self) -> bool:
        """Return True if the network uses segments. RoBERTa was trained without them, and DistilBERT has none."""
        return self.config.returns_segments and self.config.segments > 1

    @cached_property
    def config(self) -> ModelConfig:
        """Return the configuration as attncli reads it."""
        return ModelConfig.from_dict(self.network.config.to_dict())

    @property
    def exact(self) -> bool:
        """Return True if all of the network computes in the requested dtype."""
        return self.network.config.model_type not in PARTLY_SINGLE

    @property
    def has_padding_rows(self) -> bool:
        """Return True if the rows of [PAD] queries follow the formula."""
        windows = any(reach is not None for reach in self.config.reach)  # may contain nothing but [PAD]
        if self.config.causal:  # [PAD] before the text sees nothing
            return False
        return self.network.config.model_type not in HIDDEN_FROM_PADDING and not windows

    def attention_mask(self, tokens: Tokens, mask: str) -> Tensor:
        """Return a mask for transformers: 1 for a visible token, `[1, key]`. Decoders hide the future themselves.

        If transformers can't build the mask from that, return numbers to add to the scores, `[1, 1, query, key]`.
        Layers apply their windows themselves.
        """
        real = torch.tensor([[not padding for padding in tokens.padding]], device=self.device)
        seen = self_mask(real, *MASKS[mask])
        if self.config.causal and mask == "causal":
            return real.long()
        if seen.shape[2] == 1 and not self.config.causal:
            return seen[:, 0, 0].long()
        seen = seen.expand(1, 1, len(tokens), len(tokens))
        return torch.zeros_like(seen, dtype=self.dtype).masked_fill(~seen, torch.finfo(self.dtype).min)

    @contextmanager
    def mask_applied(self, others: dict[str, Any]) -> Iterator[None]:
        """Prepare `attention_mask` among these arguments for the network if it depends on the query.

        ModernBERT and decoders would use it as the mask of every layer and lose their windows. So the windows are
        combined with it. DeBERTa builds a square mask from one number per key, so its function for that is
        replaced.
        """
        added = others["attention_mask"]
        if added.dim() == 2:
            yield
        elif self.network.config.model_type == "modernbert" or self.config.causal:
            near = torch.minimum(added, _their_window(self.network.config, added))
            if getattr(self.network.config, "layer_types", None) is not None:
                others["attention_mask"] = {"full_attention": added, "sliding_attention": near}
            elif getattr(self.network.config, "sliding_window", None) is not None:  # of every layer
                others["attention_mask"] = near
            yield
        elif self.network.config.model_type in ("deberta", "deberta-v2"):
            seen, encoder = added == 0, self.network.encoder
            others["attention_mask"] = seen.any(dim=2)[:, 0].long()
            encoder.get_attention_mask = lambda _: seen
            try:
                yield
            finally:
                del encoder.get_attention_mask
        else:
            yield


def positions_after_padding(texts: Sequence[Tokens]) -> Tensor:
    """Return the positions `[text, token]` of texts of one length with [PAD] before them, as transformers' `generate`
    counts them: 0 at the first real token.
    """
    return torch.tensor(np.array([tokens.positions for tokens in texts]))


def _their_window(config: Any, like: Tensor) -> Tensor:
    """Return transformers' additive mask of a layer with a window, in the shape of `like`, for texts without [PAD].

    The window of a decoder is as wide to both sides as to the past.
    """
    from transformers.masking_utils import create_bidirectional_sliding_window_mask, create_sliding_window_causal_mask

    if not hasattr(config, "local_attention"):
        if getattr(config, "sliding_window", None) is None:
            return torch.zeros_like(like)
        tokens = like.new_zeros(1, like.shape[-1], 1)
        past = create_sliding_window_causal_mask(config, tokens, tokens.new_ones(tokens.shape[:2]), None)
        hidden = torch.ones_like(like, dtype=torch.bool).tril() & (past != 0)
        return torch.zeros_like(like).masked_fill(hidden | hidden.mT, torch.finfo(like.dtype).min)
    tokens = like.new_zeros(1, like.shape[-1], 1)
    window = create_bidirectional_sliding_window_mask(config, tokens, tokens.new_ones(tokens.shape[:2]))
    return torch.zeros_like(like) if window is None else window


def peer_tokenizer(directory: Path) -> Any:
    """Load a checkpoint's tokenizer with transformers. Raises RequestError if it can't."""
    from transformers import AutoTokenizer

    try:
        with quiet(), refusals(f"transformers can't load the tokenizer in {directory}"), quiet_panics():
            return AutoTokenizer.from_pretrained(str(directory), trust_remote_code=False, local_files_only=True)
    except RequestError as error:
        model = next(directory.glob("*.model"), None)
        if model is None or all(map(is_installed, _SENTENCEPIECE_READERS)) or (directory / "tokenizer.json").is_file():
            raise
        hint = install_hint("sentencepiece")
        raise RequestError(f"{model} is a sentencepiece model, which requires {hint}") from error


def is_installed(package: str) -> bool:
    try:
        return find_spec(package) is not None
    except ModuleNotFoundError:  # its parent package is missing too
        return False


def load_reference(directory: Path, device: torch.device, dtype: torch.dtype) -> Reference:
    """Load the checkpoint in a directory with transformers.

    A decoder keeps the head that predicts the next token, if the checkpoint has one. Raises RequestError if
    transformers can't load it, or does not find all of the network in it.
    """
    from transformers import AutoModel, AutoModelForCausalLM

    data = read_config(directory / CONFIG_FILE)
    check_counts(directory, data)
    with quiet(), refusals(f"transformers can't load {directory}"):
        network, found = (AutoModelForCausalLM if ModelConfig.from_dict(data).causal else AutoModel).from_pretrained(
            str(directory),
            config=reference_config(data),
            dtype=dtype,
            attn_implementation="eager",
            trust_remote_code=False,
            local_files_only=True,
            output_loading_info=True,
        )
    # Missing parameters would be random. The pooler is not part of the encoder, and often not published.
    names, base = set(found["missing_keys"]), network.base_model
    if base is not network:
        prefix = f"{network.base_model_prefix}."
        if any(not name.startswith(prefix) for name in names):  # the head's own
            network = base
        names = {name.removeprefix(prefix) for name in names if name.startswith(prefix)}
    missing = sorted(name for name in names if not name.startswith("pooler.") and not name.endswith(BUFFERS))
    if missing:
        raise RequestError(
            f"transformers does not find {missing[0]} in {directory}, so there is nothing to compare with: "
            "use --against torch"
        )
    return Reference(network, device, dtype)


@contextmanager
def quiet() -> Iterator[None]:
    """Hide transformers' warnings and progress bars inside the block."""
    from transformers.utils import logging

    level, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(level)
        if bars:
            logging.enable_progress_bar()


@contextmanager
def refusals(what: str) -> Iterator[None]:
    """Convert any exception of transformers inside the block to a RequestError of one line."""
    try:
        yield
    except (MemoryError, RequestError):
        raise
    except Exception as error:
        raise RequestError(f"{what}: {type(error).__name__}: {first_line(error)}") from error
