"""The benchmarks measure the same work on both sides, and the memory of a call alone."""

import sys

import numpy as np
import pytest
import torch
from bench.maps import (
    ALL_MAPS,
    EAGER,
    FIRST_HEAD,
    LAST_HEAD,
    NO_MAPS,
    SDPA,
    Contestants,
    Shape,
    print_shape,
    random_texts,
)
from checkpoints import make_config
from measuring import peak_added
from slow import slow_except

MIB = 2**20


@pytest.mark.parametrize("family", slow_except(["bert", "modernbert", "mpnet", "deberta-v2"], ["bert"]))
def test_all_programs_compute_the_same_thing(family, tmp_path, capsys):
    make_config(family, vocab_size=50, max_position_embeddings=36).save_pretrained(tmp_path)
    contestants = Contestants(str(tmp_path), "cpu")
    for shape in (Shape(5, 12), Shape(40, 30, shortest=3)):
        texts = random_texts(contestants.config, shape)
        made = {name: run() for name, run in contestants.runs(texts).items()}
        maps = [torch.stack([layer[place] for layer in batch.attentions])
                for batch in made[EAGER] for place in range(len(batch.last_hidden_state))]  # fmt: skip
        states = [[text for batch in made[name] for text in batch.last_hidden_state] for name in contestants.peers]
        kept = [made[name] for name in (ALL_MAPS, FIRST_HEAD, LAST_HEAD)]
        for tokens, eager, *records, ours, others in zip(
            texts, maps, *kept, made[NO_MAPS], zip(*states, strict=True), strict=True
        ):
            own = eager[..., : len(tokens), : len(tokens)].numpy()
            for record, expected in zip(records, (own, own[:1, :1], own[-1:, :1]), strict=True):
                np.testing.assert_allclose(record.weights, expected, atol=1e-5)
            for other in others:
                torch.testing.assert_close(ours, other[: len(tokens)], atol=1e-4, rtol=0)
    assert (SDPA in made) == (family not in ("mpnet", "deberta-v2"))
    print_shape(contestants, Shape(1, 8))
    assert len(capsys.readouterr().out.splitlines()) == 6


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="measured on Linux only")
def test_the_peak_is_of_the_call_alone():
    held = np.ones(96 * MIB, dtype=np.uint8)  # in use before: not the call's
    earlier = np.ones(200 * MIB, dtype=np.uint8)
    del earlier  # a higher peak, but before the call

    def passing():
        np.ones(64 * MIB, dtype=np.uint8)  # freed before the call ends; the allocator may keep it
        return np.ones(16 * MIB, dtype=np.uint8)

    for _ in range(2):  # the second call has no freed memory to reuse
        assert 60 * MIB < peak_added(passing, torch.device("cpu")) < (64 + 16 + 12) * MIB
    assert held.all()
