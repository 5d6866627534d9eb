"""Outputs: what a checkpoint predicts of a text (classes, labels of tokens, spans, words) and its sentence embedding.

config.json names the labels, the family says what a head is made of, modules.json how sentence-transformers makes an
embedding. Outputs are found by a checkpoint's tensors and files, never guessed from a name.
"""

import reprlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from attncli.base.arguments import each_text
from attncli.base.errors import RequestError
from attncli.base.printable import first_line, quoted
from attncli.base.schema import LONGEST_NAME, Check, anything, each, fields, flag, maybe, text
from attncli.base.untrusted import read_json
from attncli.models.config import ModelConfig
from attncli.models.families.family import Dense, Head, Norm, whole
from attncli.models.hub import (
    CONFIG_FILE,
    LONGEST_SETTINGS,
    MODULES_FILE,
    PROMPTS_FILE,
    SENTENCE_FILES,
    check_directory,
)
from attncli.models.network import NO_ACTIVATION, Linear
from attncli.models.output import CLS, MEAN, POOLINGS, SIGMOID, SOFTMAX, Numbers, Output, Prediction
from attncli.models.rows import batches
from attncli.models.walk import Walker
from attncli.models.weights import Checkpoint, open_checkpoint
from attncli.record.parts import Answer, Said
from attncli.text.tokenizer import Tokenizer
from attncli.text.tokens import Fed, Notation, Read, Tokens, text_between

MOST_LABELS = 10**6
FUNCTIONS = {"regression": None, "single_label_classification": SOFTMAX, "multi_label_classification": SIGMOID}


def labels_of(data: Mapping[str, Any]) -> list[str]:
    """`id2label`; without it LABEL_0, LABEL_1, ..., as many as `num_labels` says, else 2, as transformers takes them.

    Raises RequestError where labels have no names, or not each of them.
    """
    named = data.get("id2label")
    if named is None:
        count = data.get("num_labels", 2)
        if type(count) is not int or not 1 <= count <= MOST_LABELS:
            raise RequestError(f"num_labels is {reprlib.repr(count)}, not a whole number from 1 to {MOST_LABELS:,}")
        return [f"LABEL_{number}" for number in range(count)]
    numbers = [str(number) for number in range(len(named))] if isinstance(named, dict) else []
    if not numbers or set(named) != set(numbers):
        raise RequestError("id2label has not a name for each of the labels 0, 1, 2, ...")
    for number in numbers:
        try:
            text(LONGEST_NAME)(named[number], f"label {number}")
        except ValueError as error:
            raise RequestError(f"id2label: {error}") from error
    return [named[number] for number in numbers]


def function_of(data: Mapping[str, Any], head: Head, count: int) -> str | None:
    """What makes probabilities of so many logits. Raises RequestError for a `problem_type` that there is not.

    As in transformers, of one label a regression is made unless `problem_type` says otherwise, and of several one is
    right.
    """
    if head.kind != "classes":
        return SIGMOID if count == 1 else SOFTMAX
    stated = data.get("problem_type")
    if stated is None or head.labels is not None:
        return None if count == 1 else SOFTMAX
    if not isinstance(stated, str) or stated not in FUNCTIONS:
        raise RequestError(f"problem_type is {reprlib.repr(stated)}, not one of {', '.join(FUNCTIONS)}")
    return FUNCTIONS[stated]


TABLE = "embeddings.tokens"  # of the tokens' vectors, in our network


class HeadNetwork(nn.Module):
    """Vectors `[vector, hidden_size]` -> `[vector, label]`: the head's parts one after the other, and its scores."""

    def __init__(self, head: Head, config: ModelConfig, labels: int) -> None:
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

    def forward(self, vectors: Tensor) -> Tensor:
        scores: Tensor = self.scores(self.parts(vectors))
        return scores


def empty_head(head: Head, config: ModelConfig, labels: int) -> HeadNetwork:
    """One that takes no memory until its parameters are loaded."""
    with torch.device("meta"):
        network = HeadNetwork(head, config, labels)
    return network.requires_grad_(False)


def places_of(head: Head, config: ModelConfig, tied: bool) -> dict[str, tuple[str, ...]]:
    """Where each parameter of the head's network may lie: tensors of a checkpoint, of which the first that is there is
    taken. tied: whether the checkpoint lets the table of tokens stand for scores of the vocabulary.
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
    """Of each parameter the tensor that it is read from.

    Raises RequestError where one is missing, or has another shape than the network's.
    """
    sources = {}
    for parameter, names in places.items():
        there = [name for name in names if name in checkpoint.shapes]
        if not there:
            raise RequestError(f"{checkpoint.where} lacks {names[0]}")
        shape, wanted = checkpoint.shapes[there[0]], tuple(network.get_parameter(parameter).shape)
        if shape != wanted:
            what = f"{there[0]} has the shape {list(shape)}, and by config.json it is {list(wanted)}"
            raise RequestError(f"{checkpoint.where}: {what}")
        sources[parameter] = there[0]
    return sources


OWN = "sentence_transformers."  # its classes, in whatever module they lie
LARGEST = 10**6  # elements of a vector
MODULES = each(
    fields(
        {"path": text(LONGEST_NAME), "type": text(LONGEST_NAME)},
        {"idx": anything, "name": anything, "kwargs": anything},
    )
)


class Module(NamedTuple):
    """name: of its class; folder: where its files lie; settings: what its config.json says."""

    name: str
    folder: Path
    settings: Mapping[str, Any]

    def flag(self, key: str, default: bool = False) -> bool:
        """Raises RequestError when it is not true or false."""
        stated = self.settings.get(key, default)
        if not isinstance(stated, bool):
            raise self.refused(f"{key} is {reprlib.repr(stated)}, not true or false")
        return stated

    def size(self, *keys: str) -> int:
        """By the first of these names that is there. Raises RequestError when it can't be the size of a vector."""
        stated = next((self.settings[key] for key in keys if key in self.settings), None)
        if type(stated) is not int or not 1 <= stated <= LARGEST:
            raise self.refused(f"{keys[0]} is {reprlib.repr(stated)}, not a whole number from 1 to {LARGEST:,}")
        return stated

    def refused(self, why: str) -> RequestError:
        return RequestError(f"{self.folder}: {why}")


def modules_of(directory: Path) -> list[Module]:
    """Those that modules.json names, the encoder first.

    Raises RequestError where it is garbled, begins with something else, or a folder leads out of the model's.
    """
    path = directory / MODULES_FILE
    try:
        stated = read_json(path, LONGEST_SETTINGS)
        MODULES(stated, "it")
        made = [module(directory, one["type"], one["path"]) for one in stated]
    except (OSError, ValueError) as error:
        raise RequestError(f"{path} does not say how texts are embedded: {first_line(error)}") from error
    if not made or (made[0].name, made[0].folder) != ("Transformer", directory):
        raise RequestError(f"{path}: it does not begin with the encoder beside it")
    return made


def module(directory: Path, kind: str, path: str) -> Module:
    """Raises ValueError for a class or a folder that is not one of theirs; OSError and ValueError for its settings."""
    if not kind.startswith(OWN):
        raise ValueError(f"{reprlib.repr(kind)} is code of the model's own, which is not run")
    if path != Path(path).name or "\\" in path or path == "..":
        raise ValueError(f"{reprlib.repr(path)} is no folder in the model's own directory")
    folder = directory / path if path else directory
    settings: Any = {}
    if path and folder.is_dir():
        check_directory(folder)
    if path and (folder / CONFIG_FILE).is_file():
        settings = read_json(folder / CONFIG_FILE, LONGEST_SETTINGS)
        if not isinstance(settings, dict):
            raise ValueError(f"{folder / CONFIG_FILE} is not a JSON object")
    return Module(kind.rpartition(".")[2], folder, settings)


LEAST = 3  # tokens: [CLS], a word and [SEP]


class Manner(NamedTuple):
    """prompt: what is put before every text; lower: whether its capitals are lost; most: tokens that are read."""

    prompt: str
    lower: bool
    most: int

    def tokens(self, tokenizer: Tokenizer, written: str) -> Tokens:
        """Raises RequestError as `Tokenizer.encode` does."""
        own = Tokenizer(
            tokenizer.backend, self.most, tokenizer.vocab_size, tokenizer.pad_id, tokenizer.notation, tokenizer.name
        )
        written = self.prompt + written
        return own.encode(written.lower() if self.lower else written)


def manner_of(directory: Path, max_tokens: int) -> Manner:
    """By the files beside modules.json. Raises RequestError where one is garbled, or a prompt is not to be pooled."""
    name = next((one for one in SENTENCE_FILES if (directory / one).is_file()), SENTENCE_FILES[0])
    lower = setting(directory / name, "do_lower_case", maybe(flag())) or False
    lengths = [
        setting(directory / name, "max_seq_length", length),
        setting(directory / "tokenizer_config.json", "model_max_length", length),  # where version 6 writes it
    ]
    most = next((one for one in lengths if one is not None), max_tokens)
    prompt = default_prompt(directory)
    if prompt and not modules_of(directory)[1].flag("include_prompt", True):
        what = f"it leaves its prompt {reprlib.repr(prompt)} out of the pooling"
        raise RequestError(f"{directory}: {what}, which attncli does not do")
    return Manner(prompt, lower, int(min(most, max_tokens)))


def default_prompt(directory: Path) -> str:
    """What is put before a text of which nobody says what it is for."""
    name = setting(directory / PROMPTS_FILE, "default_prompt_name", maybe(text()))
    if name is None:
        return ""
    return setting(directory / PROMPTS_FILE, "prompts", prompt_named(name))[name] or ""


def prompt_named(name: str) -> Check:
    """Prompts by their names, and this one among them."""

    def check(value: Any, what: str) -> None:
        if type(value) is not dict or name not in value:
            raise ValueError(f"{what} have no {reprlib.repr(name)}")
        maybe(text())(value[name], what)

    return check


def length(value: Any, what: str) -> None:
    """Tokens: a number, which may be far too large, as transformers writes it where there is no limit."""
    if value is not None and (type(value) not in (int, float) or not value >= LEAST):
        raise ValueError(f"{what} is {reprlib.repr(value)}, and not a number of tokens from {LEAST}")


def setting(path: Path, key: str, check: Check) -> Any:
    """What a file says; None where it says nothing, or is not there. Raises RequestError where that can't be."""
    if not path.is_file():
        return None
    try:
        stated = read_json(path, LONGEST_SETTINGS, infinite=True)
        if not isinstance(stated, dict):
            raise ValueError("it is not a JSON object")
        check(stated.get(key), key)
        return stated.get(key)
    except (OSError, ValueError) as error:
        raise RequestError(f"{path}: {first_line(error)}") from error


# How config.json named poolings before version 6, in the order in which several are put after each other.
FLAGS = {
    "pooling_mode_cls_token": CLS,
    "pooling_mode_max_tokens": "max",
    "pooling_mode_mean_tokens": MEAN,
    "pooling_mode_mean_sqrt_len_tokens": "mean_sqrt_len_tokens",
    "pooling_mode_weightedmean_tokens": "weightedmean",
    "pooling_mode_lasttoken": "lasttoken",
}
# torch's classes, and what config.json of an encoder calls them.
ACTIVATIONS = {"Identity": NO_ACTIVATION, "Tanh": "tanh", "ReLU": "relu", "GELU": "gelu", "SiLU": "silu"}
VECTOR = "sentence_embedding"  # what modules after the pooling are given


class Normalize(nn.Module):
    """x / ‖x‖"""

    def forward(self, vectors: Tensor) -> Tensor:
        return F.normalize(vectors, dim=-1)


def sentence_embedding(model: Walker) -> Output:
    """Raises RequestError where the files are garbled, or name what attncli does not do."""
    _, *modules = modules_of(model.place.path)
    pooling = modules[0] if modules else None
    if pooling is None or pooling.name != "Pooling":
        raise RequestError(f"{model.place.path}: no Pooling follows the encoder in modules.json")
    size = model.info.hidden_size
    if pooling.size("embedding_dimension", "word_embedding_dimension") != size:
        raise pooling.refused(f"it pools vectors of another size than the encoder's {size}")
    poolings = poolings_of(pooling)
    size *= len(poolings)
    loaders: list[Callable[[], nn.Module]] = []
    for module in modules[1:]:
        if module.name in ("Dense", "Normalize"):
            check_given(module)
        if module.name == "Dense":
            made = empty_dense(module, size)
            loaders.append(partial(load_dense, model, module, made))
            size = made.out_features
        elif module.name == "Normalize":
            loaders.append(Normalize)
        elif module.name != "Dropout":  # which does nothing but in training
            raise module.refused(f"attncli does not know what {reprlib.repr(module.name)} does to an embedding")
    return Output("embedding", poolings, None, list, lambda: nn.Sequential(*(load() for load in loaders)))


def poolings_of(module: Module) -> list[str]:
    """Raises RequestError for one that there is not."""
    stated: Any = module.settings.get("pooling_mode")
    if stated is None:
        named = [name for flag, name in FLAGS.items() if module.flag(flag)] or [MEAN]
    else:
        named = [stated] if isinstance(stated, str) else stated
    if (
        not isinstance(named, list)
        or not named
        or not all(isinstance(name, str) and name in POOLINGS for name in named)
    ):
        raise module.refused(f"pooling_mode is {reprlib.repr(stated)}, not some of {', '.join(POOLINGS)}")
    return named


def check_given(module: Module) -> None:
    """Raises RequestError where a module is given something else than the embedding, or makes something else of it."""
    for key in ("module_input_name", "module_output_name"):
        if module.settings.get(key) not in (None, VECTOR):
            raise module.refused(f"{key} is {reprlib.repr(module.settings[key])}, and attncli has the {VECTOR} only")
    if module.flag("use_residual"):
        raise module.refused("use_residual is set, which attncli does not do")


def empty_dense(module: Module, size: int) -> Linear:
    """f(x W + b), without its parameters. Raises RequestError where it is for other vectors, or f is unknown here."""
    if (given := module.size("in_features")) != size:
        raise module.refused(f"in_features is {given}, and what comes before it makes {size}")
    named = module.settings.get("activation_function", "torch.nn.Tanh")
    package, _, name = named.rpartition(".") if isinstance(named, str) else ("", "", "")
    if not package.startswith("torch.nn") or name not in ACTIVATIONS:
        raise module.refused(f"activation_function is {reprlib.repr(named)}, not one of {', '.join(ACTIVATIONS)}")
    with torch.device("meta"):
        return Linear(size, module.size("out_features"), module.flag("bias", True), activation=ACTIVATIONS[name])


def load_dense(model: Walker, module: Module, made: Linear) -> Linear:
    """Raises RequestError where its tensors are missing, damaged, or of another shape."""
    checkpoint = open_checkpoint(module.folder)
    read = {}
    for name, parameter in made.named_parameters():
        there = checkpoint.shapes.get(f"linear.{name}")
        if there != tuple(parameter.shape):
            raise module.refused(f"linear.{name} is {there and list(there)}, and not {list(parameter.shape)}")
        read[name] = checkpoint.read(f"linear.{name}", whole(f"linear.{name}"), model.dtype).to(model.device)
    made.load_state_dict(read, assign=True)
    made.requires_grad_(False)
    return made


MASKS = ("[MASK]", "<mask>", "<|mask|>")  # as vocabularies call the token whose word is to be found
MOST = 20  # labels of a text
BEST = 3  # words for a [MASK], spans


def masked(tokens: Tokens) -> list[int]:
    """The places of [MASK]."""
    return [place for place, token in enumerate(tokens.text) if token in MASKS]


def last_real(tokens: Tokens) -> list[int]:
    """The place of the last token that is no [PAD]."""
    return [place for place, padding in enumerate(tokens.padding) if not padding][-1:]


def answers_of(made: Prediction, rows: Sequence[int], tokens: Tokens, notation: Notation) -> list[Answer]:
    """rows: the tokens whose values these are, where the output says something of each."""
    match made.kind:
        case "words" | "next":
            return words(made, rows, notation)
        case "tokens":
            return token_labels(made, tokens)
        case "span":
            return spans(made, tokens)
        case _:
            return classes(made)


def classes(made: Prediction) -> list[Answer]:
    """All labels of the text, the best first."""
    return [label_of(made, (number,)) for number in np.argsort(-made.values, kind="stable")[:MOST]]


def words(made: Prediction, rows: Sequence[int], notation: Notation) -> list[Answer]:
    """Return the best words for every [MASK], or for what comes next: there a space before it tells " a" from "a"."""
    found = []
    for row, place in enumerate(rows):
        for number in np.argsort(-made.values[row], kind="stable")[:BEST]:
            [word] = notation.read([made.labels[number]], [False])
            label = word if made.kind == "next" else word.strip() or word
            found.append(label_of(made, (row, number), label, place, place + 1))
    return found


def token_labels(made: Prediction, tokens: Tokens) -> list[Answer]:
    """Of every token of the text the best label."""
    places = [place for place, special in enumerate(tokens.special) if not special]
    return [label_of(made, (place, made.values[place].argmax()), None, place, place + 1) for place in places]


def spans(made: Prediction, tokens: Tokens) -> list[Answer]:
    """The best spans within the second text, or the only one. Their probability is that of a start times that of an
    end, each over the tokens of that text, as transformers' pipeline for answering questions has it.
    """
    last = max(tokens.segments)
    places = [at for at, segment in enumerate(tokens.segments) if segment == last and not tokens.special[at]]
    values = made.values[places].astype(np.float64)  # [token, start and end]
    likely = np.exp(values - values.max(axis=0))
    likely /= likely.sum(axis=0)
    pairs = np.triu(likely[:, :1] * likely[:, 1])  # [start, end]
    found = []
    for best in np.argsort(-pairs, axis=None, kind="stable")[: min(BEST, len(places))]:
        start, end = divmod(int(best), len(places))
        here = places[start], places[end] + 1
        logit = float(values[start, 0] + values[end, 1])
        found.append(Answer(text_between(tokens, *here), logit, float(pairs[start, end]), *here))
    return found


def label_of(
    made: Prediction,
    place: tuple[int, ...],
    label: str | None = None,
    start: int | None = None,
    end: int | None = None,
) -> Answer:
    """The answer at a place of the values, by default under the name of its label."""
    probability = None if made.probabilities is None else float(made.probabilities[place])
    return Answer(label or made.labels[place[-1]], float(made.values[place]), probability, start, end)


TASKS = ("heads", "classes", "tokens", "span")  # what config.json names, and not only the tensors


def output_of(model: Walker, name: str | None, texts: Sequence[Tokens] = ()) -> tuple[str, Output]:
    """The output of this name; without one, that of words where there is a [MASK], else what the model is for.

    Raises RequestError where the model has none, or not this one, with the reason where there is one.
    """
    outputs, refused = model.found
    if name is None:
        name = "words" if "words" in outputs and any(map(masked, texts)) else next(iter(outputs), None)
    if name in outputs:
        return name, outputs[name]
    if why := refused.get(name or "") or "; ".join(refused.values()):
        raise RequestError(why)
    there = f"it has {', '.join(outputs)}" if outputs else "its files say of no head and no pooling"
    raise RequestError(f"{model.place.name} has no output{'' if name is None else f' {quoted(name)}'}: {there}")


def predict(model: Walker, tokens: Tokens, name: str | None, mask: str | None) -> Prediction:
    """Raises RequestError as `output_of` does, for an unknown mask, and for logits that are no numbers."""
    name, output = output_of(model, name, [tokens])
    with torch.inference_mode():
        [values] = output(model.last_hidden([tokens], mask), [tokens])
        return prediction(model, name, output, values)


def prediction(model: Walker, name: str, output: Output, values: Tensor) -> Prediction:
    """Raises RequestError for values that are no numbers."""
    if not bool(values.isfinite().all()):
        raise RequestError(
            f"the output {name} of {model.place.name} is too large for {model.dtype_name}: "
            "another --dtype has more room, or the weights are damaged"
        )
    found = output.probabilities(values.float() if values.dtype.itemsize < 4 else values)
    return Prediction(name, output.kind, output.labels, as_array(values), None if found is None else as_array(found))


def notices(model: Walker) -> Iterator[str]:
    """Why there is no prediction of a task that config.json says the checkpoint is for."""
    for name in TASKS:
        if name in model.found.refused:
            yield f"no prediction: {model.found.refused[name]}"


def answering(model: Walker, tokens: Tokens) -> tuple[str, Output, list[int]] | None:
    """What a record holds the answers of: the output that is meant without a name, and the tokens that it is asked of.
    None where there is no such output, or it has no answer: an embedding, words where there is no [MASK], or what comes
    next in an encoder-decoder, whose decoder has written it.
    """
    if not model.found.outputs or isinstance(tokens, Read | Fed):
        return None
    name, output = output_of(model, None, [tokens])
    match output.kind:
        case "words":
            rows = masked(tokens)
        case "next":
            rows = last_real(tokens) if model.part == "decoder" else []
        case _:
            rows = list(range(len(tokens)))
    return None if output.kind == "embedding" or not rows else (name, output, rows)


def said(model: Walker, texts: Sequence[Tokens], hidden: Sequence[Tensor]) -> list[Said | None]:
    """These answers of every text, read off the last hidden states. Raises RequestError as `predict` does."""
    return [said_of(model, *one) for one in zip(texts, hidden, strict=True)]


def said_of(model: Walker, tokens: Tokens, hidden: Tensor) -> Said | None:
    """These answers. Raises RequestError as `predict` does."""
    found = answering(model, tokens)
    if found is None:
        return None
    name, output, rows = found
    [values] = output([hidden], [tokens], None if output.of_text else [rows])
    answers = answers_of(prediction(model, name, output, values), rows, tokens, model.tokenizer.notation)
    return Said(name, output.kind, output.function == SOFTMAX, answers)


def embed(model: Walker, written: Sequence[str], mask: str | None = None) -> Numbers:
    """The embeddings of texts, `[text, size]`. Raises RequestError as `predict` does."""
    name, output = output_of(model, "embedding")
    manner = manner_of(model.place.path, model.tokenizer.max_tokens)
    texts = [manner.tokens(model.tokenizer, one) for one in each_text("texts", written)]
    made: dict[int, Any] = {}
    with torch.inference_mode():
        for numbers in batches(texts, model.batch_tokens):
            batch = [texts[number] for number in numbers]
            for number, values in zip(numbers, output(model.last_hidden(batch, mask), batch), strict=True):
                made[number] = prediction(model, name, output, values).values
    stacked: Numbers = np.stack([made[number] for number in range(len(texts))] or [np.empty(0, np.float32)])
    return stacked[: len(texts)]


def as_array(tensor: Tensor) -> Numbers:
    wide = tensor if tensor.dtype == torch.float64 else tensor.float()
    array: Numbers = wide.detach().cpu().numpy()
    return array
