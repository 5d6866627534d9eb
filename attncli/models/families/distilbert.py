"""DistilBERT (Sanh et al. 2019): BERT without segments, and with its own tensor names."""

from attncli.models.families.family import (
    Dense,
    Family,
    Heads,
    Norm,
    Values,
    classes,
    span,
    tensors_of,
    tied,
    tokens,
    words,
)


def heads(values: Values) -> Heads:
    return {
        "classes": classes(Dense("pre_classifier", "relu")),
        "tokens": tokens(),
        "span": span(),
        "words": words(
            Dense("vocab_transform", values.activation("hidden_act")),
            Norm("vocab_layer_norm"),
            scores=tied("vocab_projector"),
        ),
    }


FAMILY = Family(
    name="distilbert",
    types={"distilbert": {"num_hidden_layers": 6}},
    tensors={
        "embeddings.tokens": tensors_of("embeddings.word_embeddings"),
        "embeddings.positions.table": tensors_of("embeddings.position_embeddings"),
        "embeddings.norm": tensors_of("embeddings.LayerNorm"),
        "layers.{n}.attention.query": tensors_of("transformer.layer.{n}.attention.q_lin"),
        "layers.{n}.attention.key": tensors_of("transformer.layer.{n}.attention.k_lin"),
        "layers.{n}.attention.value": tensors_of("transformer.layer.{n}.attention.v_lin"),
        "layers.{n}.attention.output": tensors_of("transformer.layer.{n}.attention.out_lin"),
        "layers.{n}.attention_norm": tensors_of("transformer.layer.{n}.sa_layer_norm"),
        "layers.{n}.feed_forward.up": tensors_of("transformer.layer.{n}.ffn.lin1"),
        "layers.{n}.feed_forward.down": tensors_of("transformer.layer.{n}.ffn.lin2"),
        "layers.{n}.feed_forward_norm": tensors_of("transformer.layer.{n}.output_layer_norm"),
    },
    prefix="distilbert.",
    body=("embeddings.", "transformer."),
    keys={
        "num_hidden_layers": "n_layers",
        "num_attention_heads": "n_heads",
        "hidden_size": "dim",
        "intermediate_size": "hidden_dim",
        "hidden_act": "activation",
        "layer_norm_eps": None,
        "type_vocab_size": None,
    },
    settings=lambda values: {"segments": 0},
    heads=heads,
)
