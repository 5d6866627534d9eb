"""Cut edges beside the same edges cut in transformers' softmax, and on networks where the answer is known."""

import json
from contextlib import contextmanager
from dataclasses import replace
from itertools import permutations
from pathlib import Path

import numpy as np
import pytest
import torch
from checkpoints import EACH, load_both, make_checkpoint
from hooks import edges_cut
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import load_file, save_file
from scipy.stats import rankdata, spearmanr
from slow import slow_except

from attncli import RequestError, load_model
from attncli.base.progress import showing
from attncli.effects.asking import Asking
from attncli.effects.change import Hide, run_changes
from attncli.effects.question import make_question
from attncli.features.cut import EdgeCutter, _ranks, cut, rank_correlation
from attncli.features.inputs import AskedRun
from attncli.record import Request
from attncli.record.selection import Grouping
from attncli.text.units import PartedText

TEXT, OTHER = "the cat sat on it, un believ able", "the big cat"
NAMES = [("2", "4"), ("3", "-2"), ("4", "1")]  # of whatever tokens a tokenizer makes; the second leaves a window


@pytest.fixture(scope="module", params=EACH)
def both(request, tiny):
    """Ours in float64, and transformers' network of the same checkpoint."""
    return load_both(tiny(request.param))


def moved(reference, tokens, mask, edges, keep_rest=False):
    """Return the distance that transformers' last vectors move when edges are cut."""
    before = reference.run(tokens, mask)[1][-1]
    with edges_cut(edges, keep_rest):
        after = reference.run(tokens, mask)[1][-1]
    return float(((after - before).norm(dim=-1) / before.norm(dim=-1)).mean())


@pytest.mark.usefixtures("exact")
@pytest.mark.parametrize("keep_rest", [False, True])
@pytest.mark.parametrize("mask", ["padding", "causal"])
def test_cut_edges_are_those_that_hooks_cut(both, mask, keep_rest):
    """Heads in another order than the model's; in all layers at once, and in each alone."""
    model, reference = both
    names = NAMES if mask == "padding" else [("3", "2"), ("3", "1"), ("-2", "3")]
    if model.config.model_type == "phi3":  # the windows of all its layers hide what is far away
        names = [edge for edge in names if "-2" not in edge]
    given = {"layer": "3,1", "head": "2,0", "mask": mask, "keep_rest": keep_rest}
    found = cut(model, TEXT, edges=names, **given, each_layer=True)
    tokens = model.tokenizer.encode(TEXT)
    for place, layers in enumerate(([3, 1], [3], [1])):
        edges = {(layer, head): found.edges for layer in layers for head in (2, 0)}
        assert found.effects[place] == pytest.approx(moved(reference, tokens, mask, edges, keep_rest), abs=1e-10)
    assert found.effects.min() > 1e-4 and cut(model, TEXT, edges=names, **given).effects == pytest.approx(
        found.effects[:1]
    )


@pytest.mark.usefixtures("exact")
@pytest.mark.parametrize("keep_rest", [False, True])
def test_a_query_that_sees_nothing_gets_nothing(both, keep_rest):
    """All its keys are cut: its row is 0, and not NaN."""
    model, reference = both
    found = cut(model, TEXT, edges=[("2", "*"), ("*", "4")], layer="2", mask="causal", keep_rest=keep_rest)
    tokens, edges = model.tokenizer.encode(TEXT), {(2, head): found.edges for head in range(4)}
    assert found.effects[0] == pytest.approx(moved(reference, tokens, "causal", edges, keep_rest), abs=1e-10)
    assert found.controls is None


def with_equal_values(folder, task="Model"):
    """A checkpoint in which weights that sum to 1 give the same, whatever they are."""
    made = make_checkpoint(folder, "bert", task)
    tensors = load_file(made / "model.safetensors")
    for name, tensor in tensors.items():
        if name.endswith("self.value.weight"):
            tensor.zero_()
    save_file(tensors, made / "model.safetensors", {"format": "pt"})
    return str(made)


def test_where_attention_can_not_matter_cuts_do_nothing(tmp_path):
    """Give all values alike: only the sum of the weights matters then, and --keep-rest makes it smaller than 1."""
    model = load_model(with_equal_values(tmp_path), device="cpu", dtype="float64")
    assert np.nanmax(cut(model, TEXT).effects) < 1e-12
    kept = cut(model, TEXT, keep_rest=True)
    assert kept.effects.min() > 1e-5 and kept.correlation().rho > kept.correlation().high


@pytest.mark.usefixtures("exact")
@pytest.mark.parametrize("keep_rest", slow_except([False, True], [True]))
@pytest.mark.parametrize(
    ("family", "task", "asking", "layers", "reads", "can"),
    [
        ("bert", "ForSequenceClassification", {"target": "LABEL_1"}, "3", [0], 7),
        ("bert", "ForSequenceClassification", {}, "1-2", [0], 49),
        ("bert", "ForSequenceClassification", {"mask": "causal"}, "all", [0], 1),
        ("bert", "ForTokenClassification", {"at": "3", "mask": "causal"}, "2", [3], 10),
        ("bert", "ForTokenClassification", {"mask": "causal"}, "3", range(1, 6), 20),
        ("bert", "ForQuestionAnswering", {}, "3", range(7), 49),
        ("modernbert", "ForMaskedLM", {"at": "0"}, "1-2", [0], 22),
        ("modernbert", "ForMaskedLM", {"at": "-1"}, "2", [-1], 12),
        ("modernbert", "Model", {"mask": "causal"}, "1", range(7), 18),
    ],
)
def test_edges_can_matter_where_a_cut_in_transformers_moves_a_vector_that_is_read(
    tmp_path, family, task, asking, layers, reads, can, keep_rest
):
    """Every edge by itself. A window of 2 keeps the last layers from bringing far tokens near."""
    changes = {"local_attention": 4, "global_attn_every_n_layers": 10} if family == "modernbert" else {}
    folder = make_checkpoint(tmp_path, family, task, **changes)
    model, reference = load_both(folder)
    text = "the cat sat on it" if family == "bert" else "the cat sat"
    found = cut(model, text, layer=layers, head="1", keep_rest=keep_rest, **asking)
    tokens = model.tokenizer.encode(text)
    mask = model.usual_mask(asking.get("mask"))
    before = reference.run(tokens, mask)[1][-1]
    for query, key in np.ndindex(*found.effects.shape):
        edges = {(layer, 1): [(query, key)] for layer in found.record.layers}
        with edges_cut(edges, keep_rest):
            moved_by = (reference.run(tokens, mask)[1][-1] - before)[list(reads)].abs().max()
        if np.isnan(found.effects[query, key]):
            assert not found.can_matter[query, key]
        else:
            assert found.can_matter[query, key] == (moved_by > 1e-12), (query, key)
            assert found.can_matter[query, key] or found.effects[query, key] == 0
    assert found.can_matter.sum() == can


def test_edges_of_silenced_heads_can_not_matter(tmp_path):
    model = load_model(str(make_checkpoint(tmp_path, "bert")), device="cpu").without("1.0,3.0-3")
    assert not cut(model, "the cat", layer="1", head="0").can_matter.any()
    assert cut(model, "the cat", layer="1", head="0,1").can_matter.all()
    assert not cut(model, "the cat", layer="3").can_matter.any()
    labelled = load_model(str(make_checkpoint(tmp_path, "bert", "ForTokenClassification")), device="cpu")
    found = cut(labelled.without("3.all"), "the cat", layer="2", at="cat")
    assert found.can_matter.any(axis=1).tolist() == [False, False, True, False]


@pytest.mark.parametrize(
    ("task", "asking"),
    [
        ("Model", {}),
        ("ForSequenceClassification", {}),
        *(
            pytest.param(*case, marks=pytest.mark.slow)
            for case in (
                ("ForSequenceClassification", {"target": "LABEL_1"}),
                ("ForSequenceClassification", {"target": "LABEL_1", "ask": "logit"}),
                ("ForTokenClassification", {}),
            )
        ),
    ],
)
def test_what_rounding_does_is_no_effect(tmp_path, task, asking):
    model = load_model(with_equal_values(tmp_path, task), device="cpu")
    cutter = EdgeCutter.of(AskedRun.of(model, TEXT, **asking), None, None, keep_rest=False)
    every = [cutter.cut_change([edge], [0, 1, 2, 3]) for edge in cutter.select_edges("*", "*")]
    assert np.ptp(cutter.effects(every)) > 0
    found = cut(model, TEXT, **asking)
    assert not found.effects.any() and found.correlation() is None


def test_nothing_cut_is_what_it_was_to_the_last_bit(minilm):
    assert not cut(minilm, "The cat sat on the mat.", edges=[]).effects.any()
    question = make_question(minilm, "The cat sat on the mat.")
    [(_, [copies])] = run_changes(question.texts, [Hide([(0, 1), (3, 2)], [])] * 3)
    assert all(torch.equal(copy, question.texts[0].last[0]) for copy in copies)


def test_of_two_texts_the_first_alone_is_cut(minilm):
    text, asking = "The cat sat on the mat.", {"similar_to": "A cat is sitting on a rug."}
    found = cut(minilm, text, edges=[("sat", "cat"), ("mat", "cat")], layer="5", **asking)
    question = make_question(minilm, text, Asking(**asking))
    heads = [(5, head) for head in range(12)]
    [(_, [copies])] = run_changes(question.texts[:1], [Hide(heads, found.edges)])
    expected = float(question([copies, question.texts[1].last])[0]) - question.value
    assert found.effects[0] == pytest.approx(expected, abs=1e-7) and abs(expected) > 1e-4


def test_the_control_cuts_as_many_other_edges_of_the_same_queries(minilm):
    cutter = EdgeCutter.of(AskedRun.of(minilm, TEXT), None, None, keep_rest=False)
    edges = [(2, 1), (2, 5), (4, 0)]
    drawn = list(cutter.draw_controls(edges))
    assert len(drawn) == 20 and len({tuple(some) for some in drawn}) > 15
    for some in drawn:
        assert not set(some) & set(edges) and len(set(some)) == 3
        assert sorted(query for query, _ in some) == [2, 2, 4]
    found = cut(minilm, TEXT, edges=[("2", "1"), ("2", "5"), ("4", "0")], layer="0")
    assert found.controls.shape == (20, 1) and found.controls.std() > 0


@pytest.mark.parametrize(("each_layer", "rows"), [(False, 1), (True, 4)])
def test_a_text_goes_through_once_for_each_cut_and_each_is_a_step(minilm, each_layer, rows):
    """The edges and 20 sets of others: in three layers together, and in each of them only when asked."""
    seen = []

    @contextmanager
    def progress(total, what):
        seen.append((total, what))
        yield lambda steps=1, of=None, text=None: seen.append(steps)

    with showing(progress):
        found = cut(minilm, "The cat.", edges=[("*", "cat")], layer="3-5", each_layer=each_layer)
    assert seen == [(21 * rows, "cuts"), *[1] * 21 * rows] and found.controls.shape == (20, rows)


NUMBERS = st.lists(st.tuples(st.integers(-3, 3), st.integers(-3, 3)), min_size=1, max_size=12)


@given(NUMBERS)
def test_ranks_and_their_correlation_are_those_of_scipy(pairs):
    """Equal numbers too."""
    one, other = np.array(pairs, dtype=float).T
    np.testing.assert_array_equal(_ranks(one), rankdata(one))
    found = rank_correlation(one, other)
    if len(pairs) < 3 or len(set(one)) == 1 or len(set(other)) == 1:
        assert found is None
    else:
        assert found.rho == pytest.approx(spearmanr(one, other).statistic) and found.count == len(pairs)


@pytest.mark.parametrize("count", [3, 4, 5])
def test_few_edges_tell_only_what_no_other_order_of_their_effects_gives(minilm, count):
    """Try every order: at most 1 of 20 may be as far from 0. No order of 3 or 4 is, and of 5 only the same and the
    reverse are.
    """
    found = cut(minilm, "The cat.", into="cat", layer="5", head="0")
    weights = found.weights[:count]
    orders = [np.array(order) + 1.0 for order in permutations(range(count))]
    rhos = [spearmanr(weights[:, 0], order).statistic for order in orders]
    for order, rho in zip(orders, rhos, strict=True):
        some = replace(
            found, queries=found.queries[:count], effects=order[:, None], can_matter=np.ones((count, 1), dtype=bool)
        )
        verdict = "this is within chance, so these edges don't show whether larger weights matter more"
        if np.mean(np.abs(rhos) >= abs(rho) - 1e-9) <= 0.05:
            verdict = f"edges with larger weights matter {'more' if rho > 0 else 'less'}"
        assert some.describe_correlation().endswith(f": {verdict}")


# --- units ------------------------------------------------------------------------------------------------

SENTENCES = "the cat sat. it is big. un believ able it"


def tokens_of_sentences(tokens):
    """The tokens of each sentence, by their first letters; the first token and special ones are in none."""
    starts = [place + 2 for place, letter in enumerate(SENTENCES) if letter == "."]
    numbered = []
    for place, (start, end) in enumerate(tokens.offsets):
        begin = next((at for at in range(start, end) if SENTENCES[at] != " "), start)
        numbered.append((sum(one <= begin for one in starts), place))
    alone = {place for place, flag in enumerate(tokens.special) if flag} | {tokens.first}
    return [[place for number, place in numbered if number == which and place not in alone] for which in range(3)]


@pytest.mark.usefixtures("exact")
@pytest.mark.parametrize("keep_rest", slow_except([False, True], [True]))
def test_an_edge_between_units_is_every_edge_between_their_tokens(both, keep_rest):
    """In transformers' softmax; its weight is a mean over queries of a sum over keys."""
    model, reference = both
    given = {"layer": "3,1", "head": "2,0", "keep_rest": keep_rest, "unit": "sentence"}
    mask = model.usual_mask(None)
    tokens = model.tokenizer.encode(SENTENCES)
    first, second, third = tokens_of_sentences(tokens)
    record = model.attend(SENTENCES, layers="3,1", heads="2,0")
    units = [second] if model.config.model_type == "phi3" else [second, third]  # its windows hide what is far away
    seen = [(query, key) for one in units for query in one for key in first if record.masks[:, query, key].any()]
    found = cut(model, SENTENCES, edges=[("2", "1"), ("3", "1")][: len(units)], **given)
    edges = {(layer, head): seen for layer in (3, 1) for head in (2, 0)}
    assert len(found.edges) == len(units) and len(seen) > 2
    assert found.effects[0] == pytest.approx(moved(reference, tokens, mask, edges, keep_rest), abs=1e-10)
    weights = [record.weights[:, :, queries][..., first].sum(axis=-1).mean() for queries in units]
    assert found.weights == pytest.approx(weights, abs=1e-6)
    cutter = EdgeCutter.of(AskedRun.of(model, SENTENCES, unit="sentence"), "3,1", "2,0", keep_rest)
    assert cutter.between_tokens((2, 1)) == [edge for edge in seen if edge[0] in second]
    each = cut(model, SENTENCES, into="1", out_of="2", **given)
    alone = {(layer, head): [edge for edge in seen if edge[0] in second] for layer in (3, 1) for head in (2, 0)}
    assert each.effects == pytest.approx(np.array([[moved(reference, tokens, mask, alone, keep_rest)]]), abs=1e-10)
    assert each.can_matter.all() and each.effects.min() > 1e-5


def test_the_control_of_units_draws_other_edges_of_the_same_tokens(minilm):
    run = AskedRun.of(minilm, SENTENCES, unit="sentence")
    cutter = EdgeCutter.of(run, None, None, keep_rest=False)
    first, second, _ = tokens_of_sentences(minilm.tokenizer.encode(SENTENCES))
    edges = cutter.between_tokens((2, 1))
    assert edges == [(query, key) for query in second for key in first]
    for some in cutter.draw_controls(edges):
        assert not set(some) & set(edges) and len(set(some)) == len(edges)
        assert sorted(query for query, _ in some) == sorted(query for query, _ in edges)
    found = cut(minilm, SENTENCES, edges=[("2", "1")], layer="5", unit="sentence")
    expected = cutter.effects([cutter.cut_change(some, [5]) for some in cutter.draw_controls(edges)])
    np.testing.assert_allclose(found.controls[:, 0], expected, rtol=1e-4, atol=1e-6)
    causal = EdgeCutter.of(AskedRun.of(minilm, SENTENCES, unit="sentence", mask="causal"), None, None, keep_rest=False)
    assert causal.between_tokens((2, 2)) == [(query, key) for query in second for key in second if key <= query]


@pytest.mark.parametrize("keep_rest", slow_except([False, True], [True]))
def test_units_can_matter_where_one_of_their_tokens_can(tmp_path, keep_rest):
    """A classifier reads [CLS], and a token's label stands at one place."""
    model = load_model(str(make_checkpoint(tmp_path, "bert", "ForTokenClassification")), device="cpu")
    found = cut(model, SENTENCES, layer="3", head="1", at="9", unit="sentence", keep_rest=keep_rest)
    place = next(number for number, group in enumerate(found.record.tokens.text) if "big" in group)
    assert found.can_matter.any(axis=1).tolist() == [number == place for number in range(5)]
    assert found.effects[place].any() and not np.delete(found.effects, place, axis=0).any()


def test_parts_are_cut_by_their_names(attncli, tiny):
    text = "<a>the cat sat.</a> <b>it is big.</b> un believ able it"
    line = ("cut", "-m", tiny("bert"), "-l", "2", "--json")
    named = json.loads(attncli(*line, "--unit", "part", "--cut", "b", "a", text).out)
    plain = "the cat sat. it is big. un believ able it"
    numbers = json.loads(attncli(*line, "--unit", "sentence", "--cut", "2", "1", plain).out)
    assert named["tokens"] == ["[CLS]", "a", "b", "(rest)", "[SEP]"]
    assert named["effects"] == numbers["effects"] and named["edges"][0]["query"] == {"index": 2, "token": "b"}
    divided = "<a>the cat <b>sat on</b> it.</a> un believ able it"
    both = json.loads(attncli(*line, "--unit", "part", "--cut", "(rest)", "a", divided).out)
    apart = json.loads(attncli(*line, "--unit", "part", "--cut", "4", "1", "--cut", "4", "a#2", divided).out)
    assert both == apart and [edge["key"]["index"] for edge in both["edges"]] == [1, 3]  # a part that another divides
    shown = attncli(*line[:-1], "--unit", "part", "--cut", "b", "a", text)
    assert "b      a" in shown.out and "are merged by part into 5 units" in shown.err
    refused = attncli(*line, "--unit", "part", "--cut", "c", "a", text)
    assert refused.code == 2 and "no token 'c' in the text: it has [CLS], a, b" in refused.err


def test_a_chat_is_cut_as_its_model_reads_it(tiny, tmp_path):
    """Special tokens that the template writes are not written twice."""
    folder = tmp_path / "chatty"
    folder.mkdir()
    for file in Path(tiny("llama", head="ForCausalLM")).iterdir():
        (folder / file.name).symlink_to(file)
    template = "{% for m in messages %}<s>{{ m.role[0] }}: {{ m.content }}\n{% endfor %}a:"
    (folder / "chat_template.jinja").write_text(template, encoding="utf-8")
    messages = [{"role": "system", "content": "it is big"}, {"role": "user", "content": "the cat sat"}]
    (tmp_path / "a.json").write_text(json.dumps(messages), encoding="utf-8")
    found = cut(str(folder), str(tmp_path / "a.json"), chat=True, unit="part", edges=[("*", "system")], layer="1")
    assert found.record.tokens.text[1:] == ["template", "system", "template", "user", "template"]
    model, prompt = load_model(str(folder), "cpu"), "<s>s: it is big\n<s>u: the cat sat\na:"
    tokens = model.tokenizer.encode_marked(prompt)
    question = make_question(model, prompt, request=Request(grouping=Grouping(parted=PartedText(prompt, marked=True))))
    assert question.texts[0].tokens == tokens and tokens.ids.count(tokens.ids[0]) == 2
    keys = [place for place, (_, end) in enumerate(tokens.offsets) if 6 < end <= 16]  # "it is big\n"
    edges = [(query, key) for query in range(len(tokens)) for key in keys if key <= query]
    every = [(1, head) for head in range(model.heads)]
    assert found.effects[0] == pytest.approx(question.effects([Hide(every, edges)])[0], rel=1e-5)


# --- the command ------------------------------------------------------------------------------------------

MAT = "The cat sat on the mat."


def test_some_edges_at_once_and_their_weights(attncli, minilm):
    line = ("cut", "--cut", "sat", "cat", "--cut", "mat", "*", "-l", "4,5", MAT)
    said = json.loads(attncli(*line, "--each-layer", "--json").out)
    edges = [(edge["query"]["index"], edge["key"]["index"]) for edge in said["edges"]]
    assert edges == [(3, 2), *((6, key) for key in range(9))]
    record = minilm.attend(MAT, layers="4,5")
    for edge, (query, key) in zip(said["edges"], edges, strict=True):
        assert edge["weight"] == pytest.approx(record.weights[:, :, query, key].mean(), abs=1e-6)
    assert [one["layer"] for one in said["effects"]] == [None, 4, 5]
    assert all(one["control"] is None and one["effect"] > 0 for one in said["effects"])  # no other key of "mat" is left
    together = json.loads(attncli(*line, "--json").out)
    assert together == said | {"effects": said["effects"][:1]}
    shown = attncli(*line).out
    assert "all of these" in shown and "layer 4 " not in shown and "layer 4 " in attncli(*line, "--each-layer").out
    assert "no control: these queries have too few other edges" in shown
    assert "distance that the last vectors move" in shown and "cut in layers 4-5 and all heads" in shown


def test_each_edge_in_the_terminal_as_in_the_document(attncli):
    line = ("cut", "--into", "cat", "-l", "5", MAT)
    said, shown = json.loads(attncli(*line, "--json").out), attncli(*line, "--top", "3").out
    assert {edge["key"]["token"] for edge in said["edges"]} == {"cat"} and len(said["edges"]) == 9
    sizes = [abs(edge["effect"]) for edge in said["edges"]]
    assert sizes == sorted(sizes, reverse=True)
    rows = [line.split() for line in shown.splitlines()]
    table = rows[rows.index(["from", "to", "effect", "mean", "weight", "its", "rank"]) + 2 :][:3]
    for row, edge in zip(table, said["edges"][:3], strict=True):
        assert row[0].partition("#")[0] == edge["query"]["token"]
        assert float(row[2]) == pytest.approx(edge["effect"], rel=0.01)
        assert row[3] == f"{edge['weight']:.3f}"
    assert f"rank correlation {said['correlation']['rho']:+.2f} over 9 edges" in " ".join(shown.split())


def test_only_edges_that_can_have_an_effect_are_ranked(attncli, tmp_path):
    """A classifier reads [CLS]: in the last layer 7 of 49 edges reach it, and of these weights tell."""
    folder = make_checkpoint(tmp_path, "bert", "ForSequenceClassification", num_hidden_layers=3)
    line = ("cut", "-m", str(folder), "--keep-rest", "-l", "2", "-H", "0", "--target", "LABEL_1", "the cat sat on it")
    said = json.loads(attncli(*line, "--json").out)
    can = [edge for edge in said["edges"] if edge["can_matter"]]
    assert len(said["edges"]) == 49 and said["edges"][:7] == can and len(can) == 7
    assert {edge["query"]["index"] for edge in can} == {0} and {edge["effect"] for edge in said["edges"][7:]} == {0}
    rho = spearmanr([edge["weight"] for edge in can], [abs(edge["effect"]) for edge in can]).statistic
    assert said["correlation"]["rho"] == pytest.approx(rho) and said["correlation"]["count"] == 7
    shown = attncli(*line, "--top", "20").out
    words = " ".join(shown.split())
    assert f"rank correlation {rho:+.2f} over the 7 of 49 edges that can have an effect; 95% of random" in words
    assert "permutations of the effects give" in words
    assert sum(line.split()[:1] == ["[CLS]"] for line in shown.splitlines()) == 7
    none = " ".join(attncli(*line[:-1], "--out-of", "cat", line[-1]).out.split())
    assert "none of these 7 edges can have an effect" in none


def test_a_word_in_pieces_is_cut_as_its_pieces(attncli):
    text, where = "the unbelievably big cat", ("-l", "5", "--json")
    word = attncli("cut", "--cut", "cat", "unbelievably", *where, text)
    assert word.err == "attncli: 'unbelievably' is 5 tokens: un, ##bel, ##ie, ##va, ##bly (all are used)\n"
    edges = [part for place in range(2, 7) for part in ("--cut", "cat", str(place))]
    assert word.out == attncli("cut", *edges, *where, text).out
    into = attncli("cut", "--into", "unbelievably", *where, text)
    assert {edge["key"]["index"] for edge in json.loads(into.out)["edges"]} == {2, 3, 4, 5, 6} and into.err == word.err


def test_what_a_mask_hides_is_empty_in_the_map_and_not_in_the_document(attncli):
    said = json.loads(attncli("cut", "--mask", "causal", "-l", "5", "-H", "0", "The cat.", "--json").out)
    assert {(edge["query"]["index"], edge["key"]["index"]) for edge in said["edges"]} == {
        (query, key) for query in range(5) for key in range(query + 1)
    }
    lines = attncli("cut", "--mask", "causal", "-l", "5", "-H", "0", "The cat.").out.splitlines()
    for map_name in ("effect, queries", "mean weight, queries"):
        start = next(place for place, line in enumerate(lines) if line.startswith(map_name)) + 2
        assert [len(line.split()) - 2 for line in lines[start : start + 5]] == [1, 2, 3, 4, 5]


def test_an_open_model_has_its_device(minilm):
    with pytest.raises(RequestError, match="device has no effect on an open model"):
        cut(minilm, MAT, device="cpu")
    with pytest.raises(RequestError, match="top has no effect with --cut"):
        cut(minilm, MAT, edges=[("sat", "cat")], top=3)
