"""Heads get the labels of what they were made to do, and no others; random networks get none."""

import json
import re
import shutil
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
import transformers
from checkpoints import make_checkpoint, write_tokenizer
from cli.test_every_model import TREES
from records import record_of
from records import tokens as tokens_of

from attncli import load_model
from attncli.analysis.kinds import KINDS, Judged, KindMeasure, labels_of, load_kinds, with_kinds
from attncli.corpus.reducer import corpus_statistics
from attncli.corpus.usual import lines
from attncli.features.kinds import kinds
from attncli.features.kinds.measuring import (
    Additions,
    Draws,
    Mentions,
    Needle,
    copying,
    coreference,
    direct_effects,
    feeding,
    measure_kinds,
    measure_silencing,
    outputs_for,
    retrieval,
    shuffle_matrices,
    strongest_later,
    syntactic,
)
from attncli.features.probe.counting import probe_treebank
from attncli.features.probe.tally import Tally, best_heads
from attncli.models.generation import next_output
from attncli.page.payload import payload
from attncli.report import Table, TextLine

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
    tokens = len(transformers.AutoTokenizer.from_pretrained(place))
    token, position, previous = (
        range(tokens),
        range(tokens, tokens + POSITIONS),
        range(tokens + POSITIONS, 2 * tokens + POSITIONS),
    )
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
            layer.attn.c_proj.weight[head * wide : head * wide + len(places), list(places)] = scale * torch.eye(
                len(places)
            )

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


@pytest.fixture(scope="module")
def found(by_hand):
    """The kinds of the heads made by hand."""
    return measured(by_hand)


def test_heads_made_by_hand_get_their_labels_and_no_others(found):
    assert labels_of(found.kinds) == {
        (0, 0): ["previous", "feeds induction"], (0, 1): ["sink"], (1, 0): ["induction"],
    }  # fmt: skip
    assert found.silencing["induction"].effect > max(found.silencing["induction"].random) + 1
    reasons = {one.kind.name: one.why_not for one in found.kinds if one.why_not}
    assert set(reasons) == {"next", "separator", "retrieval", "coreference", "syntactic"}
    assert "positions" in reasons["retrieval"] and "treebank" in reasons["syntactic"]


def test_a_kind_without_heads_is_named_below_the_table(found):
    parts = found.report().parts
    [table] = [part for part in parts if isinstance(part, Table)]
    heads = {one.kind.name: one.heads for one in found.kinds if one.measures}
    assert [row[0] for row in table.rows] == [name for name, some in heads.items() if some]
    [line] = [part.text for part in parts if isinstance(part, TextLine) and part.text.startswith("no head has")]
    assert line == f"no head has these labels: {', '.join(name for name, some in heads.items() if not some)}"


def test_idle_is_measured_against_the_model_and_not_its_layer(by_hand):
    """Three heads add 1, 2 and 8: the last one, twice its layer's mean, makes none beside it idle."""
    additions = Additions()
    lengths = ((1.0, 2.0), (2.0, 8.0))
    for layer, of_heads in enumerate(lengths):
        outputs = torch.tensor(of_heads)[:, None, None].expand(2, 5, 1)  # [head, query, head_dim]
        additions.kept[layer] = outputs, torch.ones(1, 2, 1), torch.ones(2, 5)
    np.testing.assert_allclose(additions.sizes(), np.array(lengths) / 2)


@pytest.mark.parametrize("family", ["gpt2", "llama", "gemma2", "olmo2"])
@pytest.mark.parametrize("engine", ["auto", "transformers"])
def test_a_direct_effect_is_the_derivative_through_all_norms_on_its_way(tmp_path, family, engine):
    """Computed on transformers' network: by torch.autograd from the last norm's input to the logits, and by torch's
    forward derivative through the norm after the heads of Gemma 2 and OLMo 2.
    """
    place = str(make_checkpoint(tmp_path, family, "LMHeadModel" if family == "gpt2" else "ForCausalLM"))
    model = load_model(place, device="cpu", dtype="float64", engine=engine)
    network = transformers.AutoModelForCausalLM.from_pretrained(
        place, dtype="float64", attn_implementation="eager"
    ).eval()
    tokens = model.tokenizer.encode("the cat sat on the mat")
    ids = torch.tensor([tokens.ids])
    base = network.base_model
    norm = getattr(base, "ln_f", None) or base.norm
    layers = base.h if hasattr(base, "h") else base.layers
    joined, before = {}, {}
    for number, layer in enumerate(layers):
        projection = layer.attn.c_proj if hasattr(layer, "attn") else layer.self_attn.o_proj
        projection.register_forward_hook(
            lambda _, given, made, number=number: joined.update({number: (given[0], made)})
        )
    norm.register_forward_pre_hook(lambda _, given: before.update(x=given[0]))
    with torch.no_grad():
        network(ids)
    x = before["x"][0].detach().requires_grad_()
    places = list(range(1, len(tokens)))
    wanted = ids[0, places].roll(1)
    logits = network.get_output_embeddings()(norm(x))[places]
    if cap := getattr(network.config, "final_logit_softcapping", None):
        logits = cap * torch.tanh(logits / cap)
    raised = logits.gather(1, wanted[:, None])[:, 0] - logits[:, wanted].mean(dim=1)
    [slope] = torch.autograd.grad(raised.sum(), x)
    [found] = direct_effects(model, tokens, places, [wanted], wanted)
    for number, layer in enumerate(layers):
        given, made = joined[number]
        matrix = layer.attn.c_proj.weight.T if hasattr(layer, "attn") else layer.self_attn.o_proj.weight
        wide = matrix.shape[1] // model.heads
        for head in range(model.heads):
            some = slice(head * wide, (head + 1) * wide)
            added = given[..., some] @ matrix[:, some].T
            if family in ("gemma2", "olmo2"):
                _, added = torch.func.jvp(layer.post_attention_layernorm, (made,), (added,))
            expected = (added[0] * slope).sum(dim=-1)[places].detach().numpy()
            np.testing.assert_allclose(found[number, head], expected, rtol=1e-5, atol=1e-6)


def test_signs_turned_inside_a_network_change_no_copying(by_hand, tmp_path):
    """A last norm that turns the sign, and an output matrix that turns it back: the same logits to the last bit."""
    networks = []
    for sign in (1.0, -1.0):
        place = tmp_path / str(sign)
        shutil.copytree(by_hand.place.path, place)
        network = transformers.GPT2LMHeadModel.from_pretrained(place)
        network.config.tie_word_embeddings = False
        network.lm_head.weight = torch.nn.Parameter(sign * network.transformer.wte.weight)
        network.transformer.ln_f.weight.data *= sign
        network.save_pretrained(place)
        networks.append(load_model(str(place), device="cpu"))
    one = networks[0]
    tokens = one.tokenizer.encode("the cat sat")
    logits = [next_output(model)(model.last_hidden([tokens]), [tokens])[0] for model in networks]
    assert torch.equal(*logits)
    draws = Draws.of(one, 0)
    copies = [copying(model, draws, lambda: None).score for model in networks]
    assert copies[0][1, 0] == 1.0 and np.array_equal(*copies)


RANDOM = [(family, head, seed) for family, head in (("gpt2", "LMHeadModel"), ("bert", "Model")) for seed in range(10)]


@pytest.fixture
def random_labels(tmp_path):
    """`random_labels([(family, head, seed)])` -> the labels of all heads of random networks."""

    def labels(networks):
        made = (make_checkpoint(tmp_path / f"{one[0]}-{one[2]}", *one[:2], seed=one[2]) for one in networks)
        return [label for place in made for label in labels_of(measured(load_model(str(place), device="cpu")).kinds)]

    return labels


@pytest.mark.slow
def test_twenty_random_networks_have_one_label_at_most(random_labels):
    assert len(random_labels(RANDOM)) <= 1


def test_shuffled_matrices_keep_their_entries_and_vectors_stay(tiny):
    model = load_model(str(tiny("bert")), device="cpu")
    shuffled = shuffle_matrices(model, 0)
    for one in (model, shuffled):
        one.need(one.layers)
    moved = 0
    for (name, one), (_, other) in zip(
        model.network.named_parameters(), shuffled.network.named_parameters(), strict=True
    ):
        if one.dim() == 2:
            assert torch.equal(one.flatten().sort().values, other.flatten().sort().values), name
            moved += not torch.equal(one, other)
        else:
            assert torch.equal(one, other), name
    assert moved > model.layers


def test_random_tokens_have_no_repeat_but_the_one_that_is_measured(minilm):
    draws = Draws.of(minilm, 0)
    for repeated, other in zip(draws.repeated, draws.other, strict=True):
        ids = [repeated.ids[place] for place in draws.every]
        assert ids[: draws.half] == ids[draws.half :] == [other.ids[place] for place in draws.every[: draws.half]]
        assert len({other.ids[place] for place in draws.every}) == 2 * draws.half
        assert not any(repeated.special[place] for place in draws.every)
    assert draws.repeated[0].ids != draws.repeated[1].ids != Draws.of(minilm, 1).repeated[1].ids
    assert Draws.of(minilm, 0).repeated[0].ids == draws.repeated[0].ids


def test_without_the_previous_head_there_is_no_induction(by_hand):
    draws = Draws.of(by_hand, 0)
    measure = feeding(by_hand, draws, [(0, 0)], [(1, 0)], 0, lambda: None)
    assert measure.score[0, 0] > 0.9 and abs(measure.null[0, 0]) < 0.05
    assert np.isnan(measure.score).sum() == measure.score.size - 1


def test_the_loss_on_repeats_is_that_of_next_probabilities(by_hand):
    from attncli.models.generation import next_probabilities

    draws = Draws.of(by_hand, 0)
    _, loss = outputs_for(by_hand, draws, [])["induction"]
    expected = []
    for text in draws.repeated[:4]:
        start = draws.second[1]
        rows = next_probabilities(by_hand, text.take(range(start)), text.ids[start:])[:-1]
        expected.append(-rows.log()[range(len(rows)), text.ids[start:]].mean().item())
    assert loss(by_hand) == pytest.approx(np.mean(expected), rel=1e-5)


@pytest.mark.slow
def test_a_trained_network_with_shuffled_matrices_has_no_label(minilm):
    assert labels_of(measured(shuffle_matrices(minilm, 7)).kinds) == {}


def test_a_word_is_asked_where_another_thing_was_mentioned_before(minilm):
    one = Mentions.read("The dog[1] saw a cat[2], and it[2] saw it[1].", minilm)
    words = ["The", "dog", "saw", "a", "cat", ",", "and", "it", "saw", "it", "."]
    assert one.entities == [{1: 1, 4: 2, 7: 2, 9: 1}.get(place) for place in range(len(words))]
    assert list(one.words_to_resolve(sink=True)) == [(7, [1, 4], [0, 1]), (9, [1, 4, 7], [1, 0])]


def test_the_first_word_of_a_sentence_is_no_mention_where_it_is_a_sink(minilm):
    """Nobody but the first word answers who the first "she" is."""
    one = Mentions.read("Anna[1] told Mary[2] about the dog[3] before she[1] fed it[3] and she[2] slept.", minilm)
    assert [word for word, _, _ in one.words_to_resolve(sink=False)] == [7, 9, 11]
    assert list(one.words_to_resolve(sink=True)) == [(9, [2, 5, 7], [1, 1]), (11, [2, 5, 7, 9], [2, 0])]


class Looking:
    """A decoder of one layer whose heads each look from some tokens at one: 0.8 of the weight, and 0.2 at the first."""

    layers = 1

    def __init__(self, *places):
        self.places, self.heads = places, len(places)

    def attend_tokens(self, texts):
        for tokens in texts:
            weights = np.zeros((1, self.heads, len(tokens), len(tokens)), np.float32)
            weights[..., 0] = 1
            for head, places in enumerate(self.places):
                for query, key in places.items():
                    weights[0, head, query, [0, key]] = 0.2, 0.8
            yield replace(record_of(weights, np.tri(len(tokens), dtype=bool), "causal"), tokens=tokens)


def test_coreference_and_its_null_are_over_the_same_words(minilm):
    """A head that looks back to the right mention finds both words; a rule that reads nothing finds one."""
    one = Mentions.read("Anna[1] told Mary[2] about the dog[3] before she[1] fed it[3] and she[2] slept.", minilm)
    tokens = one.tokens.take(np.flatnonzero(~np.array(one.tokens.special)))  # as a decoder has them
    model = Looking({9: 5, 11: 2}, {9: 7, 11: 2})
    measure = coreference(model, [replace(one, tokens=tokens)], lambda: None)
    assert (measure.score.tolist(), measure.null.tolist()) == ([[1, 0.5]], [[0.5, 0.5]])
    assert measure.name == "2 of 3 words, without first words, which are sinks"


def test_retrieval_is_how_often_the_strongest_key_is_what_is_copied():
    """Head 0.0 looks at both tokens that are copied; 0.1 at one, and two tokens past the other, which is its null."""
    found = [Needle(tokens_of("abcdefghij", range(10)), [3, 4], [[3], [4, 1]], 8)]
    measure = retrieval(Looking({8: 3, 9: 1}, {8: 3, 9: 6}, {}), found)
    assert measure.score.tolist() == [[1, 0.5, 0]] and measure.null.tolist() == [[0, 0.5, 0]]


def test_syntactic_scores_are_those_of_probe(minilm):
    found = probe_treebank(minilm, [str(TREES)]).treebank.tally
    measure, details = syntactic(found, found)
    assert details[3, 1] == "det, child->head"
    guess = next(one for one in best_heads(found, found) if one.relation == "det")
    place = guess.layer, guess.head
    assert (place, measure.score[place], measure.null[place]) == ((3, 1), guess.accuracy, guess.offset_accuracy)
    assert measure.floor[3, 1] == guess.accuracy and not measure.holds.any()


@pytest.mark.parametrize(("far", "label"), [(True, True), (False, False)])
def test_a_head_that_finds_what_no_distance_does_is_syntactic(far, label):
    """Head 1.2 finds all words of a relation; their distances are many, or one."""
    nobody, found = np.zeros((2, 2, 3, 2), dtype=np.int64)
    found[1, 2, 0] = 20
    distances = [-3, -2, -1, 1, 2, 3] if far else [1]
    tally = replace(
        Tally.nothing(2, 3),
        offsets={"nsubj": Counter(dict.fromkeys(distances, 20))},
        found_at={("nsubj", distance): found for distance in distances},
    )
    nothing = replace(tally, found_at=dict.fromkeys(tally.found_at, nobody))
    measure, details = syntactic(tally, nothing)
    assert measure.holds[1, 2] == label and measure.holds.sum() == label and details[1, 2] == "nsubj, child->head"


class MadeUp:
    """A model whose one head gives 0.8 to a place, or to a token wherever it stands."""

    def __init__(self, tokens, follows):
        self.tokens, self.follows = tokens, follows

    def ready(self, tokens):
        return tokens

    def attend_tokens(self, texts):
        for tokens in texts:
            place = tokens.ids.index(self.tokens.ids[3]) if self.follows else 3
            weights = np.full((1, 1, len(tokens), len(tokens)), 0.2 / (len(tokens) - 1), np.float32)
            weights[..., place] = 0.8
            yield replace(record_of(weights), tokens=tokens)


@pytest.mark.parametrize("follows", [False, True])
def test_a_later_sink_is_a_place_and_not_a_token(minilm, follows):
    tokens = minilm.tokenizer.encode("one two three four five six seven eight")
    model = MadeUp(tokens, follows)
    [record] = model.attend_tokens([tokens])
    share, null, place = strongest_later(model, record, np.random.default_rng(0))
    assert place == 3 and share == pytest.approx(0.8)
    assert null == pytest.approx(0.8) if follows else null < 0.3


def test_a_kind_of_most_heads_is_compared_with_the_rest(by_hand):
    measure = KindMeasure("made up", *np.array([[[0.9, 0.8], [0.7, 0.0]]] * 3), np.zeros((2, 2)), 0.1)
    found = measure_silencing(
        by_hand,
        Judged(KINDS["sink"], [measure]),
        ("heads", lambda model: len(model.silenced_heads)),
        0,
        0,
        lambda: None,
    )
    assert (found.heads, found.effect, list(found.random)) == (1, 1, [1])


@pytest.mark.slow
def test_a_report_names_every_kind_and_nothing_else_knows_of_it(attncli, tiny, tmp_path, monkeypatch):
    monkeypatch.setenv("ATTNCLI_CACHE", str(tmp_path))
    report = kinds(str(tiny("bert")))
    document = report.document()
    assert [one["kind"] for one in document["kinds"]] == list(KINDS)
    assert not any(one["labels"] for one in document["heads"])
    assert all(re.search(rf"\b{name}\b", str(report)) for name in KINDS)
    assert "attncli kinds" not in attncli("run", "-m", str(tiny("bert")), "-l", "0", "-H", "0", "the cat sat").out


@pytest.mark.slow
def test_induction_heads_of_a_trained_decoder_agree_with_a_direct_computation(smollm2):
    """The weight on the token after the earlier occurrence, on tokens that are drawn here."""
    found = measured(smollm2)
    named = {one.kind.name: one for one in found.kinds}
    draw, half = np.random.default_rng(7), 25
    start = smollm2.tokenizer.encode("a").take([])
    scores = []
    for _ in range(4):
        ids = draw.choice(np.arange(1000, 40000), half, replace=False).tolist()
        [record] = smollm2.attend_tokens([smollm2.tokenizer.extend(start, ids + ids)])
        queries = np.arange(half, 2 * half - 1)
        scores.append(record.weights[:, :, queries, queries - half + 1].mean(axis=-1))
    direct = np.mean(scores, axis=0)
    assert np.corrcoef(direct.ravel(), named["induction"].measures[0].score.ravel())[0, 1] > 0.98
    assert named["induction"].heads[0] == (18, 7) and named["feeds induction"].heads == [(16, 0)]
    assert all(direct[head] > 0.2 for head in named["induction"].heads)
    for kind in ("induction", "feeds induction", "retrieval"):
        matter = found.silencing[kind]
        assert matter.effect > max(matter.random) + 0.5, kind


@pytest.mark.slow
@pytest.mark.parametrize("kept", [("--state", "sums"), ("--workers", "2")])
def test_shuffled_matrices_are_not_those_of_kept_sums_or_workers(attncli, tiny, tmp_path, monkeypatch, kept):
    """Sums are kept by the checkpoint, and workers open it: neither stands for the network with shuffled matrices."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "lines.txt").write_text("the cat sat\n" * 3, encoding="utf-8")
    line = ("kinds", "-m", str(tiny("bert")), "--treebank", str(TREES), "--json", "lines.txt")
    alone, other, again = (json.loads(attncli(*line, *more).out) for more in ((), kept, kept))
    floors = [[head["floor"]["syntactic"] for head in one["heads"]] for one in (alone, other, again)]
    assert floors[0] == floors[1] == floors[2]
    assert floors[0] != [head["score"]["syntactic"] for head in alone["heads"]]


@pytest.mark.slow
def test_what_was_measured_is_used_again_for_the_same_model_texts_and_options(attncli, tiny, tmp_path, monkeypatch):
    monkeypatch.setenv("ATTNCLI_CACHE", str(tmp_path / "cache"))
    texts = tmp_path / "lines.txt"
    texts.write_text("the cat sat\n" * 4, encoding="utf-8")
    line = ("kinds", "-m", str(tiny("gpt2")), "--treebank", str(TREES), "--json", str(texts))
    code, first, said = attncli(*line)
    assert code == 0 and "from the cache" not in said
    measuring = []
    monkeypatch.setattr("attncli.features.kinds.measuring.measure_kinds", lambda *_: measuring.append(1) or 1 / 0)
    code, again, said = attncli(*line)
    assert (code, again) == (0, first) and "read from the cache" in said
    texts.write_text("the cat sat\n" * 3 + "a mat\n", encoding="utf-8")
    for other in (line, (*line, "--limit", "3"), (*line, "--dtype", "float64"), (*line[:-1],)):
        assert attncli(*other).code != 0
    texts.write_text("the cat sat\n" * 4, encoding="utf-8")
    for path in (tmp_path / "cache" / "kinds" / "measured").iterdir():
        content = json.loads(path.read_text())
        for damage in ({"kinds": content["kinds"][1:]}, {"day": "x"}, {"texts": None}, {"silencing": {"sink": {}}}):
            path.write_text(json.dumps(content | damage))
            assert attncli(*line).code != 0
    assert len(measuring) == 8


@pytest.mark.slow
def test_kinds_of_a_model_with_silenced_heads_are_kept_nowhere(tiny, tmp_path, monkeypatch):
    monkeypatch.setenv("ATTNCLI_CACHE", str(tmp_path))
    found = kinds(load_model(str(tiny("bert")), device="cpu").without("0.1"))
    assert found.document()["model"]["changes"] == "without 0.1" and not (tmp_path / "kinds").exists()


def test_a_treebank_on_stdin_is_refused(attncli, tiny):
    result = attncli("kinds", "-m", str(tiny("bert")), "--treebank", "-")
    assert (result.code, result.err) == (2, "attncli: error: --treebank is read twice: name a file instead of -\n")


def test_run_and_view_name_the_kinds_in_a_file(attncli, by_hand, found, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    replace(found, part="decoder", measured="2026-11-28").save("kinds.json")
    line = ("run", "-m", str(by_hand.place.path), "-l", "0", "-H", "0", "the cat sat")
    assert "attncli kinds" not in attncli(*line).out
    origin = "attncli kinds, 2026-11-28"
    assert f"; previous, feeds induction ({origin}); entropy " in attncli(*line, "--kinds", "kinds.json").out
    record = with_kinds(by_hand.attend("the cat sat"), load_kinds(Path("kinds.json")))
    description, _ = payload([record], {})
    mask = description["texts"][0]["masks"][0]
    assert (mask["measured"], mask["kinds"][0][0]["measured"]) == (origin, ["previous", "feeds induction"])
    view = attncli("view", *line[1:3], "--kinds", "kinds.json", "-o", "page.html", "the cat sat")
    assert view.code == 0
    assert attncli(*line, "--kinds", "kinds.json", "--without", "0.1").code == 2
