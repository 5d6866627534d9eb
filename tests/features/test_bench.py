"""attncli bench: the same work on both sides, counted and timed; a table for people, a document for programs."""

import json
import shutil

import numpy as np
import pytest
import torch
from checkpoints import make_config
from slow import slow_except

from attncli.base.errors import RequestError
from attncli.features.bench import measuring
from attncli.features.bench.measuring import (
    ALL_MAPS,
    EAGER,
    FIRST_HEAD,
    KEPT,
    LAST_HEAD,
    NO_MAPS,
    SDPA,
    Contestants,
    Shape,
    measure,
    plan,
    random_texts,
)
from attncli.models.aliases import ALIASES
from attncli.models.config import ModelConfig

WITHOUT_SDPA = ("mpnet", "deberta-v2")


def directory_of(tmp_path, family="bert", **more):
    """A directory with the config.json of a small network, and nothing else."""
    make_config(family, **{"vocab_size": 50, "max_position_embeddings": 36, **more}).save_pretrained(tmp_path)
    return str(tmp_path)


@pytest.fixture(
    scope="module",
    params=slow_except(["bert", "roberta", "electra", "modernbert", "mpnet", "deberta-v2"], ["bert"]),
)
def contestants(request, tmp_path_factory):
    """One small architecture in all three programs."""
    path = tmp_path_factory.mktemp(request.param)
    directory = directory_of(path, request.param)
    return Contestants(directory, json.loads((path / "config.json").read_text()), "cpu")


# --- the same work --------------------------------------------------------------------------------------


def test_all_contestants_compute_the_same_thing(contestants, monkeypatch):
    monkeypatch.setattr("attncli.models.devices.BATCH_TOKENS", {"cpu": 24})  # five texts in three groups
    runs = contestants.runs(random_texts(contestants.config, Shape(5, 12, 1, 1)))
    results = {name: run() for name, run in runs.items()}
    [eager] = results[EAGER]
    theirs = torch.stack(eager.attentions, dim=1).numpy()  # [batch, layer, head, query, key]

    def weights(name):
        return np.stack([record.weights for record in results[name]])

    assert theirs.std() > 0.05
    np.testing.assert_allclose(weights(ALL_MAPS), theirs, atol=1e-5)
    np.testing.assert_allclose(weights(FIRST_HEAD), theirs[:, :1, :1], atol=1e-5)
    np.testing.assert_allclose(weights(LAST_HEAD), theirs[:, -1:, :1], atol=1e-5)
    ours = torch.stack(results[NO_MAPS])
    torch.testing.assert_close(ours, eager.last_hidden_state, atol=1e-4, rtol=0)
    assert (SDPA in results) == (contestants.config.model_type not in WITHOUT_SDPA)
    for sdpa in results.get(SDPA, []):
        torch.testing.assert_close(ours, sdpa.last_hidden_state, atol=1e-4, rtol=0)
        assert not sdpa.attentions


def test_of_mixed_lengths_all_contestants_compute_the_same_thing(contestants):
    """The peers in padded batches, in the order of the texts."""
    texts = random_texts(contestants.config, Shape(40, 30, 1, 1, shortest=3))
    assert len({len(tokens) for tokens in texts}) > 20
    assert [len(tokens) for tokens in texts] != sorted(len(tokens) for tokens in texts)
    runs = contestants.runs(texts)
    results = {name: run() for name, run in runs.items()}
    assert [len(one.last_hidden_state) for one in results[EAGER]] == [16, 16, 8]
    theirs = [
        torch.stack([layer[place] for layer in batch.attentions])
        for batch in results[EAGER]
        for place in range(len(batch.last_hidden_state))
    ]
    for tokens, record, eager in zip(texts, results[ALL_MAPS], theirs, strict=True):
        np.testing.assert_allclose(record.weights, eager[..., : len(tokens), : len(tokens)].numpy(), atol=1e-5)
    states = [[text for one in results[name] for text in one.last_hidden_state] for name in contestants.peers]
    for tokens, ours, *others in zip(texts, results[NO_MAPS], *states, strict=True):
        for other in others:
            torch.testing.assert_close(ours, other[: len(tokens)], atol=1e-4, rtol=0)


def test_the_weights_are_in_memory_once(contestants):
    own = {name: tensor.data_ptr() for name, tensor in contestants.peers[EAGER].state_dict().items()}
    for network in contestants.peers.values():
        assert {name: tensor.data_ptr() for name, tensor in network.state_dict().items()} == own


def test_texts_are_the_same_in_every_run_and_hold_no_padding(contestants):
    first, second = (random_texts(contestants.config, Shape(4, 30, 1, 1)) for _ in range(2))
    assert first == second
    ids = {number for tokens in first for number in tokens.ids}
    assert contestants.config.pad_id not in ids
    assert max(ids) < contestants.config.vocab_size


# --- the plan and the document --------------------------------------------------------------------------


@pytest.mark.slow
def test_the_document_has_a_row_for_each_shape_and_choice_of_maps(monkeypatch, tmp_path):
    monkeypatch.setattr(measuring, "SHAPES", (Shape(1, 8, 2, 1), Shape(3, 16, 3, 1, dtype="bfloat16")))
    cases, steps = plan(directory_of(tmp_path), quick=False), []
    document = measure(cases, "cpu", lambda: steps.append(None))
    assert len(steps) == sum(case.runs for case in cases)
    assert json.loads(json.dumps(document)) == document
    assert [(row["texts"], row["tokens"], row["dtype"], row["kept"], row["rounds"]) for row in document["rows"]] == [
        *((1, 8, "float32", kept, 2) for kept in KEPT),
        *((3, 16, "bfloat16", kept, 3) for kept in KEPT),
    ]
    for row in document["rows"]:
        seconds = row["seconds"]
        assert row["ratio"] == {name: seconds["attncli"] / seconds[name] for name in (EAGER, SDPA)}
        assert row["peak_bytes"].keys() == seconds.keys()


def test_quick_is_fewer_rounds_and_not_the_largest():
    left_out = {}
    for model in ("minilm", "bert-base"):
        full, quick = ({case.shape: case.rounds for case in plan(model, flag)} for flag in (False, True))
        assert list(full) == list(measuring.SHAPES)
        assert all(rounds < full[shape] for shape, rounds in quick.items())
        left_out[model] = {shape[:2] for shape in full.keys() - quick.keys()}
    assert left_out == {"minilm": set(), "bert-base": {(8, 512), (256, 62)}}


def test_no_text_is_longer_than_the_model_reads(tmp_path):
    assert {case.shape.tokens for case in plan(directory_of(tmp_path), False)} == {16}
    with pytest.raises(RequestError, match="too long"):
        plan(directory_of(tmp_path, max_position_embeddings=15), False)


def test_an_alias_needs_no_files_and_a_directory_no_weights(tmp_path, tiny):
    assert plan("electra-small", True)[0].config == ALIASES["electra-small"].config
    shutil.copy(tiny("bert") / "config.json", tmp_path)
    assert ModelConfig.from_dict(plan(str(tmp_path), True)[0].config).layers == 4


@pytest.mark.slow
def test_the_command(attncli, tiny, monkeypatch):
    monkeypatch.setattr(measuring, "SHAPES", (Shape(1, 8, 2, 1), Shape(2, 16, 2, 1)))
    asked = ("bench", "-m", tiny("bert"), "--device", "cpu")
    result = attncli(*asked, "--quick", "--json")
    assert (result.code, result.err) == (0, "")
    document = json.loads(result.out)
    assert (document["device"], document["weights"], document["dtype"]) == ("cpu", "random", "float32")
    assert [(row["kept"], row["rounds"]) for row in document["rows"]] == [(kept, 1) for kept in (*KEPT, *KEPT)]
    result = attncli(*asked)
    assert (result.code, result.err) == (0, "")
    names = [line[: len("   one, first layer")].strip() for line in result.out.splitlines()]
    assert [name for name in names if name in KEPT] == [*KEPT, *KEPT]
    assert "of eager: attncli's time divided by" in result.out and "transformers" in result.out.splitlines()[-1]


def test_what_is_refused(refused, tmp_path, tiny):
    assert "bert-base" in refused("bench", "-m", "bert-bse")
    assert "config.json" in refused("bench", "-m", str(tmp_path))
    assert "device" in refused("bench", "-m", tiny("bert"), "--device", "abacus")
    assert "no benchmark 'speed'" in refused("bench", "speed")
    assert "python tests/bench/corpus.py" in refused("bench", "stats", "-m", "minilm")
    assert "python tests/bench/long_texts.py" in refused("bench", "long")
