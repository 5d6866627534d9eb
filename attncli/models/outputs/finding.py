"""Which outputs a checkpoint has, read from its tensors and what stands in its files, never guessed from a name."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from torch import nn

from attncli.base.errors import RequestError
from attncli.models.checkpoint_files import CONFIG_FILE, MODULES_FILE
from attncli.models.config import read_config, values_of
from attncli.models.encoder import Encoder
from attncli.models.families.family import whole
from attncli.models.families.heads import EACH, FIRST, LATE, Head
from attncli.models.families.heads import MEAN as MEAN_OF_ALL
from attncli.models.output import Found, Output
from attncli.models.outputs.head import TABLE, HeadNetwork, empty_head, places_of, sources_of
from attncli.models.outputs.labels import function_of, labels_of
from attncli.models.outputs.sentence import sentence_embedding
from attncli.models.pooling import CLS, MEAN

READS = {FIRST: (CLS,), MEAN_OF_ALL: (MEAN,), LATE: (MEAN,), EACH: ()}


def find_outputs(model: Encoder) -> Found:
    """The heads that config.json names, a sentence embedding, then the heads that its tensors alone tell of."""
    found = Found({}, {})
    if not (model.place.path / CONFIG_FILE).is_file():  # an architecture without files
        return found
    data = read_config(model.place.path / CONFIG_FILE)
    try:
        family, values = values_of(data)
        heads = family.heads(values)
    except RequestError as error:
        found.refused["heads"] = str(error)
        heads = {}
    for name, head in heads.items():
        if not head.alone and is_named(head, data):
            take(found, name, partial(head_output, model, head, data))
    if (model.place.path / MODULES_FILE).is_file():
        take(found, "embedding", partial(sentence_embedding, model))
    for name, head in heads.items():
        if head.alone and (is_named(head, data) or has_own_scores(head, model)):
            take(found, name, partial(head_output, model, head, data))
    return found


def take(found: Found, name: str, make: Callable[[], Output]) -> None:
    """Put an output where it belongs, or why there is none."""
    try:
        found.outputs[name] = make()
    except RequestError as error:
        found.refused[name] = str(error)


def is_named(head: Head, data: Mapping[str, Any]) -> bool:
    """Whether config.json says that the checkpoint is for this task."""
    classes = data.get("architectures")
    named = [one for one in classes if isinstance(one, str)] if isinstance(classes, list) else []
    return any(name.endswith(head.architecture) for name in named)


def has_own_scores(head: Head, model: Encoder) -> bool:
    """Whether there is a tensor that only such a head has."""
    own = (f"{head.scores.name}.weight", f"{head.scores.name}.bias", *(head.scores.biases or ()))
    tables = {f"{name}.weight" for name in model.config.source(TABLE).names}
    return any(name in model.checkpoint.shapes and name not in tables for name in own)


def head_output(model: Encoder, head: Head, data: Mapping[str, Any]) -> Output:
    """Raises RequestError where tensors are missing or of another shape, or config.json does not say what they mean."""
    config = model.config
    named = None if head.kind == "words" else list(head.labels or labels_of(data))
    count = config.vocab_size if named is None else len(named)
    network = empty_head(head, config, count)
    places = places_of(head, config, tied=data.get("tie_word_embeddings", True) is True)
    sources = sources_of(network, places, model.checkpoint)
    return Output(
        head.kind,
        READS[head.reads],
        function_of(data, head, count),
        partial(vocabulary, model) if named is None else lambda: named,
        partial(load_head, model, network, sources),
        late=head.reads == LATE,
    )


def load_head(model: Encoder, network: HeadNetwork, sources: Mapping[str, str]) -> nn.Module:
    """The head with its parameters; the table of tokens is the network's own."""
    tables = {f"{name}.weight" for name in model.config.source(TABLE).names}
    read = {}
    for parameter, name in sources.items():
        if name in tables:
            model.need(0)
            read[parameter] = model.network.embeddings.tokens.weight
        else:
            read[parameter] = model.checkpoint.read(name, whole(name), model.dtype).to(model.device)
    network.load_state_dict(read, assign=True)
    return network.requires_grad_(False)


def vocabulary(model: Encoder) -> list[str]:
    """The tokens by their numbers; "" for a number that no token has."""
    names = {number: token for token, number in model.tokenizer.backend.get_vocab().items()}
    return [names.get(number, "") for number in range(model.config.vocab_size)]
