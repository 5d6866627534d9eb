"""Whatever pieces files are cut into, the texts of all pieces are the texts of the files, in their order, each once."""

import gzip
from itertools import combinations, pairwise

import pytest
import zstandard
from corpora import FORMS, pieces
from hypothesis import given
from hypothesis import strategies as st

from attncli.corpus import texts as corpus_texts
from attncli.corpus.files import TREEBANKS, Piece, whole_files
from attncli.corpus.finding import find_inputs
from attncli.corpus.shards import Plan
from attncli.corpus.texts import TextFormat, end_of
from attncli.corpus.treebank import TreebankFormat

# Of few kinds, so that line ends, empty lines and marks meet often.
RAW = st.lists(st.sampled_from(["\n", "\n", "\r\n", " ", "\ufeff", "a", "é", "猫😀", "\u2028", "\xa0", "#", "b c"]))
TEXTS = st.lists(st.text(st.sampled_from("ab é猫😀\u2028"), max_size=9), min_size=1, max_size=12)
SIZES = st.integers(1, 80)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("pieces")


def shards(inputs, size, end=None):
    return [shard.pieces for shard in Plan(inputs, size, end).shards()]


def seen(lines):
    return [(line.where.input.name, line.where.number, line.at, line.text) for line in lines]


def apart(read, inputs, size, end=None):
    """Read shard by shard."""
    return [one for shard in shards(inputs, size, end) for one in read(shard)]


@pytest.mark.parametrize("suffix", ["txt", "txt.gz", "txt.zst"])
@pytest.mark.parametrize("options", [{}, {"paragraphs": True}])
@given(content=RAW, again=RAW, size=SIZES)
def test_of_lines_and_paragraphs(folder, suffix, options, content, again, size):
    pack = {"gz": gzip.compress, "zst": zstandard.compress}.get(suffix[4:], bytes)
    for name, parts in {"a": content, "b": again}.items():
        (folder / f"{name}.{suffix}").write_bytes(pack("".join(parts).encode()))
    inputs = find_inputs([str(folder / f"{name}.{suffix}") for name in "ab"])
    every = TextFormat(**options)
    texts = seen(every.texts(whole_files(inputs)))
    by_hand = [
        paragraph
        for parts in (content, again)
        for paragraph in by_python("".join(parts).removeprefix("\ufeff"), **options)
    ]
    assert [text for *_, text in texts] == by_hand
    assert apart(lambda shard: seen(every.texts(shard)), inputs, size) == texts


def by_python(content, paragraphs=False):
    """The texts of a small file, another way."""
    found = [""]
    for line in (one.strip() for one in content.split("\n")):
        if paragraphs and line:
            found[-1] = f"{found[-1]} {line}" if found[-1] else line
        else:
            found.append(line)
    return [text for text in found if text]


@pytest.mark.parametrize("options", [{}, {"paragraphs": True}])
@given(content=RAW, cuts=st.lists(st.integers(1, 200)))
def test_of_a_compressed_file_too_that_nobody_cuts(folder, options, content, cuts):
    path = folder / "cut.txt.gz"
    path.write_bytes(gzip.compress("".join(content).encode()))
    [one] = find_inputs([str(path)])
    places = [0, *sorted(set(cuts)), None]
    cut = [Piece(one, start, stop) for start, stop in pairwise(places)]
    every = TextFormat(**options)
    assert seen(every.texts(cut)) == seen(every.texts([Piece(one)]))


@pytest.mark.parametrize("name", ["a.parquet", "a.arrow"])
def test_of_a_table_too_that_is_cut_anywhere(folder, name):
    texts = [f"row {number}" for number in range(10)]
    path = folder / name
    path.write_bytes(FORMS[name](texts))
    [one] = find_inputs([str(path)])
    for start, stop in combinations(range(11), 2):
        assert [line.text for line in TextFormat().texts([Piece(one, start, stop)])] == texts[start:stop]


def test_a_piece_in_which_no_paragraph_begins_is_not_read_further_than_it_goes(folder, monkeypatch):
    path = folder / "one.txt"
    path.write_bytes(b"a line\n" * 1000)
    [one] = find_inputs([str(path)])
    read, every = [], corpus_texts._lines_from
    monkeypatch.setattr(corpus_texts, "_lines_from", lambda piece: (read.append(line) or line for line in every(piece)))
    assert list(TextFormat(paragraphs=True).texts([Piece(one, 700, 1400)])) == []
    assert [line.at for line in read] == list(range(700, 1401, 7))


@pytest.mark.parametrize("name", FORMS)
@given(texts=TEXTS, size=SIZES)
def test_of_every_form(folder, name, texts, size):
    path = folder / name
    path.write_bytes(FORMS[name](texts))
    inputs = find_inputs([str(path)])
    found = seen(TextFormat().texts(whole_files(inputs)))
    assert [text for *_, text in found] == [text.strip() for text in texts if text.strip()]
    assert apart(lambda shard: seen(TextFormat().texts(shard)), inputs, size) == found
    assert [number for _, number, _, _ in found] == [n for n, text in enumerate(texts, 1) if text.strip()]


@given(content=st.lists(st.sampled_from(["\n", "x" * 30, "x" * 150, "é", "\n\n"])), size=SIZES)
@pytest.mark.parametrize("options", [{}, {"paragraphs": True}])
@pytest.mark.filterwarnings("ignore::attncli.Notice")
def test_of_lines_and_paragraphs_that_are_too_long(folder, options, content, size):
    path = folder / "long.txt"
    path.write_bytes("".join(content).encode())
    inputs, every = find_inputs([str(path)]), TextFormat(skip_bad=True, **options)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(corpus_texts, "LONGEST", 100)
        patch.setattr(corpus_texts, "CHUNK", 7)
        assert apart(lambda shard: seen(every.texts(shard)), inputs, size) == seen(every.texts(whole_files(inputs)))


def test_messages_have_the_lines_of_the_file_whatever_the_pieces(folder):
    path = folder / "bad.txt"
    path.write_bytes(b"one\n\xff\n\nfour\n\xfe\n" * 20)
    inputs = find_inputs([str(path)])

    def messages_of(read):
        with pytest.warns(match="skipped") as notices:
            read()
        return [str(notice.message) for notice in notices]

    every = TextFormat(skip_bad=True)
    expected = [f"skipped {path}, line {5 * n + k}: not UTF-8 at byte 0" for n in range(20) for k in (2, 5)]
    for size in (1, 7, 50):
        assert messages_of(lambda size=size: apart(lambda shard: list(every.texts(shard)), inputs, size)) == expected
        corpus_texts._known_lines.clear()
        backwards = messages_of(lambda size=size: [list(every.texts(shard)) for shard in shards(inputs, size)[::-1]])
        assert sorted(backwards) == sorted(expected)


# --- treebanks -----------------------------------------------------------------------------------------------

SENTENCE = "1\té\t_\t_\t_\t_\t0\troot\t_\t_\n2\tb\t_\t_\t_\t_\t1\tobj\t_\t_\n"


@given(
    content=st.lists(st.sampled_from(["\n", "\r\n", " \n", "# text = x\n", SENTENCE + "\n", SENTENCE + "\r\n"])),
    mark=st.sampled_from(["", "\ufeff"]),
    end=st.sampled_from(["", SENTENCE, SENTENCE.rstrip()]),
    size=SIZES,
)
def test_of_sentences(folder, content, mark, end, size):
    path = folder / "bank.conllu"
    path.write_bytes((mark + "".join(content) + end).encode())
    inputs = find_inputs([str(path)], TREEBANKS)
    found = list(TreebankFormat().sentences(whole_files(inputs)))
    assert len(found) == sum(part.startswith("1") for part in [*content, end])
    assert apart(lambda shard: list(TreebankFormat().sentences(shard)), inputs, size) == found
    for limit in range(1, len(found) + 1):
        some = TreebankFormat(limit=limit)
        assert (
            apart(lambda shard, some=some: list(some.sentences(shard)), inputs, size, end_of(some, inputs))
            == found[:limit]
        )


# --- the first of them, and a share -------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["a.txt", "a.txt.gz", "a.parquet", "words.arrow"])
@pytest.mark.parametrize("options", [{}, {"sample": 0.5, "seed": 3}])
@given(texts=TEXTS, size=SIZES, limit=st.integers(1, 20))
def test_a_plan_that_ends_has_the_first_texts(folder, name, options, texts, size, limit):
    path = folder / name
    path.write_bytes(FORMS[name](texts))
    inputs = find_inputs([str(path), str(path)])
    every = seen(TextFormat(**options).texts(whole_files(inputs)))
    some = TextFormat(limit=limit, **options)
    assert seen(some.texts(whole_files(inputs))) == every[:limit]
    end = end_of(some, inputs)
    assert (end is None) == (limit > len(every))
    assert apart(lambda shard: seen(some.texts(shard)), inputs, size, end) == every[:limit]


@given(content=RAW, size=SIZES, limit=st.integers(1, 6))
def test_a_plan_that_ends_has_the_first_paragraphs(folder, content, size, limit):
    path = folder / "paragraphs.txt"
    path.write_bytes("".join(content).encode())
    inputs, some = find_inputs([str(path)]), TextFormat(paragraphs=True, limit=limit)
    found = apart(lambda shard: seen(some.texts(shard)), inputs, size, end_of(some, inputs))
    assert found == seen(TextFormat(paragraphs=True).texts(whole_files(inputs)))[:limit]
    assert pieces(path) == whole_files(inputs)
