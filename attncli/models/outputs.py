"""Outputs: a checkpoint's predictions (classes, token labels, spans, words) and its sentence embedding.

config.json names the labels, the family defines the layers of a head, and modules.json the computation of an
embedding in sentence-transformers. Outputs are found from a checkpoint's tensors and files, never guessed from a name.
"""

import reprlib
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from attncli.base.choices import each_text
from attncli.base.errors import RequestError
from attncli.base.printable import first_line, quoted
from attncli.base.schema import LONGEST_NAME, anything, fields, list_of, text
from attncli.base.untrusted import read_json
from attncli.models.answers import OutputValues, Prediction, answers_of
from attncli.models.checkpoint_files import (
    CONFIG_FILE,
    LONGEST_SETTINGS,
    MODULES_FILE,
    PROMPTS_FILE,
    SENTENCE_FILES,
    check_directory,
)
from attncli.models.config import TABLE, ModelConfig
from attncli.models.families.family import Dense, Norm, TaskHead, tensors_of
from attncli.models.network import NO_ACTIVATION, Linear
from attncli.models.output import CLS, MEAN, POOLINGS, SIGMOID, SOFTMAX, Output
from attncli.models.rows import batches
from attncli.models.walk import Walker
from attncli.models.weights import Checkpoint, open_checkpoint
from attncli.record.parts import PredictionSummary
from attncli.text.tokenizer import Tokenizer
from attncli.text.tokens import DecoderInput, EncoderInput, Tokens, mask_positions

_MOST_LABELS = 10**6
FUNCTIONS = {"regression": None, "single_label_classification": SOFTMAX, "multi_label_classification": SIGMOID}


def labels_of(data: Mapping[str, Any]) -> list[str]:
    """Return `id2label`, or by default LABEL_0, LABEL_1, ... up to `num_labels` or 2, as transformers does.

    Raises RequestError if any label has no name.
    """
    named = data.get("id2label")
    if named is None:
        count = data.get("num_labels", 2)
        if type(count) is not int or not 1 <= count <= _MOST_LABELS:
            raise RequestError(f"num_labels is {reprlib.repr(count)}, not a whole number from 1 to {_MOST_LABELS:,}")
        return [f"LABEL_{number}" for number in range(count)]
    numbers = [str(number) for number in range(len(named))] if isinstance(named, dict) else []
    if not numbers or set(named) != set(numbers):
        raise RequestError("id2label does not name each of the labels 0, 1, 2, ...")
    for number in numbers:
        try:
            text(LONGEST_NAME)(named[number], f"label {number}")
        except ValueError as error:
            raise RequestError(f"id2label: {error}") from error
    return [named[number] for number in numbers]


def function_of(data: Mapping[str, Any], head: TaskHead, count: int) -> str | None:
    """Return the function from `count` logits to probabilities. Raises RequestError for an unknown `problem_type`.

    As in transformers, one label means a regression, and of several one is right, unless `problem_type` differs.
    """
    if head.kind != "classes":
        return SIGMOID if count == 1 else SOFTMAX
    stated = data.get("problem_type")
    if stated is None or head.labels is not None:
        return None if count == 1 else SOFTMAX
    if not isinstance(stated, str) or stated not in FUNCTIONS:
        raise RequestError(f"problem_type is {reprlib.repr(stated)}, not one of {', '.join(FUNCTIONS)}")
    return FUNCTIONS[stated]


class HeadNetwork(nn.Module):
    """Vectors `[vector, hidden_size]` -> `[vector, label]`: the head's layers in sequence, then its scores."""

    def __init__(self, head: TaskHead, config: ModelConfig, labels: int) -> None:
        super().__init__()
        size = config.hidden_size
        parts: list[nn.Module] = []
        for part in head.parts:
            if isinstance(part, Dense):
                wide = getattr(config, part.size)
                parts.append(Linear(size, wide, part.bias, activation=part.activation))
                size = wide
            else:
                parts.append(nn.LayerNorm(size, eps=config.layer_norm_eps, bias=part.bias))
        self.parts = nn.Sequential(*parts)
        self.scores = Linear(size, labels, bias=head.scores.biases != ())
        self.softcap = head.scores.softcap

    def forward(self, vectors: Tensor) -> Tensor:
        scores: Tensor = self.scores(self.parts(vectors))
        return scores if self.softcap is None else self.softcap * torch.tanh(scores / self.softcap)


def places_of(head: TaskHead, config: ModelConfig, tied: bool) -> dict[str, tuple[str, ...]]:
    """Return the possible tensors of each parameter of a head's network. The first existing one is read.

    tied: the scores of the vocabulary may use the token table.
    """
    places: dict[str, tuple[str, ...]] = {}
    for number, part in enumerate(head.parts):
        names = (part.name, part.published) if isinstance(part, Norm) and part.published else (part.name,)
        places[f"parts.{number}.weight"] = tuple(f"{name}.weight" for name in names)
        if part.bias:
            places[f"parts.{number}.bias"] = tuple(f"{name}.bias" for name in names)
    name, biases = head.scores.name, head.scores.biases
    table = [f"{one}.weight" for one in config.source(TABLE).names] if head.scores.tied and tied else []
    places["scores.weight"] = (f"{name}.weight", *table)
    if biases != ():
        places["scores.bias"] = (f"{name}.bias",) if biases is None else biases
    return places


def sources_of(network: HeadNetwork, places: dict[str, tuple[str, ...]], checkpoint: Checkpoint) -> dict[str, str]:
    """Return the tensor to read for each parameter. Raises RequestError if one is missing or has another shape."""
    sources = {}
    for parameter, names in places.items():
        existing = [name for name in names if name in checkpoint.shapes]
        if not existing:
            raise RequestError(f"{checkpoint.where} lacks {names[0]}")
        shape, wanted = checkpoint.shapes[existing[0]], tuple(network.get_parameter(parameter).shape)
        if shape != wanted:
            what = f"{existing[0]} has the shape {list(shape)}, but config.json requires {list(wanted)}"
            raise RequestError(f"{checkpoint.where}: {what}")
        sources[parameter] = existing[0]
    return sources


_OWN = "sentence_transformers."  # classes of sentence-transformers, in any of its modules
_LARGEST = 10**6  # elements of a vector
_MODULES = list_of(
    fields(
        {"path": text(LONGEST_NAME), "type": text(LONGEST_NAME)},
        {"idx": anything, "name": anything, "kwargs": anything},
    )
)


class Module(NamedTuple):
    """One step of an embedding. name: its class. folder: its files. settings: the content of its config.json."""

    name: str
    folder: Path
    settings: Mapping[str, Any]

    def flag(self, key: str, default: bool = False) -> bool:
        """Return a setting. Raises RequestError if it is not true or false."""
        stated = self.settings.get(key, default)
        if not isinstance(stated, bool):
            raise self.refused(f"{key} is {reprlib.repr(stated)}, not true or false")
        return stated

    def size(self, *keys: str) -> int:
        """Return the first existing of these settings. Raises RequestError if it can't be a vector size."""
        stated = next((self.settings[key] for key in keys if key in self.settings), None)
        if type(stated) is not int or not 1 <= stated <= _LARGEST:
            raise self.refused(f"{keys[0]} is {reprlib.repr(stated)}, not a whole number from 1 to {_LARGEST:,}")
        return stated

    def refused(self, why: str) -> RequestError:
        return RequestError(f"{self.folder}: {why}")


def modules_of(directory: Path) -> list[Module]:
    """Return the modules that modules.json names, the encoder first.

    Raises RequestError if it is garbled, does not begin with the encoder, or names a folder outside the model's.
    """
    path = directory / MODULES_FILE
    try:
        stated = read_json(path, LONGEST_SETTINGS)
        _MODULES(stated, "it")
        made = [module(directory, one["type"], one["path"]) for one in stated]
    except (OSError, ValueError) as error:
        raise RequestError(f"{path} does not define an embedding: {first_line(error)}") from error
    if not made or (made[0].name, made[0].folder) != ("Transformer", directory):
        raise RequestError(f"{path}: its first module is not the encoder in its directory")
    return made


def module(directory: Path, kind: str, path: str) -> Module:
    """Return a module of sentence-transformers, with its settings.

    Raises ValueError for another class, and a folder outside the model's; OSError and ValueError for its settings.
    """
    if not kind.startswith(_OWN):
        raise ValueError(f"{reprlib.repr(kind)} is the model's own code, which is not run")
    if path != Path(path).name or "\\" in path or path == "..":
        raise ValueError(f"{reprlib.repr(path)} is not a folder in the model's own directory")
    folder = directory / path if path else directory
    settings: Any = {}
    if path and folder.is_dir():
        check_directory(folder)
    if path and (folder / CONFIG_FILE).is_file():
        settings = read_json(folder / CONFIG_FILE, LONGEST_SETTINGS)
        if not isinstance(settings, dict):
            raise ValueError(f"{folder / CONFIG_FILE} is not a JSON object")
    return Module(kind.rpartition(".")[2], folder, settings)


_LEAST = 3  # tokens: [CLS], a word and [SEP]


class _EmbeddingSettings(NamedTuple):
    """The preparation of texts. prompt: prepended to each. lower: convert to lower case. most: tokens that are read."""

    prompt: str
    lower: bool
    most: int

    def tokens(self, tokenizer: Tokenizer, text: str) -> Tokens:
        """Tokenize a text. Raises RequestError as `Tokenizer.encode` does."""
        own = Tokenizer(
            tokenizer.backend, self.most, tokenizer.vocab_size, tokenizer.pad_id, tokenizer.notation, tokenizer.name
        )
        text = self.prompt + text
        return own.encode(text.lower() if self.lower else text)


def embedding_settings(directory: Path, max_tokens: int) -> _EmbeddingSettings:
    """Read the files beside modules.json. Raises RequestError if one is garbled, or excludes a prompt from pooling."""
    file = directory / next((one for one in SENTENCE_FILES if (directory / one).is_file()), SENTENCE_FILES[0])
    lower = _setting(file, "do_lower_case", "true or false", bool) or False
    most = _setting(file, "max_seq_length", "a number of tokens", int, float)
    if most is None:  # version 6 writes it there, as a huge number if there is no limit
        most = _setting(directory / "tokenizer_config.json", "model_max_length", "a number of tokens", int, float)
    if most is None:
        most = max_tokens
    if not most >= _LEAST:
        raise RequestError(f"{file}: it reads {most} tokens, which is not a number of tokens from {_LEAST}")
    file, prompt = directory / PROMPTS_FILE, None
    name = _setting(file, "default_prompt_name", "text", str)
    if name is not None:
        prompts = _setting(file, "prompts", "a table", dict) or {}
        prompt = prompts.get(name, 0)
        if not isinstance(prompt, str | None):
            raise RequestError(f"{file}: prompts have no {reprlib.repr(name)}")
    if prompt and not modules_of(directory)[1].flag("include_prompt", True):
        what = f"it excludes its prompt {reprlib.repr(prompt)} from the pooling"
        raise RequestError(f"{directory}: {what}, which attncli does not support")
    return _EmbeddingSettings(prompt or "", lower, int(min(most, max_tokens)))


def _setting(path: Path, key: str, what: str, *types: type) -> Any:
    """Return a setting from a file; None if it or the file is missing. Raises RequestError for another type."""
    if not path.is_file():
        return None
    try:
        stated = read_json(path, LONGEST_SETTINGS, infinite=True)
    except (OSError, ValueError) as error:
        raise RequestError(f"{path}: {first_line(error)}") from error
    if not isinstance(stated, dict):
        raise RequestError(f"{path}: it is not a JSON object")
    value = stated.get(key)
    if value is not None and type(value) not in types:
        raise RequestError(f"{path}: {key} is {reprlib.repr(value)}, not {what}")
    return value


# The names of poolings in config.json before version 6, in the order of their concatenation.
_FLAGS = {
    "pooling_mode_cls_token": CLS,
    "pooling_mode_max_tokens": "max",
    "pooling_mode_mean_tokens": MEAN,
    "pooling_mode_mean_sqrt_len_tokens": "mean_sqrt_len_tokens",
    "pooling_mode_weightedmean_tokens": "weightedmean",
    "pooling_mode_lasttoken": "lasttoken",
}
# torch's classes, and their names in an encoder's config.json.
_ACTIVATIONS = {"Identity": NO_ACTIVATION, "Tanh": "tanh", "ReLU": "relu", "GELU": "gelu", "SiLU": "silu"}
_VECTOR = "sentence_embedding"  # the input of modules after the pooling


class Normalize(nn.Module):
    """x / ‖x‖"""

    def forward(self, vectors: Tensor) -> Tensor:
        return F.normalize(vectors, dim=-1)


def sentence_embedding(model: Walker) -> Output:
    """Build the sentence embedding. Raises RequestError if its files are garbled or need something unsupported."""
    _, *modules = modules_of(model.place.path)
    pooling = modules[0] if modules else None
    if pooling is None or pooling.name != "Pooling":
        raise RequestError(f"{model.place.path}: no Pooling follows the encoder in modules.json")
    size = model.info.hidden_size
    if pooling.size("embedding_dimension", "word_embedding_dimension") != size:
        raise pooling.refused(f"it pools vectors whose size is not the encoder's {size}")
    stated: Any = pooling.settings.get("pooling_mode")
    if stated is None:
        poolings = [name for flag, name in _FLAGS.items() if pooling.flag(flag)] or [MEAN]
    else:
        poolings = [stated] if isinstance(stated, str) else stated
    known = isinstance(poolings, list) and all(isinstance(name, str) and name in POOLINGS for name in poolings)
    if not known or not poolings:
        raise pooling.refused(f"pooling_mode is {reprlib.repr(stated)}, not some of {', '.join(POOLINGS)}")
    size *= len(poolings)
    loaders: list[Callable[[], nn.Module]] = []
    for module in modules[1:]:
        if module.name == "Dropout":  # only active in training
            continue
        if module.name not in ("Dense", "Normalize"):
            raise module.refused(f"attncli does not support the module {reprlib.repr(module.name)}")
        for key in ("module_input_name", "module_output_name"):
            if (given := module.settings.get(key)) not in (None, _VECTOR):
                raise module.refused(f"{key} is {reprlib.repr(given)}, but attncli only supports {_VECTOR}")
        if module.flag("use_residual"):
            raise module.refused("use_residual is set, which attncli does not support")
        if module.name == "Normalize":
            loaders.append(Normalize)
        else:
            made = _empty_dense(module, size)
            loaders.append(partial(_load_dense, model, module, made))
            size = made.out_features
    return Output("embedding", poolings, None, list, lambda: nn.Sequential(*(load() for load in loaders)))


def _empty_dense(module: Module, size: int) -> Linear:
    """Build f(x W + b) without parameters. Raises RequestError for another input size or an unknown f."""
    if (given := module.size("in_features")) != size:
        raise module.refused(f"in_features is {given}, but its input has {size}")
    named = module.settings.get("activation_function", "torch.nn.Tanh")
    package, _, name = named.rpartition(".") if isinstance(named, str) else ("", "", "")
    if not package.startswith("torch.nn") or name not in _ACTIVATIONS:
        raise module.refused(f"activation_function is {reprlib.repr(named)}, not one of {', '.join(_ACTIVATIONS)}")
    with torch.device("meta"):
        return Linear(size, module.size("out_features"), module.flag("bias", True), activation=_ACTIVATIONS[name])


def _load_dense(model: Walker, module: Module, made: Linear) -> Linear:
    checkpoint = open_checkpoint(module.folder)
    read = {}
    for name, parameter in made.named_parameters():
        shape = checkpoint.shapes.get(f"linear.{name}")
        if shape != tuple(parameter.shape):
            raise module.refused(f"linear.{name} has the shape {shape and list(shape)}, not {list(parameter.shape)}")
        read[name] = checkpoint.read(f"linear.{name}", tensors_of(f"linear.{name}"), model.dtype).to(model.device)
    made.load_state_dict(read, assign=True)
    made.requires_grad_(False)
    return made


def output_of(model: Walker, name: str | None, texts: Sequence[Tokens] = ()) -> tuple[str, Output]:
    """Return the output of this name. The default is "words" if a text has [MASK], else the model's main output.

    Raises RequestError, with a reason if known, if the model has no such output.
    """
    outputs, refused = model.available_outputs
    if name is None:
        name = "words" if "words" in outputs and any(map(mask_positions, texts)) else next(iter(outputs), None)
    if name in outputs:
        return name, outputs[name]
    if why := refused.get(name or "") or "; ".join(refused.values()):
        raise RequestError(why)
    there = f"it has {', '.join(outputs)}" if outputs else "its files define no head and no pooling"
    raise RequestError(f"{model.place.name} has no output{'' if name is None else f' {quoted(name)}'}: {there}")


def predict(model: Walker, tokens: Tokens, name: str | None, mask: str | None) -> Prediction:
    """Return the prediction for a text. Raises RequestError as `output_of` does, and for unknown masks and NaN."""
    name, output = output_of(model, name, [tokens])
    with torch.inference_mode():
        [values] = output(model.last_hidden([tokens], mask), [tokens])
        return prediction(model, name, output, values)


def prediction(model: Walker, name: str, output: Output, values: Tensor) -> Prediction:
    """Build a Prediction from logits. Raises RequestError if they are not finite."""
    if not bool(values.isfinite().all()):
        raise RequestError(
            f"the output {name} of {model.place.name} is too large for {model.dtype_name}: "
            "use another --dtype, or check whether the weights are damaged"
        )
    found = output.probabilities(values.float() if values.dtype.itemsize < 4 else values)
    return Prediction(name, output.kind, output.labels, _as_array(values), None if found is None else _as_array(found))


def find_answering(model: Walker, tokens: Tokens) -> tuple[str, Output, list[int]] | None:
    """Return the output that a record's prediction comes from, and the tokens it is about.

    None if there is no such output or no answer: embeddings, words without [MASK], and the next token in an
    encoder-decoder, whose decoder has already written it.
    """
    if not model.available_outputs.outputs or isinstance(tokens, EncoderInput | DecoderInput):
        return None
    name, output = output_of(model, None, [tokens])
    match output.kind:
        case "words":
            rows = mask_positions(tokens)
        case "next":
            rows = tokens.real[-1:] if model.part == "decoder" else []
        case _:
            rows = list(range(len(tokens)))
    return None if output.kind == "embedding" or not rows else (name, output, rows)


def predict_texts(model: Walker, texts: Sequence[Tokens], hidden: Sequence[Tensor]) -> list[PredictionSummary | None]:
    """Return the predictions for records of texts from their last hidden states. Raises RequestError as `predict`."""
    made: list[PredictionSummary | None] = []
    for tokens, vectors in zip(texts, hidden, strict=True):
        found = find_answering(model, tokens)
        if found is None:
            made.append(None)
            continue
        name, output, rows = found
        [values] = output([vectors], [tokens], None if output.of_text else [rows])
        answers = answers_of(prediction(model, name, output, values), rows, tokens, model.tokenizer.notation)
        made.append(PredictionSummary(name, output.kind, output.function == SOFTMAX, answers))
    return made


def embed(model: Walker, texts: Sequence[str], mask: str | None = None) -> OutputValues:
    """Return the embeddings of texts, `[text, size]`. Raises RequestError as `predict` does."""
    name, output = output_of(model, "embedding")
    settings = embedding_settings(model.place.path, model.tokenizer.max_tokens)
    tokens = [settings.tokens(model.tokenizer, one) for one in each_text(texts)]
    made: dict[int, Any] = {}
    with torch.inference_mode():
        for numbers in batches(tokens, model.batch_tokens):
            batch = [tokens[number] for number in numbers]
            for number, values in zip(numbers, output(model.last_hidden(batch, mask), batch), strict=True):
                made[number] = prediction(model, name, output, values).values
    stacked: OutputValues = np.stack([made[number] for number in range(len(tokens))] or [np.empty(0, np.float32)])
    return stacked[: len(tokens)]


def _as_array(tensor: Tensor) -> OutputValues:
    wide = tensor if tensor.dtype == torch.float64 else tensor.float()
    return wide.detach().cpu().numpy()
