"""attncli generate: what is written, what each token was made of, and the same with a change."""

import json
import re
import shutil
from itertools import cycle
from pathlib import Path

import numpy as np
import pytest
import torch
from checkpoints import edit_config, make_checkpoint, make_config, make_network
from foreign_checkpoints import make_foreign
from safetensors.torch import load_file, save_file
from startup import ATTNCLI, run

import attncli as package
from attncli import load_model, load_record
from attncli.analysis.edges import Usual, edges
from attncli.corpus.usual import usual_of
from attncli.record import Request

TEXT = "the cat sat on"
FEW = ["--max-tokens", "6"]


@pytest.fixture(scope="module")
def decoder(tmp_path_factory):
    """A small Llama that takes no token for the end."""
    directory = make_checkpoint(tmp_path_factory.mktemp("made") / "llama", "llama", "ForCausalLM")
    edit_config(directory, eos_token_id=None)
    (directory / "generation_config.json").unlink(missing_ok=True)
    return directory


@pytest.fixture
def written(attncli, decoder):
    """`written(...)` -> the document that --json prints."""

    def run(*arguments):
        result = attncli("generate", "-m", decoder, TEXT, *FEW, *arguments, "--json")
        assert result.code == 0, result.err
        return json.loads(result.out)

    return run


def test_greedy_text_and_probabilities_are_those_of_transformers(written, decoder):
    document = written()
    network = make_network(make_config("llama"), "ForCausalLM")
    tokens = load_model(decoder, "cpu").tokenizer.encode(TEXT)
    ids = torch.tensor([tokens.ids])
    names = load_model(decoder, "cpu").vocabulary()
    for number, token in enumerate(document["tokens"]):
        with torch.inference_mode():
            expected = network(ids).logits[0, -1].softmax(dim=-1)
        best = expected.topk(5)
        assert token["index"] == len(tokens) + number and token["token"] == names[best.indices[0]]
        assert [one["token"] for one in token["likely"]] == [names[one] for one in best.indices]
        np.testing.assert_allclose([one["probability"] for one in token["likely"]], best.values, atol=1e-4)
        assert token["probability"] == token["likely"][0]["probability"]
        ids = torch.cat([ids, best.indices[None, :1]], dim=1)
    assert len(document["tokens"]) == 6 and not document["ended"]


def test_the_text_is_printed_as_it_is_written_and_each_token_has_a_row(attncli, decoder, written):
    out = attncli("generate", "-m", decoder, TEXT, *FEW).out
    document = written()
    assert out.startswith(f"llama · the likeliest tokens\n{TEXT}")
    for token in document["tokens"]:
        assert f"{token['probability']:.1%}" in out


def test_a_record_of_the_whole_is_one_pass_over_the_whole_text(attncli, decoder, tmp_path, written):
    result = attncli("generate", "-m", decoder, TEXT, *FEW, "-o", tmp_path / "w.safetensors")
    assert result.code == 0 and result.out == f"{tmp_path / 'w.safetensors'}\n"
    record = load_record(tmp_path / "w.safetensors")
    model = load_model(decoder, "cpu")
    count = len(model.tokenizer.encode(TEXT))
    assert record.written == count and len(record.tokens) == count + 6 and record.kind == "decoder"
    [expected] = model.attend_tokens([record.tokens])
    np.testing.assert_allclose(record.weights, expected.weights, atol=1e-6)
    assert [answer.start for answer in record.prediction.answers[::5]] == list(range(count - 1, count + 5))
    sinks = [token["sink"] for token in written()["tokens"]]
    np.testing.assert_allclose(sinks, record.weights[:, :, count - 1 : -1, 0].mean(axis=(0, 1)), atol=1e-6)


@pytest.fixture
def long_decoder(tmp_path):
    """A decoder that reads 4,000 tokens."""
    directory = make_checkpoint(tmp_path / "long", "llama", "ForCausalLM", max_position_embeddings=4000)
    edit_config(directory, eos_token_id=None)
    return directory


@pytest.mark.slow
def test_a_long_prompt_keeps_no_map(long_decoder, tmp_path):
    """All maps of 3,000 tokens in 16 heads would take 576 MB."""
    (tmp_path / "long.txt").write_text(" ".join(["the cat sat on"] * 450))
    command = [*ATTNCLI, "generate", "-m", str(long_decoder), "--max-tokens", "2"]
    folder, cache = Path(package.__file__).parents[1], tmp_path / "cache"
    cache.mkdir()
    short, long = (
        run([*command, *text], folder, cache).memory for text in ([TEXT], ["-f", str(tmp_path / "long.txt")])
    )
    assert len(load_model(long_decoder, "cpu").tokenizer.encode((tmp_path / "long.txt").read_text())) > 3000
    assert long - short < 150


def test_maps_that_do_not_fit_are_refused_before_anything_is_written(attncli, decoder, monkeypatch, tmp_path):
    from attncli.models import engine, generation

    monkeypatch.setattr(engine, "available", lambda: 100)
    monkeypatch.setattr(engine, "SMALL", 0)
    monkeypatch.setattr(generation, "write", None)
    result = attncli("generate", "-m", decoder, TEXT, *FEW, "-o", tmp_path / "w.npz")
    assert result.code == 2 and "omit -o" in result.err and len(result.err.splitlines()) == 1
    assert not (tmp_path / "w.npz").exists()


BEGIN = f"{TEXT} the"
END = "m, it sat.\n\nThe cat (it's 3), the cat"


@pytest.fixture
def written_end(attncli, decoder, monkeypatch):
    """`written_end(...)` -> the document of `generate` on BEGIN when the model writes END."""
    from attncli.models import generation

    tokenizer = load_model(decoder, "cpu").tokenizer
    start, whole = (tokenizer.encode(text).ids for text in (BEGIN, BEGIN + END))
    assert whole[: len(start)] == start

    def run(*arguments):
        ids = cycle(whole[len(start) :])
        monkeypatch.setattr(generation, "choose", lambda *_: next(ids))
        most = ["--max-tokens", str(len(whole) - len(start))]
        return json.loads(attncli("generate", "-m", decoder, BEGIN, *most, *arguments, "--json").out)

    return run


@pytest.mark.parametrize("without", [(), ("--without", "2.1,3.0")])
def test_edges_are_those_of_the_same_text_read_as_a_prompt(attncli, decoder, written_end, without):
    document = written_end(*without)
    model = load_model(decoder, "cpu")
    model = model.without(without[1]) if without else model
    record = model.attend(BEGIN + END)
    assert document["text"] == END
    found = edges(record, Usual.with_text(record, usual_of(model, Request())))
    expected = {(one.layer, one.head, one.query, one.key): one for of_head in found for one in of_head}
    first, last = document["tokens"][0]["index"] - 1, document["tokens"][-1]["index"] - 1
    said = {
        (one["layer"], one["head"], one["query"], one["key"]): one
        for token in document["tokens"]
        for one in token["edges"]
    }
    assert said.keys() == {place for place in expected if first <= place[2] <= last} != set()
    for place, one in said.items():
        assert one["weight"] == pytest.approx(expected[place].weight, abs=1e-6)
        assert one["usual"] == pytest.approx(expected[place].usual, abs=1e-6)
        assert not without or place[:2] not in ((2, 1), (3, 0))
        ends = [record.tokens.shown[number] for number in place[2:]]
        assert all(any(map(str.isalnum, token)) for token in ends), ends


def test_a_page_lists_the_steps(attncli, decoder, tmp_path):
    path = tmp_path / "w.html"
    assert attncli("generate", "-m", decoder, TEXT, *FEW, "-o", path).code == 0
    assert '"steps":' in path.read_text(encoding="utf-8")


def test_without_heads_the_text_is_that_of_the_model_without_them(written, decoder):
    heads = "0.all,1.all,2.0-2"
    document = written("--without", heads)
    model, silenced = load_model(decoder, "cpu"), load_model(decoder, "cpu").without(heads)
    place, (one, other) = document["difference"]["place"], document["difference"]["tokens"]
    assert document["changes"] == f"without {heads}" and one != other
    before = model.tokenizer.extend(model.tokenizer.encode(TEXT), [])
    ids = [model.vocabulary().index(token["token"]) for token in document["tokens"]]
    text = model.tokenizer.extend(before, ids[:place])
    for engine, found in zip((model, silenced), document["difference"]["probabilities"], strict=True):
        [hidden] = engine.last_hidden([text])
        [[logits]] = engine.outputs()["next"]([hidden], [text], [[len(text) - 1]])
        assert found[1] == pytest.approx(float(logits.softmax(dim=-1)[ids[place]]), abs=1e-5)
    assert document["unchanged"]["text"] == written()["text"]


def test_heads_that_do_nothing_change_nothing(attncli, tmp_path):
    """The control: where the heads' output is multiplied with 0, silencing them changes no token."""
    directory = make_checkpoint(tmp_path / "idle", "llama", "ForCausalLM")
    tensors = load_file(directory / "model.safetensors")
    tensors["model.layers.1.self_attn.o_proj.weight"].zero_()
    save_file(tensors, directory / "model.safetensors", metadata={"format": "pt"})
    result = attncli("generate", "-m", directory, TEXT, *FEW, "--without", "1.all")
    assert "without 1.all: the same 6 tokens" in result.out


def test_a_cut_key_gets_no_weight_from_any_later_row(attncli, decoder, tmp_path):
    path = tmp_path / "cut.safetensors"
    model = load_model(decoder, "cpu")
    tokens = model.tokenizer.encode(TEXT)
    key = len(tokens) - 2
    result = attncli("generate", "-m", decoder, TEXT, *FEW, "--cut", "*", str(key), "-o", path)
    assert result.code == 0, result.err
    record = load_record(path)
    assert (record.weights[:, :, key + 1 :, key] == 0).all() and record.weights[:, :, key, key].any()
    np.testing.assert_allclose(record.weights.sum(axis=-1), 1.0, atol=1e-5)


def test_sampling_is_the_same_with_the_same_seed(written):
    first, again, other = (written("--sample", "--seed", seed)["text"] for seed in ("1", "1", "2"))
    assert first == again != other
    assert written("--sample", "--top-p", "0")["text"] == written()["text"]  # the likeliest is always kept


def test_it_ends_with_the_end_token(attncli, decoder, written, tmp_path):
    directory = tmp_path / "ends"
    shutil.copytree(decoder, directory)
    ids = [load_model(decoder, "cpu").vocabulary().index(one["token"]) for one in written()["tokens"]]
    last = next(number for number in range(1, 6) if ids[number] not in ids[:number])
    edit_config(directory, eos_token_id=[ids[last]])
    document = json.loads(attncli("generate", "-m", directory, TEXT, *FEW, "--json").out)
    assert document["ended"] and len(document["tokens"]) == last + 1


# --- units and the lens ---------------------------------------------------------------------------------

DOCUMENTS, PROMPT = "<doc>the cat sat.</doc> <doc>it is big.</doc> the cat", "the cat sat. it is big. the cat"


def three_units(tokens):
    """The tokens of the three sentences of PROMPT, by their first letters; the first token, a sink, is in none."""
    groups = [[], [], []]
    for place, (start, end) in enumerate(tokens.offsets[1:], start=1):
        begin = next((at for at in range(start, end) if PROMPT[at] != " "), start)
        groups[sum(begin >= one for one in (13, 24))].append(place)
    return groups


@pytest.mark.parametrize("unit", ["part", "sentence"])
def test_units_have_their_shares_of_the_rows_that_wrote(attncli, decoder, tmp_path, unit):
    """Means over heads and layers of sums over tokens; the first token, a sink, is apart."""
    line = ("generate", "-m", decoder, DOCUMENTS if unit == "part" else PROMPT, *FEW, "--unit", unit)
    document = json.loads(attncli(*line, "--json").out)
    tokens = load_model(decoder, "cpu").tokenizer.encode(PROMPT)
    assert attncli("generate", "-m", decoder, PROMPT, *FEW, "-o", tmp_path / "tokens.npz").code == 0
    record = load_record(tmp_path / "tokens.npz")
    whole = record.tokens
    assert whole.text[len(tokens) :] == [one["token"] for one in document["tokens"]]
    groups = [*three_units(tokens), list(range(len(tokens), len(whole)))]
    assert document["prompt"] == PROMPT and all(groups)
    names = ["doc", "doc 2", "(rest)"] if unit == "part" else ["the cat sat.", "it is big.", "the cat"]
    for step, entry in enumerate(document["tokens"]):
        row = record.weights[:, :, len(tokens) - 1 + step].mean(axis=(0, 1))
        counts = [sum(place < len(tokens) + step for place in group) for group in groups]
        found = {one["unit"]: (one["share"], one["length"]) for one in entry["units"]}
        assert list(found) == [*names, *(["(written)"] if step else [])]
        for (share, length), group, count in zip(found.values(), groups, counts, strict=False):
            assert share == pytest.approx(row[group].sum() / row[1:].sum(), abs=1e-5)
            assert length == pytest.approx(count / sum(counts))
    shown = attncli(*line).out
    best = max(document["tokens"][0]["units"], key=lambda one: one["share"])
    assert f"{best['unit']} {best['share']:.2f} ({best['length']:.2f})" in shown
    saved = tmp_path / "units.npz"
    assert attncli(*line, "-o", saved).code == 0
    units = load_record(saved)
    assert units.tokens.shown[1:4] == names and units.written == 4 and len(units.tokens) == 4 + 6
    assert units.tokens.shown[4:] == whole.shown[len(tokens) :]
    np.testing.assert_allclose(
        units.weights[:, :, 4:, 1], record.weights[:, :, len(tokens) :, groups[0]].sum(-1), atol=1e-6
    )


def test_a_unit_is_cut_as_its_tokens(attncli, decoder):
    places = three_units(load_model(decoder, "cpu").tokenizer.encode(PROMPT))[1]
    found, plain = (
        json.loads(attncli("generate", "-m", decoder, *more, *FEW, "--json").out)
        for more in (
            (DOCUMENTS, "--unit", "part", "--cut", "*", "doc 2"),
            (
                PROMPT,
                *(word for place in places for word in ("--cut", "*", str(place))),
            ),
        )
    )
    assert found["text"] == plain["text"] != found["unchanged"]["text"]
    assert [one["probability"] for one in found["tokens"]] == [one["probability"] for one in plain["tokens"]]
    assert {one["unit"]: one["share"] for one in found["tokens"][0]["units"]}["doc 2"] == 0


def test_the_units_of_a_chat_are_its_messages(attncli, tmp_path):
    directory = chat(make_checkpoint(tmp_path / "chat", "llama", "ForCausalLM"), TEMPLATE)
    messages = [{"role": "system", "content": "it is big"}, {"role": "user", "content": "the cat"}]
    (tmp_path / "a.json").write_text(json.dumps(messages))
    line = ("generate", "-m", directory, "--chat", tmp_path / "a.json", *FEW, "--unit", "part", "--json")
    for entry in json.loads(attncli(*line).out)["tokens"]:
        assert [one["unit"] for one in entry["units"]][:3] == ["template", "system", "user"]
        assert sum(one["share"] for one in entry["units"]) == pytest.approx(1)
        assert sum(one["length"] for one in entry["units"]) == pytest.approx(1)


def test_a_template_of_special_tokens_alone_is_a_unit(attncli, tmp_path):
    template = "{% for m in messages %}<s>{{ m.content }}</s>{% endfor %}"
    directory = chat(make_checkpoint(tmp_path / "chat", "llama", "ForCausalLM"), template)
    line = ("generate", "-m", directory, "--chat", "the cat", "--max-tokens", "1", "--unit", "part", "--json")
    [entry] = json.loads(attncli(*line).out)["tokens"]
    assert [one["unit"] for one in entry["units"]] == ["user", "template"] and entry["units"][1]["length"] > 0


def test_an_encoder_decoder_has_units_of_its_input(attncli, tmp_path):
    directory = make_foreign(tmp_path / "t5", "t5")
    line = ("generate", "-m", directory, "the cat sat. it is big.", "--max-tokens", "3", "--unit", "sentence", "--json")
    for entry in json.loads(attncli(*line).out)["tokens"]:
        assert [one["unit"] for one in entry["units"]] == ["cat sat.", "it is big."]  # the first token is apart
        assert sum(one["share"] for one in entry["units"]) == pytest.approx(1)


def test_the_lens_of_each_token_is_transformers_head_on_each_hidden_state(attncli, decoder, written):
    """Their final norm, then their head, on the vectors of the token before."""
    document = written("--lens")
    network = make_network(make_config("llama"), "ForCausalLM")
    model = load_model(decoder, "cpu")
    names, before = model.vocabulary(), len(model.tokenizer.encode(TEXT)) - 1
    ids = model.tokenizer.encode(TEXT).ids + [names.index(one["token"]) for one in document["tokens"]]
    with torch.inference_mode():
        made = network(torch.tensor([ids]), output_hidden_states=True)
        states = [network.lm_head(network.model.norm(one[0])) for one in made.hidden_states[:-1]]
        chances = torch.stack([*states, made.logits[0]]).softmax(dim=-1)  # [layer, token, label]
    for place, entry in enumerate(document["tokens"], start=before):
        assert [one["layer"] for one in entry["lens"]] == [None, 0, 1, 2, 3]
        for row, one in enumerate(entry["lens"]):
            best = chances[row, place].topk(5)
            assert [each["token"] for each in one["likeliest"]] == [names[number] for number in best.indices]
            np.testing.assert_allclose([each["probability"] for each in one["likeliest"]], best.values, atol=1e-5)
        assert entry["lens"][-1]["likeliest"][0]["probability"] == pytest.approx(entry["probability"], abs=1e-5)
    of_one = written("--lens", "--query", str(before + 2))
    assert of_one["lens"]["layers"] == document["tokens"][2]["lens"] and "lens" not in of_one["tokens"][0]
    assert of_one["lens"]["query"]["token"] == document["tokens"][1]["token"]
    assert "lens" not in document and of_one["lens"] == json.loads(
        attncli("run", "-m", decoder, TEXT, "--lens", "--query", str(before), "--json").out
    )["lens"] | {name: of_one["lens"][name] for name in ("query", "tokens", "layers")}


def test_the_lens_in_the_terminal(attncli, decoder, written):
    """The layer from which on the token is the likeliest, and what some layers would predict."""
    out = attncli("generate", "-m", decoder, TEXT, *FEW, "--lens").out
    assert "the final norm and the output head, applied early" in " ".join(out.split())
    rows = [line.split() for line in out.splitlines() if "%" in line]
    for row, entry in zip(rows, written("--lens")["tokens"], strict=True):
        tops = [one["likeliest"][0] for one in entry["lens"]]
        same = [top["token"] == entry["token"] for top in tops]
        first = next(number for number in range(5) if all(same[number:]))
        assert row[1] == f"{entry['probability']:.1%}" and row[2] == ("embeddings" if first == 0 else str(first - 1))
        assert [cell for cell in row[3:] if cell[0].isdigit()] == [f"{top['probability']:.2f}" for top in tops[1:4]]
    one = attncli("generate", "-m", decoder, TEXT, *FEW, "--lens", "--query", "cat").out
    assert "after token" in one and one.count("layer") == 5 + " ".join(one.split()).count("each layer")


def test_a_silenced_head_is_silenced_in_the_lens(written, decoder):
    document = written("--lens", "--without", "1.all")
    for entry in document["tokens"]:
        assert entry["lens"][-1]["likeliest"][0]["probability"] == pytest.approx(entry["probability"], abs=1e-5)
    assert document["tokens"][0]["lens"][1] == written("--lens")["tokens"][0]["lens"][1]  # before that layer


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("--lens", "--unit", "word"), "--unit has no effect with --lens"),
        (("--lens", "--cut", "*", "cat"), "--cut has no effect with --lens: silence heads instead"),
        (("--query", "cat"), "--query has no effect without --lens"),
        (("--lens", "-o", "a.npz"), "--lens has no effect on a record"),
        (("--lens", "--query", "dog"), "no token 'dog' in the text"),
        (("--unit", "part"), "the text has no parts"),
        (("--chat", "--part", "a=b.txt"), "--part has no effect with --chat"),
        (("--part", "a"), "--part takes NAME=FILE"),
    ],
)
def test_what_has_no_units_and_no_lens_is_one_line(attncli, decoder, words, why):
    result = attncli("generate", "-m", decoder, TEXT, *FEW, *words)
    assert result.code == 2 and why in result.err and len(result.err.splitlines()) == 1, result.err


TEMPLATE = (
    "{% for m in messages %}<s>{{ m.role }}: {{ m.content }}{% endfor %}{% if add_generation_prompt %} a:{% endif %}"
)


def chat(directory, template):
    path = directory / "tokenizer_config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "chat_template": template}))
    return directory


def test_a_chat_has_the_templates_text_around_it(attncli, tmp_path):
    directory = chat(make_checkpoint(tmp_path / "chat", "llama", "ForCausalLM"), TEMPLATE)
    path = tmp_path / "chat.safetensors"
    assert attncli("generate", "-m", directory, "the cat", "--chat", *FEW, "-o", path).code == 0
    record = load_record(path)
    assert record.tokens.text[0] == "<s>" and record.tokens.special[0] and record.tokens.text.count("<s>") == 1
    assert "".join(record.tokens.shown[1 : record.written]) == "user: the cat a:"
    shown = record.tokens.shown
    begin, end = shown.index(" the"), record.written - len([" a", ":"])
    out = " ".join(attncli("generate", "-m", directory, "the cat", "--chat", *FEW).out.split())
    before, after = "".join(shown[:begin]), "".join(shown[end : record.written])
    assert f'tokens 0-{begin - 1} before the text ("{before}") and {end}-{record.written - 1} after the text' in out
    messages = [{"role": "system", "content": "it is big"}, {"role": "user", "content": "the cat"}]
    (tmp_path / "a.json").write_text(json.dumps(messages))
    out = " ".join(attncli("generate", "-m", directory, "--chat", tmp_path / "a.json", *FEW).out.split())
    assert "tokens of the prompt: template 0-" in out and re.search(r"system \d+-\d+, template \S+ user \d+-", out), out
    assert after == " a:" and "from the chat template" not in attncli("generate", "-m", directory, "the cat", *FEW).out


def test_a_hostile_template_is_one_line(attncli, tmp_path):
    template, says = "{{ raise_exception('not\\x1b[31m for you') }}", r"not\\x1b\[31m for you"
    directory = chat(make_checkpoint(tmp_path / "chat", "llama", "ForCausalLM"), template)
    result = attncli("generate", "-m", directory, "the cat", "--chat", *FEW)
    assert result.code == 2 and len(result.err.splitlines()) == 1 and "\x1b" not in result.err
    assert "chat template" in result.err and re.search(says, result.err), result.err


def test_an_encoder_decoder_writes_what_it_always_wrote(attncli, tmp_path):
    directory = make_foreign(tmp_path / "t5", "t5")
    model = load_model(directory, "cpu")
    fed, ids = model.decoder_input(model.tokenizer.encode("the cat sat on the mat"), None)
    document = json.loads(
        attncli("generate", "-m", directory, "the cat sat on the mat", "--max-tokens", str(len(ids)), "--json").out
    )
    names = model.tokenizer.backend.id_to_token
    assert [one["token"] for one in document["tokens"]][:1] == [names(ids[0])]
    assert len(fed) == len(ids)


def test_the_text_comes_while_it_is_written(decoder, monkeypatch):
    """Each piece is out before the next step is computed."""
    from attncli.models import generation

    steps = []
    write = generation.write

    def counted(*arguments):
        for step in write(*arguments):
            steps.append(step)
            yield step

    monkeypatch.setattr(generation, "write", counted)
    found = package.generate(str(decoder), TEXT, max_tokens=6)
    seen = [len(steps) for report in found.reports() if report.verbatim is not None]
    assert seen[0] < 6 == seen[-1] and seen == sorted(seen) and len(set(seen)) > 2  # some end inside a character
    assert [one.verbatim for one in found.reports()][-1] is None and len(steps) == 6  # it is written once


def test_in_python_a_text_is_written_when_it_is_asked_for(attncli, decoder, written):
    found = package.generate(load_model(decoder, "cpu"), TEXT, max_tokens=6)
    assert repr(found) == f'<WrittenText of {decoder}: the likeliest tokens, after "{TEXT}">'
    texts = [found.text for one in found.reports() if one.verbatim is not None]
    assert {*texts} == {written()["text"]}
    assert str(found) == attncli("generate", "-m", decoder, TEXT, *FEW).out.partition("\nNext: ")[0]
    assert found.record().written == len(found.plain.tokens)
