"""attncli probe."""

import json
import re
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from corpora import sentences as read_treebank

from attncli.features.probe.tally import Tally

TREEBANK = Path(__file__).parents[2] / "sample_inputs" / "treebank.conllu"
ROOT_ONLY = "1\tYes\t_\t_\t_\t_\t0\troot\t_\t_\n\n"


@pytest.fixture
def probed(attncli):
    """`probed(treebank, ...)` -> the document that --json prints."""

    def run(*arguments):
        result = attncli("probe", *arguments, "--json")
        assert result.code == 0, result.err
        return json.loads(result.out)

    return run


@contextmanager
def interrupted(sentences: int):
    """Ctrl-C after so many sentences."""
    whole, seen = Tally.plus, []

    def plus(self, maps, sentence):
        if len(seen) == sentences:
            raise KeyboardInterrupt
        seen.append(sentence)
        return whole(self, maps, sentence)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Tally, "plus", plus)
        yield


def by_relation(document):
    return {row["relation"]: row for row in document["relations"]}


def clark(model, path):
    """relation -> (layer, head, direction) -> how many heads it finds, as the paper says, word by word.

    From the model's maps between tokens, without the program's own maps between words.
    """
    found = {}
    for sentence in read_treebank(path):
        record = model.attend(sentence.text)
        pieces = [
            [place for place, (start, end) in enumerate(record.tokens.offsets) if start < last and end > first]
            for first, last in sentence.spans
        ]
        joined = [set().union(*(other for other in pieces if {*other} & {*own})) for own in pieces]
        pieces = [sorted(own) for own in joined]  # words that share a token have all of their tokens
        for layer, number in np.ndindex(6, 12):
            one = record.map(layer, number).astype(float)
            words = np.array([[0 if a == b else one[np.ix_(a, b)].sum() / len(a) for b in pieces] for a in pieces])
            for word, head in enumerate(sentence.heads):
                if head is None or pieces[word] == pieces[head]:
                    continue
                for direction, row in (("child->head", words[word]), ("head->child", words[:, word])):
                    hits = found.setdefault(sentence.relations[word], {})
                    place = (layer, number, direction)
                    hits[place] = hits.get(place, 0) + (pieces[row.argmax()] == pieces[head])
    return found


# Words that share characters, and a word whose syntactic head is in its own multiword token.
SHARED = """# text = Le toit du moulin est rouge, donne-le-moi.
1	Le	_	_	_	_	2	det	_	_
2	toit	_	_	_	_	7	nsubj	_	_
3-4	du	_	_	_	_	_	_	_	_
3	de	_	_	_	_	5	case	_	_
4	le	_	_	_	_	5	det	_	_
5	moulin	_	_	_	_	2	nmod	_	_
6	est	_	_	_	_	7	cop	_	_
7	rouge	_	_	_	_	0	root	_	SpaceAfter=No
8	,	_	_	_	_	9	punct	_	_
9-11	donne-le-moi	_	_	_	_	_	_	_	SpaceAfter=No
9	donner	_	_	_	_	7	conj	_	_
10	le	_	_	_	_	9	obj	_	_
11	moi	_	_	_	_	9	expl	_	_
12	.	_	_	_	_	7	punct	_	_

# text = She said we shouldn't wait.
1	She	_	_	_	_	2	nsubj	_	_
2	said	_	_	_	_	0	root	_	_
3	we	_	_	_	_	6	nsubj	_	_
4-5	shouldn't	_	_	_	_	_	_	_	_
4	should	_	_	_	_	6	aux	_	_
5	n't	_	_	_	_	6	advmod	_	_
6	wait	_	_	_	_	2	ccomp	_	SpaceAfter=No
7	.	_	_	_	_	2	punct	_	_

# text = Other words stand here.
1	It	_	_	_	_	2	nsubj	_	_
2	rains	_	_	_	_	0	root	_	SpaceAfter=No
3	.	_	_	_	_	2	punct	_	_

"""


def test_it_finds_what_the_paper_would(minilm, probed, tmp_path):
    path = tmp_path / "part.conllu"
    blocks = TREEBANK.read_text(encoding="utf-8").split("\n\n")[:8]
    path.write_text("\n\n".join([*blocks, SHARED]), encoding="utf-8")
    found = clark(minilm, path)
    document = probed(path)
    rows = by_relation(document)
    assert set(rows) == set(found) - {"punct"} | {"all"}, set(rows) ^ set(found)
    assert "expl" not in rows
    for relation, row in rows.items():
        if relation != "all":
            hits = found[relation]
            assert round(row["accuracy"] * row["count"]) == max(hits.values())
            assert hits[row["layer"], row["head"], row["direction"]] == max(hits.values())
    assert [document["treebank"][name] for name in ("shared", "left_out", "respelled")] == [7, 2, 1]


def test_the_terminal_says_what_the_document_says(attncli, probed):
    document = probed(TREEBANK, "--limit", "9")
    said = attncli("probe", TREEBANK, "--limit", "9").out
    lines = [re.split(r"\s{2,}", line.strip()) for line in said.splitlines()]
    for row in document["relations"]:
        assert (row["relation"] == "all" or row["count"] >= 10) == (
            [
                row["relation"],
                f"{row['layer']}.{row['head']}",
                row["direction"],
                f"{100 * row['accuracy']:.1f}%",
                f"{100 * row['interval']['low']:.0f}-{100 * row['interval']['high']:.0f}%",
                f"{row['offset']:+d}",
                f"{100 * row['offset_accuracy']:.1f}%",
                str(row["count"]),
                row["verdict"],
            ]
            in lines
        )
    for row in document["trees"]["layers"]:
        best = f"{row['layer']}.{row['best_head']}", f"{100 * row['best_head_uuas']:.1f}%"
        assert [str(row["layer"]), f"{100 * row['uuas']:.1f}%", *best] in lines
    assert "9 sentences" in said and "looks better than it is" in said


def test_all_heads_of_a_relation_are_in_the_document(minilm, probed, tmp_path):
    path = tmp_path / "part.conllu"
    path.write_text("\n\n".join(TREEBANK.read_text(encoding="utf-8").split("\n\n")[:9]) + "\n\n", encoding="utf-8")
    rows, found = by_relation(probed(path)), clark(minilm, path)
    for relation, row in rows.items():
        if relation != "all":
            hits = found[relation]
            best = {
                f"{layer}.{head}": max(hits[layer, head, "child->head"], hits[layer, head, "head->child"])
                for layer, head in np.ndindex(6, 12)
            }
            assert {name: round(share * row["count"]) for name, share in row["heads"].items()} == best
        assert row["few"] == (row["count"] < 10)


def test_sentences_that_are_too_long_are_skipped_and_counted(attncli, refused, tmp_path):
    def chain(words):
        rows = (f"{n}\tdog\t_\t_\t_\t_\t{n - 1}\t{'dep' if n > 1 else 'root'}\t_\t_\n" for n in range(1, words + 1))
        return "".join(rows) + "\n"

    path = tmp_path / "long.conllu"
    path.write_text(chain(511) + chain(3) + chain(600), encoding="utf-8")
    result = attncli("probe", path, "--json")
    document = json.loads(result.out)
    counts = [document["treebank"][name] for name in ("sentences", "words", "skipped")]
    assert counts == [1, 3, 2]
    assert result.err.splitlines() == [
        f"attncli: {path}: skipped 2 of 3 sentences: 2 of more than the 512 tokens that the model reads "
        "(the first on line 1)"
    ]
    path.write_text(chain(511), encoding="utf-8")
    assert "no sentence that the model can read has a word" in refused("probe", path)


def test_an_interruption_shows_what_there_is_as_partial_and_saves_nothing(attncli, tmp_path):
    with interrupted(12):
        result = attncli("probe", TREEBANK, "--json", "-o", tmp_path / "probe.png")
    document = json.loads(result.out)
    assert (result.code, document["partial"], document["treebank"]["sentences"]) == (130, True, 12)
    assert result.err == "attncli: interrupted: the numbers are PARTIAL, after 12 sentences\n"
    assert document["relations"][0]["count"] == sum(row["count"] for row in document["relations"][1:])
    with interrupted(12):
        shown = attncli("probe", TREEBANK, "-o", tmp_path / "probe.png")
    assert shown.code == 130 and "PARTIAL" in shown.out.splitlines()[0]
    assert list(tmp_path.iterdir()) == []


def test_a_sentence_that_the_tokenizer_leaves_nothing_of_is_skipped(attncli, tmp_path):
    path = tmp_path / "odd.conllu"
    odd = "".join(ROOT_ONLY.replace("Yes", form) for form in ("\x01", "\u200b", "\u00a0"))
    path.write_text(odd + TREEBANK.read_text(encoding="utf-8"), encoding="utf-8")
    result = attncli("probe", path, "--limit", "6", "--json")
    assert (result.code, json.loads(result.out)["treebank"]["skipped"]) == (0, 3)
    why = "3 with a word that the tokenizer has no tokens for (the first on line 1)"
    assert result.err == f"attncli: {path}: skipped 3 of 6 sentences: {why}\n"


def test_what_can_not_be_probed(refused, tmp_path):
    assert "can't read" in refused("probe", tmp_path / "none.conllu")
    assert "the result is saved as" in refused("probe", TREEBANK, "-o", "probe.txt")
    assert "has no sentences" in refused("probe", TREEBANK, "--test", "/dev/null")
    text = tmp_path / "text.conllu"
    text.write_text("The cat sat.\n", encoding="utf-8")
    assert f"{text}, line 1: " in refused("probe", text)
    text.write_text(ROOT_ONLY, encoding="utf-8")
    assert "has a word that depends on another" in refused("probe", text)
    assert "--limit" in refused("probe", TREEBANK, "--limit", "0")
    assert "FILES" in refused("probe")
    for name in ("*.none", "none"):
        assert name in refused("probe", TREEBANK, "--test", tmp_path / name)
    (tmp_path / "folder").mkdir()
    assert "contains no files ending in .conllu" in refused("probe", tmp_path / "folder")
    assert "--sample" in refused("probe", TREEBANK, "--sample", "2")


def test_what_is_no_tree_is_told_of_and_passed_over(attncli, refused, probed, tmp_path):
    """By the line that it stands in."""
    path, content = tmp_path / "bad.conllu", TREEBANK.read_text(encoding="utf-8")
    path.write_text(content + ROOT_ONLY.replace("\t0\t", "\t5\t") + content, encoding="utf-8")
    line = content.count("\n") + 1
    said = f"{path}, line {line}: the head of word 1 is 5, but the sentence has words 1 to 1"
    assert said in refused("probe", path)
    result = attncli("probe", path, "--skip-bad", "--json")
    assert (result.code, result.err) == (0, f"attncli: skipped {said}\n")
    assert json.loads(result.out)["treebank"]["sentences"] == 80


@pytest.mark.slow
def test_who_counts_changes_not_a_byte(attncli):
    assert attncli("probe", TREEBANK, "--json", "--workers", "2") == attncli("probe", TREEBANK, "--json")
