"""CoNLL-U: which words a sentence has, what hangs on what, and what is refused."""

import sys

import pytest
from corpora import sentences as read

from attncli import Notice, RequestError
from attncli.base.errors import install_hint


def row(number, form, head, relation):
    return "\t".join([str(number), form, "_", "_", "_", "_", str(head), relation, "_", "_"])


DOES_NOT_RUN = [
    "# text = It doesn't run.",
    row(1, "It", 4, "nsubj"),
    row("2-3", "doesn't", "_", "_"),
    row(2, "does", 4, "aux"),
    row(3, "n't", 4, "advmod"),
    row(4, "run", 0, "root"),
    row("4.1", "run", "_", "_"),
    row(5, ".", 4, "punct"),
]


@pytest.fixture
def treebank(tmp_path):
    """`treebank(lines)` -> the path of a file that holds them."""

    def write(lines, ending="\n"):
        path = tmp_path / "bank.conllu"
        path.write_bytes("".join(line + ending for line in lines).encode("utf-8"))
        return path

    return write


def test_syntactic_words_count_and_multiword_tokens_and_empty_nodes_do_not(treebank):
    [sentence] = read(treebank(DOES_NOT_RUN))
    assert sentence.words == ["It", "does", "n't", "run", "."]
    assert sentence.heads == [3, 3, 3, None, 3]
    assert sentence.relations == ["nsubj", "aux", "advmod", "root", "punct"]
    assert sentence.punctuation == [False, False, False, False, True]
    assert (sentence.text, sentence.where.number) == ("It doesn't run.", 2)


def written(number, form, head=0, misc="_"):
    return row(number, form, head, "dep").removesuffix("_") + misc


def numbered(*forms):
    return [written(number, form, number - 1) for number, form in enumerate(forms, start=1)]


NO = "SpaceAfter=No"
WORDS = [written(1, "Le"), written("2-3", "du", "_", NO), written(2, "de", 1), written(3, "le", 1), written(4, ".", 1)]


@pytest.mark.parametrize(
    ("lines", "text", "spans"),
    [
        (["# text = Le du.", *WORDS], "Le du.", ["Le", "du", "du", "."]),
        (WORDS, "Le du.", ["Le", "du", "du", "."]),  # without the comment
        (["#text=  Le  du . ", *WORDS], "Le  du .", ["Le", "du", "du", "."]),  # the text counts, not SpaceAfter
        (["# text = La du.", *WORDS], "Le du.", ["Le", "du", "du", "."]),  # other words: the forms count
        (["# text = Le du. Et", *WORDS], "Le du.", ["Le", "du", "du", "."]),
        (["# text_en = The", *WORDS], "Le du.", ["Le", "du", "du", "."]),
        (
            ["# text = Don't go", written("1-2", "Don't", "_"), *numbered("do", "n't", "go")],
            "Don't go", ["Do", "n't", "go"],
        ),
        (
            ["# text = وكتاب!", written("1-2", "وكتاب", "_", NO), *numbered("و", "كتاب", "!")],
            "وكتاب!", ["و", "كتاب", "!"],
        ),
        (
            ["# text = للكتاب", written("1-3", "للكتاب", "_"), *numbered("ل", "ال", "كتاب")],
            "للكتاب", ["للكتاب"] * 3,
        ),
        (["# text = 1\u00a0000 km", written(1, "1 000"), written(2, "km", 1)], "1\u00a0000 km", ["1\u00a0000", "km"]),
        ([written(1, "a", 0, "SpacesAfter=\\n"), written("1.1", "x", "_", NO), written(2, "b", 1)], "a b", ["a", "b"]),
        ([written(1, "我", 0, f"{NO}|Translit=wo"), written(2, "们", 1, f"Gloss=x|{NO}")], "我们", ["我", "们"]),
    ],
)  # fmt: skip
def test_the_text_is_as_it_is_written_and_words_are_its_characters(treebank, lines, text, spans):
    [sentence] = read(treebank(lines))
    assert sentence.text == text
    assert [text[start:end] for start, end in sentence.spans] == spans
    assert sentence.agrees is not any(other in lines[0] for other in ("La", "Et"))


@pytest.mark.parametrize("ending", ["\n", "\r\n"])
def test_sentences_stand_between_empty_lines_and_the_last_needs_none(treebank, ending):
    lines = [
        "\ufeff# newdoc",
        *DOES_NOT_RUN,
        "",
        "",
        "# another",
        row(1, "Yes", 0, "root"),
        " ",
        row(1, "No", 0, "root"),
    ]
    first, second, third = read(treebank(lines, ending))
    assert (first.where.number, second.where.number, third.where.number) == (3, 13, 15)
    assert (second.words, third.words) == (["Yes"], ["No"])


def test_a_character_that_breaks_lines_elsewhere_breaks_none_here(treebank):
    path = treebank([row(1, "a\u2028b\x85\x0cc", 0, "root")])
    assert read(path)[0].words == ["a\u2028b\x85\x0cc"]


@pytest.mark.parametrize("lines", [["# only a comment"], [], [""]])
def test_what_has_no_sentence_gives_none(treebank, lines):
    assert read(treebank(lines)) == []


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        ([row(1, "a", 0, "root"), row(3, "b", 1, "obj")], "line 1: the words .* are not numbered"),
        ([row(1, "a", 0, "root"), row(2, "b", "_", "obj")], "line 1: the head of word 2 is None"),
        ([row(1, "a", 0, "root"), row(2, "b", "x", "obj")], "line 1: .*'head'"),
        ([row(1, "a", 0, "root"), row(2, "b", 3, "obj")], "line 1: the head of word 2 is 3, .* has words 1 to 2"),
        ([row(1, "a", 0, "root"), row(2, "b", -1, "obj")], "line 1: .*'head'|line 1: the head of word 2 is -1"),
        ([row(1, "a", 0, "root"), row(2, "b", 3, "obj"), row(3, "c", 2, "obj")], "line 1: .* cycle"),
        ([row("9" * 5000, "a", 0, "root")], "line 1: .*5000 digits"),
        ([row(1, "a", "9" * 30, "root")], "line 1: the head of word 1 is 9+"),
        (["A plain text."], "line 1: .*tabs"),
        (["1\ta\ta"], "line 1: .*10 tab-separated columns"),
        ([row("1-2", "a", "_", "_")], "line 1: the words of the sentence are not numbered"),
        ([row("1-2", "a", "_", "_"), row(1, "a", 0, "root")], "line 1: a multiword token ends with word 2"),
    ],
)
def test_what_is_no_tree_is_refused_with_its_line(treebank, lines, said):
    with pytest.raises(RequestError, match=said) as refusal:
        read(treebank(lines))
    assert "\n" not in str(refusal.value)
    assert "bank.conllu" in str(refusal.value)


def test_without_conllu_it_says_what_to_install_and_nothing_else(treebank, monkeypatch):
    monkeypatch.setitem(sys.modules, "conllu", None)
    with pytest.raises(RequestError) as caught:
        read(treebank(DOES_NOT_RUN), skip_bad=True)
    assert str(caught.value) == f"reading a treebank needs conllu: {install_hint('probe')}"


def test_a_sentence_that_is_none_is_passed_over_where_that_is_asked_for(treebank):
    path = treebank([row(1, "Yes", 0, "root"), "", row(2, "x", 0, "root"), "", "@", "", row(1, "No", 0, "root")])
    path.write_bytes(path.read_bytes().replace(b"@", b"\xff"))
    with pytest.warns(Notice, match=r"skipped .*(line 3: the words|line 5: not UTF-8 at byte 0)") as notices:
        assert [sentence.words for sentence in read(path, skip_bad=True)] == [["Yes"], ["No"]]
    assert len(notices) == 2
