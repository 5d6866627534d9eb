"""Lines, sentences and parts of a text, and the tokens in them."""

import time
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attncli import load_model
from attncli.base.errors import RequestError
from attncli.text.tokens import named_pieces
from attncli.text.units import Part, PartedText, lines, numbered, sentences, unit_tokens

SENTENCES = {
    "two": ["The cat sat.", "It slept."],
    "marks": ["Really?!", "Yes!", "Wait...", "No…", "Done"],
    "uncased": ["the cat sat.", "it slept.", "why?", "no."],
    "titles": ["Dr. Smith met Mrs. Jones, e.g. in St. Ives, cf. Fig. 3.", "Then he left."],
    "latin": ["Use a list, i.e. an array.", "See Prof. X vs. Dr. No. 5 for more."],
    "initials": ["The U.S. Army met J. R. R. Tolkien at 5 p.m. on Monday.", "He lives in the U.S.", "It is big."],
    "last": ["They sell tea, etc.", "Apple Inc. makes it; Foo Inc.", "Bar followed.", "See Smith et al. for more."],
    "numbers": [
        "Pi is 3.14 and v1.2.3 is on example.com.",
        "See No. 5, p. 7, on Jan. 3.",
        "I said no.",
        "In 1990.",
        "Ok.",
    ],
    "decimal": ["It costs $1.50.", "2 is even."],
    "quotes": ['He said: "It is big."', "She left.", '"Is it?" he asked.', "“Yes!”", "(It was.)", "‘Why?’ said Ann."],
    "ellipsis": ["It was ... odd... but true.", "Wait...", "What?"],
    "closing": ["It is **done.**", "It is known.[1]", "So [2] says.", "End."],
    "enumerated": ["Steps follow.", "1. Take it.", "2. Put it (a. here, b. there).", "a) Go."],
    "chinese": [
        "猫坐在垫子上。",
        "它很大！",
        "真的？！",
        "他说：“你好。”",
        "然后走了。",
        "“走吧！”，他说。",
        "圆周率是3.14。",
    ],
    "mixed": ["What is 猫?", "猫 is a cat.", "真的?", "不是!", "是"],
    "japanese": ["「行こう。」", "彼は言った。", "何？"],
    "others": ["यह बड़ा है।", "वह छोटा है।", "هل هو كبير؟", "نعم."],
    "german": ["Es gibt z.B. Katzen, d.h. Tiere, bzw. Hunde usw. und mehr.", "Nr. 5 lebt."],
}


@pytest.mark.parametrize("expected", SENTENCES.values(), ids=SENTENCES)
@pytest.mark.parametrize("between", [" ", "  ", "\n\n"], ids=["space", "spaces", "blank line"])
def test_sentences_end_where_a_reader_says(expected, between):
    text = between.join(expected)
    assert [text[start:end].strip() for start, end in sentences(text)] == expected


def test_chinese_sentences_need_no_space():
    expected = SENTENCES["chinese"]
    assert [text for start, end in sentences("".join(expected)) if (text := "".join(expected)[start:end])] == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("A heading\nThe cat sat on\nthe mat, and\nslept.", ["A heading", "The cat sat on\nthe mat, and\nslept."]),
        ("Buy:\n- milk\n- bread and\n  butter\n* eggs", ["Buy:", "- milk", "- bread and", "butter", "* eggs"]),
        ("1. Take it.\n2. Put it.\n10. Go", ["1. Take it.", "2. Put it.", "10. Go"]),
        ("def f(x):\n    return x\n\nf(1)", ["def f(x):", "return x", "f(1)"]),
        ("| a | b |\n| 1 | 2 |", ["| a | b |", "| 1 | 2 |"]),
        ("one\r\n\r\nTwo\r\nthree.", ["one", "Two", "three."]),
        ("  \n one.  Two. \n ", ["one.", "Two."]),
        ("猫坐在\n垫子上。", ["猫坐在", "垫子上。"]),
        ("...", ["..."]),
        ("Dr.", ["Dr."]),
        (" ", [""]),
        ("", []),
    ],
)
def test_a_line_break_ends_a_sentence_unless_it_goes_on(text, expected):
    assert [text[start:end].strip() for start, end in sentences(text)] == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a\nb", ["a\n", "b"]),
        ("\n a\n\n  \n  b\n", ["\n a\n\n  \n", "  b\n"]),
        ("a\r\nb\r\n", ["a\r\n", "b\r\n"]),
        ("", []),
        ("\n", ["\n"]),
    ],
)
def test_lines_keep_their_indentation_and_blank_lines_belong_to_the_line_before(text, expected):
    assert [text[start:end] for start, end in lines(text)] == expected


TEXTS = st.text(st.sampled_from('ab A.!?…。！"”)]([ \n\t1-*,:é中🙂<>/'), max_size=40)


@given(TEXTS)
@pytest.mark.parametrize("cut", [lines, sentences])
def test_units_cover_the_text_and_none_is_blank(cut, text):
    spans = cut(text)
    assert "".join(text[start:end] for start, end in spans) == text
    assert not text.strip() or all(text[start:end].strip() for start, end in spans)
    assert all(not text[start].isspace() for start, _ in spans[1:]) or cut is lines


@pytest.mark.parametrize(
    "piece", ["Dr. ", "a. ", ". ", "\n", " ", "(", "...", "<a", '<a b="', "</a>", "<a>b</a> ", "。", "a\n"]
)
def test_long_texts_take_time_in_proportion_to_their_length(piece):
    text = piece * (200_000 // len(piece))
    begin = time.process_time()
    lines(text), sentences(text)
    with suppress(RequestError):
        PartedText.tagged(text)
    assert time.process_time() - begin < 4


# --- parts -----------------------------------------------------------------------------------------------


def parts_of(parted):
    return [(part.name, parted.text[part.start : part.end]) for part in parted.parts]


def runs_of(parted):
    return [(run.name, parted.text[run.start : run.end]) for run in parted.runs]


def test_tags_name_parts_and_are_removed():
    parted = PartedText.tagged('<doc id="1"> The cat. </doc> <doc id=2>\nThe dog.\n</doc>\nWhich?')
    assert parted.text == "The cat. The dog.\nWhich?"
    assert parts_of(parted) == [("doc 1", "The cat."), ("doc 2", "The dog.")]
    assert runs_of(parted) == [("doc 1", "The cat. "), ("doc 2", "The dog.\n"), ("(rest)", "Which?")]
    assert runs_of(PartedText.tagged(" \n<a>x</a> y")) == [("a", " \nx "), ("(rest)", "y")]


def test_parts_nest_and_a_run_has_the_innermost_name():
    parted = PartedText.tagged("<user>Read <doc>one.</doc> and <doc>Two. Three.</doc> now.</user>")
    assert parts_of(parted) == [
        ("user", "Read one. and Two. Three. now."),
        ("doc", "one."),
        ("doc 2", "Two. Three."),
    ]
    assert [name for name, _ in runs_of(parted)] == ["user", "doc", "user", "doc 2", "user"]
    units = parted.units("sentence")
    assert [(unit.name, parted.text[unit.start : unit.end]) for unit in units][3:] == [
        ("doc 2", "Two. "),
        ("doc 2", "Three. "),
        ("user", "now."),
    ]


@pytest.mark.parametrize(
    "text",
    [
        "a < b and c > d",
        "vector<int> x; map<int, float> y;",
        "line<br>line<br/>line<hr />",
        "so</think> it is",
        "<|im_start|>user",
        "<a b=>x</a c>",
        "5<doc",
    ],
)
def test_a_tag_that_is_no_pair_is_text(text):
    assert PartedText.tagged(text) == PartedText(text)


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("<a></a>x", [("a", "")]),
        ("<a> </a>", [("a", "")]),
        ('x<a id=""> \n </a>y', [("a ", "")]),
        ("<a>x</a><a>y</a><A>z</A>", [("a", "x"), ("a 2", "y"), ("A", "z")]),
        ("<doc title='t' name='b c'>x</doc>", [("doc b c", "x")]),
        ("<文 id=1>x</文>", []),
    ],
)
def test_empty_parts_and_names(text, names):
    assert parts_of(PartedText.tagged(text)) == names


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("<a>x<b>y</a>z</b>", "</a> on line 1 is inside <b> on line 1: close <b> first, since parts can't overlap"),
        ('x\n<doc id="1">y', '<doc id="1"> on line 2 is not closed: add </doc> after its text'),
        ("<a>x</a>\n</a>", "</a> on line 2 closes no part: delete it, or add <a> before it"),
        ("<a><a>x</a>", "<a> on line 1 is not closed: add </a> after its text"),
        ("<d id=1>x</d><d id='1'>y</d>", "two parts are named 'd 1': give each part a different name"),
        ("<d>x</d><d>z</d><d id=2>y</d>", "two parts are named 'd 2': give each part a different name"),
        ("<d id='\x1b[2J'>x", "<d id='\\x1b[2J'> on line 1 is not closed: add </d> after its text"),
    ],
)
def test_tags_that_are_wrong_are_refused_in_one_line(text, why):
    with pytest.raises(RequestError) as refused:
        PartedText.tagged(text)
    assert str(refused.value) == why


def test_named_texts_stand_before_the_text():
    parted = PartedText.joined([("notes", "The cat.\nIt sat."), ("empty", ""), ("mail", "Hi.")], "Which?")
    assert parted.text == "The cat.\nIt sat.\n\n\n\nHi.\n\nWhich?"
    assert parts_of(parted) == [("notes", "The cat.\nIt sat."), ("empty", ""), ("mail", "Hi.")]
    assert [name for name, _ in runs_of(parted)] == ["notes", "mail", "(rest)"]
    with pytest.raises(RequestError, match="two parts are named 'a'"):
        PartedText.joined([("a", "x"), ("a", "y")])


TAGGED = st.lists(st.sampled_from(["<a>", "</a>", "<b>", "</b>", "x", " ", "\n", ". ", "中"]), max_size=12).map("".join)


@given(TAGGED)
def test_units_of_parts_cover_the_text(text):
    try:
        parted = PartedText.tagged(text)
    except RequestError:
        return
    for kind in ("part", "line", "sentence"):
        units = parted.units(kind)
        assert "".join(parted.text[unit.start : unit.end] for unit in units) == parted.text
        for unit in units:
            owners = [part for part in parted.parts if part.start <= unit.start < part.end]
            begin = unit.start + len(parted.text[unit.start :]) - len(parted.text[unit.start :].lstrip())
            inner = [part for part in parted.parts if part.start <= begin < part.end] or owners
            if parted.text[unit.start : unit.end].strip():
                assert unit.name == (inner[-1].name if inner else "(rest)")


def test_names_that_repeat_are_numbered():
    assert numbered(["user", "assistant", "user", "tool", "user"]) == ["user", "assistant", "user 2", "tool", "user 3"]


# --- tokens of units -------------------------------------------------------------------------------------


@pytest.fixture(scope="module", params=["minilm", "llama", "foreign"])
def tokenizer(request, minilm, tiny, foreign):
    """BERT's, a decoder's of bytes, and one with "▁"."""
    if request.param == "minilm":
        return minilm.tokenizer
    return load_model(str(tiny("llama")), "cpu").tokenizer if request.param == "llama" else foreign("llama").tokenizer


@given(st.text("ab cat1.!?,'(é中🙂。\n\t", min_size=1, max_size=40).filter(str.strip))
def test_every_token_is_in_exactly_one_unit(tokenizer, text):
    tokens = tokenizer.encode(text)
    for cut in (lines, sentences):
        groups = unit_tokens(tokens, cut(text))
        places = [place for group in groups for place in group]
        assert sorted(places) == [place for place, flag in enumerate(tokens.special) if not flag]
        for group, (start, end) in zip(groups, cut(text), strict=True):
            assert group == sorted(group)
            for place in group:
                left, right = tokens.offsets[place]
                assert text[left:right].strip() == "" or text[max(left, start) : min(right, end)].strip()


def test_a_token_with_white_space_around_is_where_its_letters_are(minilm):
    tokens = minilm.tokenizer.encode("The cat. It sat.")
    assert [
        [tokens.text[place] for place in group] for group in unit_tokens(tokens, [(0, 8), (9, 16), (4, 7), (3, 3)])
    ] == [
        ["the", "cat", "."],
        ["it", "sat", "."],
        ["cat"],
        [],
    ]


def test_the_second_text_has_characters_of_its_own(minilm):
    tokens = minilm.tokenizer.encode("The cat.", "It sat.")
    assert [[tokens.text[place] for place in group] for group in unit_tokens(tokens, [(0, 2)], 1)] == [["it"]]
    assert [[tokens.text[place] for place in group] for group in unit_tokens(tokens, [(0, 3)])] == [["the"]]


def test_the_white_space_of_a_token_is_not_where_it_is(tiny):
    """The tokens of each unit are found in both texts of a pair. Offsets begin anew in the second."""
    tokenizer = load_model(str(tiny("llama")), "cpu").tokenizer
    assert unit_tokens(tokenizer.encode("cat. cat"), [(0, 5), (5, 8)]) == [[1, 2, 3], [4]]
    assert unit_tokens(tokenizer.encode("it", "cat. cat"), [(0, 5), (5, 8)], 1) == [[3, 4, 5], [6]]


def test_special_tokens_that_are_written_out_are_in_units(tiny):
    tokens = load_model(str(tiny("llama")), "cpu").tokenizer.encode_marked("<s>cat<s> cat")
    assert unit_tokens(tokens, [(0, 6), (6, 13)]) == [[0, 1, 2], [3, 4]]


def test_what_a_decoder_wrote_is_in_no_unit_of_the_prompt(tiny):
    tokenizer = load_model(str(tiny("llama")), "cpu").tokenizer
    tokens = tokenizer.encode("cat cat")
    whole = tokenizer.extend(tokens, tokens.ids[1:])
    assert unit_tokens(whole, [(0, 7)]) == unit_tokens(tokens, [(0, 7)])


def test_tokens_without_offsets_are_refused():
    with pytest.raises(RequestError, match="the positions of these tokens in their text are unknown"):
        unit_tokens(named_pieces(["[CLS]", "the", "cat"]), [(0, 3)])


def test_a_part_is_a_tuple_of_its_name_and_span():
    assert Part("doc", 1, 2) == ("doc", 1, 2)
