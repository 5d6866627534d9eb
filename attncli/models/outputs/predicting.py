"""Texts put to an output: numbers without torch, and the answers among them."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from attncli.base.arguments import each_text
from attncli.base.errors import RequestError
from attncli.base.printable import quoted
from attncli.models.output import SOFTMAX, Numbers, Output, Prediction
from attncli.models.outputs.answers import answers_of, last_real, masked
from attncli.models.outputs.sentence_texts import manner_of
from attncli.models.rows import batches
from attncli.models.walker import Walker
from attncli.record.prediction import Said
from attncli.text.tokens import Fed, Read, Tokens

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
