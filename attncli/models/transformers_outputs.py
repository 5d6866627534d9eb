"""Predictions of transformers networks: the next token, classes, token labels, words at [MASK], spans.

The head is transformers' own. Its network is called as usual, with precomputed last vectors in place of its layers, so
that transformers' code computes the logits from them.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from typing import Any

import torch
from torch import Tensor, nn

from attncli.base.choices import OutputName
from attncli.models.checkpoint_files import CONFIG_FILE, MODULES_FILE
from attncli.models.config import read_config
from attncli.models.output import SIGMOID, SOFTMAX, AvailableOutputs, Output
from attncli.models.outputs import FUNCTIONS, labels_of, sentence_embedding
from attncli.text.tokens import Tokens

# Endings of the class names of networks with a head, and the kind of its output.
_KINDS: dict[str, OutputName] = {
    "LMHeadModel": "next",
    "ForCausalLM": "next",
    "ForConditionalGeneration": "next",
    "ForMaskedLM": "words",
    "ForSequenceClassification": "classes",
    "ForTokenClassification": "tokens",
    "ForQuestionAnswering": "span",
}


class _StackOutput:
    """The output of a stack of layers: last vectors and the pooler's output. All other attributes are None."""

    def __init__(self, vectors: Tensor, pooled: Tensor | None) -> None:
        self.last_hidden_state = vectors
        self.pooler_output = pooled

    def __getattr__(self, name: str) -> None:
        return None

    def __getitem__(self, places: int | slice) -> Any:
        return (self.last_hidden_state, self.pooler_output)[places]


@contextmanager
def _in_place_of_layers(stack: nn.Module, vectors: Tensor) -> Iterator[None]:
    """Let a stack of layers return these vectors, `[text, token, hidden_size]`, inside the block."""
    pooler: Any = getattr(stack, "pooler", None)
    stack.forward = lambda *_, **__: _StackOutput(vectors, None if pooler is None else pooler(vectors))  # type: ignore[method-assign]
    try:
        yield
    finally:
        del stack.forward


class _TheirOutput(Output):
    """A head of transformers. stack: the layers below it."""

    def __init__(self, model: Any, stack: nn.Module, kind: OutputName) -> None:
        labels: list[str] | None = None  # those of the vocabulary
        function: str | None = SOFTMAX
        if kind == "span":
            labels = ["start", "end"]
        elif kind in ("tokens", "classes"):
            data: dict[str, Any] = read_config(model.place.path / CONFIG_FILE)
            labels = labels_of(data)
            if kind == "classes" and (stated := data.get("problem_type")):
                function = FUNCTIONS.get(stated, SOFTMAX)
            elif len(labels) == 1:
                function = SIGMOID if kind == "tokens" else None
        names = (lambda: self.vocabulary) if labels is None else (lambda: labels)
        super().__init__(kind, (), function, names, lambda: model.network)
        self.model = model
        self.stack = stack

    @property
    def of_text(self) -> bool:
        return self.kind == "classes"

    @cached_property
    def vocabulary(self) -> list[str]:
        """Return the tokens by id; "" for an id without a token."""
        names = {number: token for token, number in self.model.tokenizer.backend.get_vocab().items()}
        size = self.model.network.get_output_embeddings().weight.shape[0]
        return [names.get(number, "") for number in range(size)]

    def __call__(
        self, hidden: Sequence[Tensor], tokens: Sequence[Tokens], rows: Sequence[Sequence[int]] | None = None
    ) -> list[Tensor]:
        if rows is not None and self.of_text:
            raise ValueError("classes are about a text, so rows can't select tokens")
        made = []
        for number, (vectors, of_text) in enumerate(zip(hidden, tokens, strict=True)):
            logits = self.logits_of(
                vectors if rows is None or self.kind == "span" else vectors[list(rows[number])], of_text
            )
            made.append(logits if rows is None or self.kind != "span" else logits[list(rows[number])])
        return made

    def logits_of(self, vectors: Tensor, tokens: Tokens) -> Tensor:
        """Return the logits of one text. vectors: after the last layer, for the selected tokens."""
        ids, real = torch.tensor([tokens.output_tokens.ids]), ~torch.tensor([tokens.output_tokens.padding])
        inputs = {"input_ids": ids.to(vectors.device), "attention_mask": real.long().to(vectors.device)}
        if not self.of_text:  # other kinds do not depend on positions, so only the selected vectors are passed
            inputs = {"input_ids": inputs["input_ids"][:, :1].expand(1, len(vectors))}
        with self.model.running(), _in_place_of_layers(self.stack, vectors[None]):
            if self.model.paired:
                inputs = {"decoder_input_ids": inputs["input_ids"]}
                made = self.network(**inputs, encoder_outputs=(vectors[None],))
            else:
                made = self.network(**inputs)
        if self.kind == "span":
            return torch.stack([made.start_logits[0], made.end_logits[0]], dim=-1)
        return made.logits[0]

    def places(self, tokens: Tokens) -> list[int]:
        """Return the tokens that the output depends on. For classes, gradients show what transformers' code reads."""
        count = len(tokens.output_tokens)
        if not self.of_text:
            return list(range(count))
        with torch.inference_mode(False), torch.enable_grad():
            size = self.model.info.hidden_size
            draw = torch.Generator().manual_seed(0)
            vectors = torch.randn(count, size, generator=draw).to(self.model.device, self.model.dtype).requires_grad_()
            [slope] = torch.autograd.grad(self.logits_of(vectors, tokens).sum(), vectors)
        return [place for place, row in enumerate(slope.abs().sum(dim=-1).tolist()) if row > 0]


def find_outputs(model: Any, stack: nn.Module) -> AvailableOutputs:
    """Find the output of transformers' head, and a sentence embedding if the checkpoint's files define one.

    model: a `TransformersModel`. stack: the layers below its head.
    """
    found = AvailableOutputs({}, {})
    name = type(model.network).__name__
    kind = next((kind for ending, kind in _KINDS.items() if name.endswith(ending)), None)
    if model.paired:
        kind = "next"
    if kind is not None:
        found.outputs[kind] = _TheirOutput(model, stack, kind)
    if (model.place.path / MODULES_FILE).is_file():
        found.outputs["embedding"] = sentence_embedding(model)
    return found
