"""Every head of every family gives transformers' logits, of texts and pairs, with [PAD] and without."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

import pytest
import torch
import transformers
from checkpoints import DECODERS, FAMILIES
from torch import Tensor
from transformers.models.auto import modeling_auto

from attncli.models.model import Model
from attncli.models.output import Output
from attncli.text.tokens import Tokens

# What transformers' classes for a task end in -> the output, and the field of what they give.
TASKS = {
    "ForSequenceClassification": [("classes", "logits")],
    "ForTokenClassification": [("tokens", "logits")],
    "ForQuestionAnswering": [("span", "start_logits")],
    "ForMaskedLM": [("words", "logits")],
    "ForCausalLM": [("next", "logits")],
    "LMHeadModel": [("next", "logits")],
    "ForNextSentencePrediction": [("next sentence", "logits")],
    "ForPreTraining": [("words", "prediction_logits"), ("next sentence", "seq_relationship_logits")],
}
TRAINED_FOR = {  # where that is not what BERT is trained for
    "electra": [("replaced", "logits")],
    "albert": [("words", "prediction_logits"), ("sentence order", "sop_logits")],
}
LABELLED = ("ForSequenceClassification", "ForTokenClassification")
TOLERANCE = {"float32": 3e-5, "float64": 1e-10}


class Case(NamedTuple):
    family: str
    task: str
    changes: Mapping[str, Any] = MappingProxyType({})


def kind_of(family: str, task: str) -> Any:
    """transformers' class for a task, None where it has none."""
    return getattr(transformers, modeling_auto.MODEL_MAPPING_NAMES[family].removesuffix("Model") + task, None)


def cases() -> list[Any]:
    """Every task of every family, and what configurations may ask for beside it."""
    every = [Case(family, task) for family in FAMILIES for task in TASKS if kind_of(family, task)]
    every = [one for one in every if one.task not in ("ForCausalLM", "LMHeadModel") or one.family in DECODERS]
    every += [
        Case("modernbert", "ForSequenceClassification", {"classifier_pooling": "mean"}),
        Case("modernbert", "ForMaskedLM", {"decoder_bias": False, "classifier_bias": True, "norm_bias": True}),
        Case("modernbert", "ForTokenClassification", {"classifier_activation": "relu"}),
        *(Case("eurobert", "ForSequenceClassification", {"classifier_pooling": one}) for one in ("mean", "bos")),
        Case("eurobert", "ForMaskedLM", {"mlp_bias": True}),
        Case("eurobert", "ForMaskedLM", {"tie_word_embeddings": True}),
        Case("deberta", "ForMaskedLM", {"legacy": False}),
        Case("deberta-v2", "ForMaskedLM", {"legacy": False}),
        Case("deberta-v2", "ForSequenceClassification", {"pooler_hidden_act": "tanh"}),
        Case("bert", "ForMaskedLM", {"hidden_act": "relu"}),
        Case("bert", "ForMaskedLM", {"tie_word_embeddings": False}),
        Case("electra", "ForMaskedLM", {"tie_word_embeddings": False}),
    ]
    quick = [Case("bert", "ForPreTraining"), Case("roberta", "ForSequenceClassification")]
    quick += [Case("modernbert", "ForSequenceClassification", {"classifier_pooling": "mean"})]
    return [pytest.param(one, marks=[] if one in quick else [pytest.mark.slow], id=name(one)) for one in every]


def name(case: Case) -> str:
    changes = [f"{key}={value}" for key, value in case.changes.items()]
    return "-".join([case.family, case.task.removeprefix("For"), *changes])


def texts(model: Model) -> list[Tokens]:
    encode = model.tokenizer.encode
    return [
        encode("the cat sat on"),
        encode("it is too big", "the unbelievable cat"),
        encode("the cat", "it sat on the cat", pad_to=24),
        encode("cat", pad_to=20),
    ]


def theirs(network: Any, model: Model, tokens: Tokens) -> Any:
    """Return the output of transformers for one text."""
    more = {}
    if model.config.returns_segments and model.config.segments > 1:
        more["token_type_ids"] = torch.tensor([tokens.segments])
    if tokens.first:
        more["position_ids"] = torch.tensor(tokens.positions)[None]
    real = torch.tensor([[int(not padding) for padding in tokens.padding]])
    return network(torch.tensor([tokens.ids]), attention_mask=real, **more)


def field(made: Any, output: Output, named: str) -> Tensor:
    """The logits of the text, shaped as ours."""
    if output.kind == "span":
        return torch.stack([made.start_logits[0], made.end_logits[0]], dim=-1)
    logits: Tensor = getattr(made, named)[0]
    return logits[:, None] if named == "logits" and output.labels == ["replaced"] else logits


@pytest.mark.parametrize("case", cases())
def test_logits_are_those_of_transformers(case, with_head, loaded, exact):
    changes = {**case.changes, **({"num_labels": 3} if case.task in LABELLED else {})}
    for dtype, tolerance in TOLERANCE.items():
        model = loaded(case.family, case.task, dtype, **changes)
        network = kind_of(case.family, case.task).from_pretrained(
            with_head(case.family, case.task, **changes), attn_implementation="eager", dtype=getattr(torch, dtype)
        )
        expected = TASKS[case.task]
        if case.task == "ForPreTraining":
            expected = TRAINED_FOR.get(case.family, expected)
        assert list(model.outputs()) == [output for output, _ in expected] and not model.available_outputs.refused
        given = texts(model)
        with torch.inference_mode():
            hidden = model.last_hidden(given)
            for named, its_name in expected:
                output = model.outputs()[named]
                for tokens, ours in zip(given, output(hidden, given), strict=True):
                    there = field(theirs(network.eval(), model, tokens), output, its_name)
                    if not output.pooling:  # what some families' [PAD] looks at itself is nobody's answer
                        real = [not padding for padding in tokens.padding]
                        ours, there = ours[real], there[real]
                    torch.testing.assert_close(ours, there, rtol=0, atol=tolerance * max(1.0, float(there.abs().max())))
