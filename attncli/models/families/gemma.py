"""Gemma (Gemma Team 2024): Llama's parts with GeGLU and scaled embeddings, before Gemma 2's changes."""

from dataclasses import replace

from attncli.models.families import gemma2, llama

FAMILY = replace(
    gemma2.FAMILY,
    name="gemma",
    types={
        gemma2.FIRST_GEMMA: {
            **gemma2.DEFAULTS,
            "num_hidden_layers": 28,
            "num_attention_heads": 16,
            "num_key_value_heads": 16,
            "hidden_size": 3072,
            "intermediate_size": 24576,
        }
    },
    tensors=gemma2.tensors(both_norms=False),
    keys=llama.FAMILY.keys,
)
