"""Heads get the labels of what they were made to do, and no others; random networks get none."""

import json
import re

import numpy as np
import pytest
import torch
import transformers
from checkpoints import make_checkpoint, write_tokenizer

from attncli import load_model
from attncli.analysis.kinds import KINDS, kinds_of, labels_of
from attncli.corpus.reducer import corpus_statistics
from attncli.corpus.usual import lines
from attncli.features.kinds import measure_kinds
from attncli.features.kinds.measuring import Draws, shuffle_matrices
from attncli.features.kinds.silencing import feeding, outputs_for

POSITIONS = 64
SHARP, AGAIN = 1.5, 3.0  # a factor of queries and keys, and of what the induction head writes


def measured(model):
    return measure_kinds(model, corpus_statistics(model, lines()))


@pytest.fixture(scope="module")
def by_hand(tmp_path_factory):
    """A GPT-2 of two layers of two heads: 0.0 looks at the previous token, 0.1 at the first one, 1.0 at what followed
    the same token, and copies it; 1.1 looks at all tokens alike.

    A vector has the token, its position, the previous token, and one more dimension.
    """
    place = tmp_path_factory.mktemp("by-hand")
    write_tokenizer(place, "gpt2", 1)
    tokens = transformers.AutoTokenizer.from_pretrained(place).vocab_size + 8
    token, position, previous = range(tokens), range(tokens, tokens + POSITIONS), range(tokens + POSITIONS, 2 * tokens + POSITIONS)
    size = previous.stop + 1 + (previous.stop + 1) % 2
    wide = size // 2
    config = transformers.GPT2Config(
        vocab_size=tokens, n_positions=POSITIONS, n_embd=size, n_layer=2, n_head=2, n_inner=8, bos_token_id=0,
        eos_token_id=0,
    )  # fmt: skip
    network = transformers.GPT2LMHeadModel(config)
    with torch.no_grad():
        for name, parameter in network.named_parameters():
            parameter.fill_(1.0 if ".ln_" in name and name.endswith("weight") else 0.0)
        network.transformer.wte.weight[:, : len(token)] = torch.eye(tokens)
        network.transformer.wpe.weight[:, list(position)] = torch.eye(POSITIONS)
        first, second = network.transformer.h
        unit = size**-0.5  # of what a norm makes of a 1

        def part(layer, which, head):
            start = which * size + head * wide
            return layer.attn.c_attn.weight[:, start : start + wide], layer.attn.c_attn.bias[start : start + wide]

        def write_to(layer, head, places, scale):
            layer.attn.c_proj.weight[head * wide : head * wide + len(places), list(places)] = scale * torch.eye(len(places))

        sharp = SHARP * torch.eye(size)
        part(first, 0, 0)[0][list(position[1:]), : POSITIONS - 1] = sharp[: POSITIONS - 1, : POSITIONS - 1]
        part(first, 1, 0)[0][list(position), :POSITIONS] = sharp[:POSITIONS, :POSITIONS]
        part(first, 2, 0)[0][list(token), :tokens] = torch.eye(tokens) * unit
        write_to(first, 0, previous, 1.0)
        part(first, 0, 1)[1][0] = SHARP / unit
        part(first, 1, 1)[0][position[0], 0] = SHARP
        part(first, 2, 1)[1][0] = 1.0
        write_to(first, 1, [size - 1], 1.0)
        part(second, 0, 0)[0][list(token), :tokens] = sharp[:tokens, :tokens]
        part(second, 1, 0)[0][list(previous), :tokens] = sharp[:tokens, :tokens]
        part(second, 2, 0)[0][list(token), :tokens] = torch.eye(tokens) * unit
        write_to(second, 0, token, AGAIN)
        part(second, 2, 1)[1][1] = 1.0
        write_to(second, 1, [size - 1, size - 1], AGAIN)
    network.save_pretrained(place)
    return load_model(str(place), device="cpu")


def test_heads_made_by_hand_get_their_labels_and_no_others(by_hand):
    found = measured(by_hand)
    assert labels_of(found.kinds) == {
        (0, 0): ["previous", "feeds induction"], (0, 1): ["sink"], (1, 0): ["induction"],
    }  # fmt: skip
    assert found.matter["induction"].effect > max(found.matter["induction"].random) + 1
    reasons = {one.kind.name: one.why_not for one in found.kinds if one.why_not}
    assert set(reasons) == {"next", "separator", "retrieval"} and "positions" in reasons["retrieval"]
