"""attncli bench: the same work on both sides, counted and timed; a table for people, a document for programs."""

import json
import shutil

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from attncli.base.errors import RequestError
from attncli.checks import timing
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
    bench_maps,
    encoder_flops,
    kept_flops,
    plan,
    random_texts,
)
from attncli.models import network as linear
from attncli.models import rows
from attncli.models.aliases import ALIASES
from attncli.models.config import ModelConfig

MODELS = ("minilm", "bert-base")
SMALL = {
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "hidden_size": 24,
    "intermediate_size": 40,
    "vocab_size": 50,
    "max_position_embeddings": 32,
}
FAMILIES = {
    "bert": SMALL | {"model_type": "bert"},
    "roberta": SMALL | {"model_type": "roberta", "pad_token_id": 1},
    "electra": SMALL | {"model_type": "electra", "embedding_size": 16},
    "distilbert": {
        "model_type": "distilbert",
        "n_layers": 3,
        "n_heads": 4,
        "dim": 24,
        "hidden_dim": 40,
        "vocab_size": 50,
        "max_position_embeddings": 32,
    },
    "modernbert": SMALL
    | {
        **{"model_type": "modernbert", "pad_token_id": 3, "local_attention": 8},
        **dict.fromkeys(("bos_token_id", "eos_token_id", "cls_token_id", "sep_token_id"), 1),
    },
    "mpnet": SMALL | {"model_type": "mpnet", "max_position_embeddings": 34},
    "albert": SMALL | {"model_type": "albert", "embedding_size": 16, "num_hidden_groups": 2},
    "deberta": SMALL
    | {
        **{"model_type": "deberta", "relative_attention": True, "pos_att_type": "p2c|c2p", "type_vocab_size": 0},
        **{"position_biased_input": False, "max_relative_positions": 8},
    },
    "deberta-v2": SMALL
    | {
        **{"model_type": "deberta-v2", "relative_attention": True, "pos_att_type": "p2c|c2p", "position_buckets": 8},
        **{"share_att_key": True, "norm_rel_ebd": "layer_norm", "position_biased_input": False},
    },
}
WITHOUT_SDPA = ("mpnet", "deberta", "deberta-v2")
SLOW = [pytest.param(name, marks=pytest.mark.slow) if name in ("albert", "deberta") else name for name in FAMILIES]


@pytest.fixture(scope="module", params=SLOW)
def contestants(request, tmp_path_factory):
    """One small architecture of each family in all three programs."""
    directory = tmp_path_factory.mktemp(request.param)
    (directory / "config.json").write_text(json.dumps(FAMILIES[request.param]))
    return Contestants(str(directory), FAMILIES[request.param], "cpu")


# --- the same work --------------------------------------------------------------------------------------


def test_all_contestants_compute_the_same_thing(contestants, monkeypatch):
    monkeypatch.setattr("attncli.models.walk.BATCH_TOKENS", {"cpu": 24})  # five texts in three groups
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


# --- counting -------------------------------------------------------------------------------------------


def operations(run) -> int:
    with sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False) as counter:
        run()
    return counter.get_total_flops()


@pytest.mark.slow
@settings(max_examples=15)
@given(texts=st.integers(1, 3), tokens=st.integers(1, 30))
def test_operations_are_as_torch_counts_them(contestants, texts, tokens):
    shape = Shape(texts, tokens, 1, 1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(linear, "ONEDNN_LINEAR", None)  # torch's counter does not know that operator
        patch.setattr(rows, "ROWS", 1)  # no idle rows
        runs = contestants.runs(random_texts(contestants.config, shape))
        for kept in KEPT:
            runs[kept]()  # what is made once is made
            assert operations(runs[kept]) == kept_flops(contestants.config, shape, kept)


def test_whole_layers_are_what_transformers_computes(contestants):
    if contestants.config.model_type in ("deberta", "deberta-v2"):
        pytest.skip("transformers makes disentangled terms of every vector of an offset, for every text anew")
    shape = Shape(2, 20, 1, 1)
    network = contestants.peers[EAGER]
    runs = contestants.runs(random_texts(contestants.config, shape))
    pooler = 2 * shape.texts * 24 * 24 if getattr(network, "pooler", None) is not None else 0
    whole = encoder_flops(contestants.config, shape.texts, shape.tokens, contestants.config.layers)
    assert operations(runs[EAGER]) - pooler == whole


# --- timing ---------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_document_holds_every_row_and_its_ratios(monkeypatch, tmp_path):
    (tmp_path / "config.json").write_text(json.dumps(FAMILIES["bert"]))
    monkeypatch.setattr(measuring, "SHAPES", (Shape(1, 8, 2, 1), Shape(3, 16, 3, 1, dtype="bfloat16")))
    monkeypatch.setattr(timing, "PRODUCT", (64, 32, 48))
    cases = plan([str(tmp_path)], quick=False)
    steps: list[None] = []
    document = bench_maps(cases, "cpu", lambda: steps.append(None)).document()
    assert len(steps) == sum(case.runs for case in cases)
    assert json.loads(json.dumps(document)) == document
    assert [(row["texts"], row["tokens"], row["dtype"], row["kept"], row["rounds"]) for row in document["rows"]] == [
        *((1, 8, "float32", kept, 2) for kept in KEPT),
        *((3, 16, "bfloat16", kept, 3) for kept in KEPT),
    ]
    rates = document["matrix_product"]["flops_per_second"]
    assert set(rates) == {"torch.mm", "attncli", "torch.mm, bfloat16", "attncli, bfloat16"}
    for row in document["rows"]:
        rate = max(value for name, value in rates.items() if ("bfloat16" in name) == (row["dtype"] == "bfloat16"))
        assert row["floor"]["products"] == pytest.approx(row["flops"] / rate)
        seconds = row["seconds"]
        assert row["ratio"] == {name: seconds["attncli"] / seconds[name] for name in (EAGER, SDPA)}
        assert row["matrix_product_share"] == pytest.approx(row["flops"] / seconds["attncli"] / rate)
        assert row["peak_bytes"].keys() == seconds.keys()


# --- the plan -------------------------------------------------------------------------------------------


def test_every_shape_through_both_models():
    cases = [(case.model, case.shape) for case in plan(MODELS, False)]
    assert cases == [(model, shape) for model in ("minilm", "bert-base") for shape in measuring.SHAPES]


def test_quick_is_fewer_rounds_and_not_the_largest():
    full, quick = (plan(MODELS, flag) for flag in (False, True))
    rounds = {(case.model, case.shape): case.rounds for case in full}
    assert all(case.rounds < rounds[case.model, case.shape] for case in quick)
    left_out = rounds.keys() - {(case.model, case.shape) for case in quick}
    assert {(model, *shape[:2]) for model, shape in left_out} == {("bert-base", 8, 512), ("bert-base", 256, 62)}


def test_no_text_is_longer_than_the_model_reads(tmp_path):
    (tmp_path / "config.json").write_text(json.dumps(FAMILIES["roberta"]))  # 32 positions, the first two unused
    assert {case.shape.tokens for case in plan([str(tmp_path)], False)} == {16}


def test_a_model_for_which_no_shape_is_left_is_refused(tmp_path):
    (tmp_path / "config.json").write_text(json.dumps(FAMILIES["bert"] | {"max_position_embeddings": 15}))
    with pytest.raises(RequestError, match="too long"):
        plan([str(tmp_path)], False)


def test_an_alias_needs_no_files_and_a_directory_no_weights(tmp_path, tiny):
    assert plan(["electra-small"], True)[0].config == ALIASES["electra-small"].config
    shutil.copy(tiny("bert") / "config.json", tmp_path)
    assert ModelConfig.from_dict(plan([str(tmp_path)], True)[0].config).layers == 4


def test_names_that_mean_nothing_are_refused(tmp_path):
    with pytest.raises(RequestError, match="minilm"):
        plan(["minilmm"], True)
    with pytest.raises(RequestError, match=r"config\.json"):
        plan([str(tmp_path)], True)


# --- the command ----------------------------------------------------------------------------------------


@pytest.fixture
def small(monkeypatch, tiny):
    """A model, and shapes, that take no time."""
    monkeypatch.setattr(measuring, "SHAPES", (Shape(1, 8, 2, 1), Shape(2, 16, 2, 1)))
    monkeypatch.setattr(timing, "PRODUCT", (64, 32, 48))
    return tiny("bert")


@pytest.mark.slow
def test_json_is_all_there_is_on_stdout(attncli, small):
    result = attncli("bench", "-m", small, "--quick", "--json", "--device", "cpu")
    assert (result.code, result.err) == (0, "")
    document = json.loads(result.out)
    assert (document["device"], document["weights"], document["dtype"]) == ("cpu", "random", "float32")
    assert [row["kept"] for row in document["rows"]] == [*KEPT, *KEPT]
    assert {row["rounds"] for row in document["rows"]} == {1}


@pytest.mark.slow
def test_the_table_has_a_line_a_row_and_says_what_it_was_measured_on(attncli, small):
    result = attncli("bench", "-m", small, "--device", "cpu")
    assert (result.code, result.err) == (0, "")
    names = [line[: len("   one, first layer")].strip() for line in result.out.splitlines()]
    assert [name for name in names if name in KEPT] == [*KEPT, *KEPT]
    assert "GFLOP/s" in result.out and "GB/s" in result.out
    assert "transformers" in result.out


def test_unknown_names_and_devices_are_refused(refused, small):
    assert "bert-base" in refused("bench", "-m", "bert-bse")
    assert "device" in refused("bench", "-m", small, "--device", "abacus")
    assert "no benchmark 'speed'" in refused("bench", "speed")


def test_former_subjects_say_where_they_are(refused):
    assert "python tests/bench/corpus.py" in refused("bench", "stats", "-m", "minilm")
    assert "python tests/bench/long_texts.py" in refused("bench", "long")
