"""Maps between lines, sentences and parts: sums over keys and means over queries of the map of tokens."""

import json

import numpy as np
import pytest
from checkpoints import make_checkpoint
from foreign_checkpoints import make_foreign

import attncli
from attncli import RequestError
from attncli.base.errors import no_notices
from attncli.features.find import find_edges
from attncli.features.inputs import record_source
from attncli.record.grouping import axes_of, group_record
from attncli.record.selection import Grouping, select_units
from attncli.text.units import PartedText

TEXT = "The cat sat. It was big!\nWhy?\nThe 猫 was (e.g. here) asleep."
TAGGED = 'Read. <doc id="1"> The cat sat. It slept. </doc> <doc id="2">A dog ran.</doc> Who ran?'
TEMPLATE = "{% for m in messages %}({{ m.role[0] }}){{ m.content | trim }}\n{% endfor %}(a)"


@pytest.fixture(scope="module", params=["minilm", "llama", "foreign"])
def model(request, minilm, tiny, foreign):
    """BERT's, a decoder of this program and one of transformers."""
    if request.param == "minilm":
        return minilm
    return attncli.load_model(str(tiny("llama")), "cpu") if request.param == "llama" else foreign("gpt2")


def units_by_hand(tokens, text, ends):
    """The tokens of each stretch of the text, by where their letters are; the first token and special ones alone."""
    groups, last = [], None
    for place, (start, end) in enumerate(tokens.offsets):
        begin = next((at for at in range(start, end) if not text[at].isspace()), start)
        alone = place == tokens.first or (tokens.special[place] and start == end)
        unit = None if alone else sum(begin >= one for one in ends)
        if unit is not None and unit == last:
            groups[-1].append(place)
        else:
            groups.append([place])
        last = unit
    return groups


def by_hand(record, groups):
    """The map between groups: sums over keys, means over queries."""
    columns = np.stack([record.weights[..., group].sum(axis=-1) for group in groups], axis=-1)
    return np.stack([columns[..., group, :].mean(axis=-2) for group in groups], axis=-2)


@pytest.mark.parametrize(
    ("unit", "ends"),
    [("line", [TEXT.index("Why"), TEXT.index("The 猫")]), ("sentence", [13, TEXT.index("Why"), TEXT.index("The 猫")])],
)
def test_a_unit_is_a_mean_over_its_queries_and_a_sum_over_its_keys(model, unit, ends):
    record = model.attend(TEXT)
    groups = units_by_hand(record.tokens, TEXT, ends)
    found = model.attend(TEXT, grouping=Grouping(unit=unit))
    np.testing.assert_allclose(found.weights, by_hand(record, groups), atol=1e-6)
    np.testing.assert_allclose(found.weights.sum(axis=-1), 1, atol=1e-5)
    again = group_record(record, Grouping(unit=unit))
    np.testing.assert_allclose(again.weights, found.weights, atol=1e-6)
    assert again.tokens == found.tokens and again.part == found.part
    assert found.part[2:4] == (f"{unit}s", len(groups))
    assert axes_of(Grouping(unit=unit), record.tokens).queries.groups == groups
    offsets = record.tokens.offsets
    assert found.tokens.offsets == [(offsets[group[0]][0], offsets[group[-1]][1]) for group in groups]


def test_parts_are_axes_and_what_is_in_none_is_the_rest(minilm):
    parted = PartedText.tagged(TAGGED)
    found = minilm.attend(parted.text, grouping=Grouping(unit="part", parted=parted))
    assert found.tokens.text == ["[CLS]", "(rest)", "doc 1", "doc 2", "(rest)", "[SEP]"]
    record = minilm.attend(parted.text)
    groups = units_by_hand(record.tokens, parted.text, [6, parted.parts[1].start, parted.parts[1].end + 1])
    np.testing.assert_allclose(found.weights, by_hand(record, groups), atol=1e-6)
    below = minilm.attend(parted.text, grouping=Grouping(unit="sentence", parted=parted)).tokens
    assert below.shown == [
        "[CLS]", "(rest): Read.", "doc 1: The cat sat.", "doc 1: It slept.", "doc 2: A dog ran.", "(rest): Who ran?",
        "[SEP]",
    ]  # fmt: skip
    assert below.text[2] == "The cat sat."


def test_a_decoder_has_its_first_token_apart(tiny):
    model = attncli.load_model(str(tiny("llama")), "cpu")
    found = model.attend("cat cat. Cat cat", grouping=Grouping(unit="sentence"))
    assert len(found.tokens) == 3 and len(found.tokens.text[0]) < len("cat cat.")


def test_a_pair_has_units_of_both_texts(minilm):
    tokens = minilm.attend("A cat. A dog.", "It ran. It sat.", grouping=Grouping(unit="sentence")).tokens
    assert tokens.text == ["[CLS]", "A cat.", "A dog.", "[SEP]", "It ran.", "It sat.", "[SEP]"]
    assert tokens.segments == [0, 0, 0, 0, 1, 1, 1]


def test_a_unit_ends_with_its_text_where_no_token_stands_between(tiny):
    """Both texts are as long, begin alike, and the first has a unit where the second ends."""
    model = attncli.load_model(str(tiny("llama")), "cpu")
    for pair in (("cat. cat", "cat. cat"), ("cat. cat", "cat. "), ("cat", "cat")):
        tokens = model.attend(*pair, grouping=Grouping(unit="sentence")).tokens
        assert [one.strip() for one in tokens.text[1:]] == [one for text in pair for one in text.split()]
        assert tokens.segments[1:] == [number for number, text in enumerate(pair) for _ in text.split()]


def test_a_number_is_a_place_even_where_a_part_is_named_so(minilm):
    parted = PartedText.joined([("0", "A cat.")], "It ran.")
    units = Grouping(unit="part", parted=parted)
    tokens = minilm.attend(parted.text, grouping=units).tokens
    assert select_units("0", tokens, units) == [0] and select_units("0#1", tokens, units) == [1]


def test_parts_are_those_of_the_first_text(minilm):
    """The second has its own characters, and no parts, even where it begins as the first does."""
    parted = PartedText.tagged("<a>A cat.</a> A dog.")
    units = Grouping(unit="part", parted=parted)
    tokens = minilm.attend(parted.text, "A cat.", grouping=units).tokens
    assert tokens.text == ["[CLS]", "a", "(rest)", "[SEP]", "(rest)", "[SEP]"]
    below = minilm.attend(parted.text, "A cat.", grouping=Grouping(unit="sentence", parted=parted)).tokens
    assert below.shown == ["[CLS]", "a: A cat.", "(rest): A dog.", "[SEP]", "A cat.", "[SEP]"]


def test_an_encoder_decoder_has_units_of_its_input_and_of_a_target(tmp_path):
    """Tokens that the model writes have no known text, so each is a unit. Parts belong to the input."""
    model = attncli.load_model(str(make_foreign(tmp_path / "t5", "t5")), "cpu")
    parted = PartedText.tagged("<a>the cat sat.</a> it is big.")
    units = Grouping(unit="part", parted=parted)
    record = model.attend(parted.text, grouping=units)
    plain = model.attend(parted.text)
    assert record.tokens.text == plain.tokens.text and record.key_tokens.text == ["the", "a", "(rest)", "</s>"]
    groups = units_by_hand(plain.key_tokens, parted.text, [parted.text.index("it")])
    columns = np.stack([plain.weights[..., group].sum(axis=-1) for group in groups], axis=-1)
    np.testing.assert_allclose(record.weights, columns, atol=1e-6)
    asked = model.attend(parted.text, target="the cat. it is", grouping=units)
    assert asked.tokens.text == ["<pad>", "(rest)"] and asked.key_tokens.text == record.key_tokens.text
    below = model.attend(parted.text, target="the cat. it is", grouping=Grouping(unit="sentence")).tokens
    assert below.text == ["<pad>", "the cat.", "it is"]
    with pytest.raises(RequestError, match="with --target"):
        model.attend(parted.text, which="decoder", grouping=units)


def test_padding_is_apart(minilm):
    tokens = minilm.attend("A cat. A dog.", pad_to=12, grouping=Grouping(unit="sentence")).tokens
    assert tokens.text == ["[CLS]", "A cat.", "A dog.", "[SEP]", *["[PAD]"] * 4]


def test_commands_show_units(attncli, tmp_path):
    (tmp_path / "notes.txt").write_text("The cat sat.\nIt slept.\n", encoding="utf-8")
    notes = f"notes={tmp_path / 'notes.txt'}"
    shown = attncli("run", "--unit", "part", "--part", notes, "-l", "0", "-H", "0", "Who slept?")
    assert "notes" in shown.out and "(rest)" in shown.out and "merged by part into 4 units" in shown.err
    found = json.loads(attncli("find", "notes", "*", "Who slept?", "--part", notes, "--unit", "part", "--json").out)
    assert found["tokens"] == ["[CLS]", "notes", "(rest)", "[SEP]"]
    document = json.loads(attncli("flow", "--unit", "sentence", "--json", "A cat. A dog.").out)
    assert document["tokens"] == ["[CLS]", "A cat.", "A dog.", "[SEP]"]
    differ = json.loads(attncli("diff", "--unit", "line", "--json", "A cat.\nA dog.", "A dog.\nA very big cat.").out)
    assert differ["second"]["tokens"] == ["[CLS]", "A dog.", "A very big cat.", "[SEP]"]


def test_usual_weights_of_sentences_are_those_of_the_text(minilm):
    """Other texts have no usual weight for them."""
    found = attncli.find(minilm, "*", "*", "A cat. A dog. It ran.", unit="sentence").document()
    record = minilm.attend("A cat. A dog. It ran.", grouping=Grouping(unit="sentence"))
    assert found["heads"] == find_edges([record], lambda words: None)["heads"] != []
    assert record_source(minilm, "A cat.", unit="word").usual() is not None
    assert record_source(minilm, "A cat.", unit="sentence").usual() is None


def test_tags_are_text_where_files_are_the_parts(minilm, tmp_path):
    (tmp_path / "notes.txt").write_text("The cat sat.", encoding="utf-8")
    part = [f"notes={tmp_path / 'notes.txt'}"]
    [record] = attncli.run(minilm, "<a>It slept.</a>", part=part, unit="part").records()
    assert record.tokens.text == ["[CLS]", "notes", "(rest)", "[SEP]"] and "<a>" in record.tokens.written[2]


def test_unit_word_is_words(attncli):
    for command in ("run", "flow", "find * *"):
        name, *more = command.split()
        if name == "find":
            assert attncli(name, *more, TEXT, "--unit", "word").code == 0
            continue
        assert attncli(name, "--unit", "word", TEXT) == attncli(name, "--words", TEXT)


def test_saved_records_have_units_too(attncli, tmp_path):
    saved = tmp_path / "a.npz"
    assert attncli("run", "-o", saved, TEXT).code == 0
    for command in (["run", "-l", "1"], ["flow"], ["run", "-l", "1", "-H", "2"]):
        again = attncli(*command, "--unit", "sentence", "--from", saved)
        assert again.out == attncli(*command, "--unit", "sentence", TEXT).out and again.code == 0
    assert "a saved record does not know the parts" in attncli("run", "--unit", "part", "--from", saved).err


CODE = "def f(x):\n    if x < 3 and y > 2:\n        return vector<int>(x)\n\nf(1)"


@pytest.mark.parametrize(
    ("unit", "text", "units"),
    [
        ("sentence", "猫坐在垫子上。它很大！狗呢？", ["猫坐在垫子上。", "它很大！", "狗呢？"]),
        ("part", '<doc id="1">猫坐在垫子上。</doc><doc id="2">它很大！</doc>狗呢？', ["doc 1", "doc 2", "(rest)"]),
        ("line", CODE, ["def f(x):", "if x < 3 and y > 2:", "return vector<int>(x)", "f(1)"]),
        ("part", f"<code>\n{CODE}\n</code>\nWhat does f do?", ["code", "(rest)"]),
        ("part", f"<a>{'the cat sat on the mat. ' * 60}</a>", ["a"]),
        ("part", "<a></a> <b> </b> the cat", ["(rest)"]),
        ("part", "<a>the <a>cat</a> sat</a> on", ["a", "a 2", "a", "(rest)"]),
        ("part", "<a>the cat</a><a>sat</a>", ["a", "a 2"]),
        ("part", "<d id='\x1b[2J'>the cat</d> sat", ["d \x1b[2J", "(rest)"]),
        ("word", "  猫\n\n🙂 ", ["猫", "🙂"]),
    ],
)
def test_hard_texts_are_cut_right(attncli, unit, text, units):
    printed = attncli("run", "--unit", unit, "-l", "0", "-H", "0", "--json", text)
    [record] = json.loads(printed.out)["records"]
    assert [one.removeprefix("[UNK:").removesuffix("]") for one in record["tokens"][1:-1]] == units
    np.testing.assert_allclose(np.sum(record["attention"][0]["weights"], axis=-1), 1, atol=1e-5)
    assert "\x1b" not in attncli("run", "--unit", unit, "-l", "0", "-H", "0", text).out


@pytest.mark.slow
def test_parts_of_20_000_tokens(tmp_path):
    """A map between parts takes the memory of its cells: one between tokens would have 400 million a head."""
    folder = make_checkpoint(tmp_path / "long", "llama", num_hidden_layers=1, max_position_embeddings=21_000)
    text = f"<a>{'the cat sat. ' * 3000}</a> <b>it is big</b> <c>{'on the cat ' * 500}</c> the"
    model = attncli.load_model(str(folder), "cpu")
    [record] = attncli.run(model, text, unit="part", layer="0", head="0").records()
    tokens = model.tokenizer.encode(PartedText.tagged(text).text)
    assert len(tokens) > 18_000 and record.tokens.text[1:] == ["a", "b", "c", "(rest)"]
    np.testing.assert_allclose(record.weights.sum(axis=-1), 1, atol=1e-4)


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("run", "--unit", "part", "A cat."), "the text has no parts"),
        (("run", "--unit", "part", "<a>x <b> y</a> z</b>"), "parts can't overlap"),
        (("run", "--unit", "part", "<a>x</a><a>y"), "<a> on line 1 is not closed: add </a> after its text"),
        (("run", "--unit", "part", "<a>x y"), "the text has no parts"),
        (("run", "--unit", "part", "<a></a>"), "the text is empty"),
        (("cut", "--unit", "part", "A cat."), "the text has no parts"),
        (("cut", "--unit", "part", "--cut", "a", "b", "<a>A cat.</a>"), "no token 'b' in the text: it has [CLS], a"),
        (("cut", "--chat", "--pair", "A dog.", "A cat."), "has no effect with --chat"),
        (("cut", "--chat", "A cat."), "has no chat template"),
        (("run", "--unit", "part", "<a>A cat.</a><b id=1>"), "<b id=1> on line 1 is not closed"),
        (("run", "--unit", "sentence", "--words", "A cat."), "--words has no effect with --unit"),
        (("run", "--unit", "sentence", "--tokens", "1-2", "A cat."), "omit one of them"),
        (("run", "--unit", "sentence", "--vectors", "0.0", "-o", "a.npz", "A cat."), "omit --vectors or --unit"),
        (("run", "--part", "notes", "A cat."), "--part takes NAME=FILE"),
        (("run", "--part", "a=nowhere.txt", "A cat."), "can't read nowhere.txt"),
        (("run", "--chat", "A cat."), "has no chat template"),
        (("run", "--chat", "nowhere.json"), "can't be read"),
        (("find", "--by", "previous", "--unit", "line", "A cat."), "--unit has no effect with --by previous"),
    ],
)
def test_what_has_no_units_is_one_line(attncli, words, why):
    result = attncli(*words)
    assert result.code == 2 and why in result.err and result.err.count("\n") <= 2, result.err


def test_a_chat_is_read_as_its_model_reads_it(tiny, tmp_path):
    from pathlib import Path

    folder = tmp_path / "chatty"
    folder.mkdir()
    for file in Path(tiny("llama")).iterdir():
        (folder / file.name).symlink_to(file)
    (folder / "chat_template.jinja").write_text(TEMPLATE, encoding="utf-8")
    messages = [{"role": "system", "content": "the cat"}, {"role": "user", "content": " cat cat"}]
    (tmp_path / "a.json").write_text(json.dumps(messages), encoding="utf-8")
    with no_notices():
        one, *more = attncli.run(str(folder), str(tmp_path / "a.json"), chat=True, unit="part").records()
        plain, *_ = attncli.run(str(folder), str(tmp_path / "a.json"), chat=True).records()
    assert more == [] and one.tokens.text[1:] == ["template", "system", "template", "user", "template"]
    assert "".join(plain.tokens.written) == "(s)the cat\n(u)cat cat\n(a)"
    tokenizer = attncli.load_model(str(folder), "cpu").tokenizer
    assert plain.tokens.ids == tokenizer.encode_marked("(s)the cat\n(u)cat cat\n(a)").ids
    with pytest.raises(RequestError, match="pair has no effect with --chat"):
        attncli.run(str(folder), "cat", chat=True, pair="cat")
