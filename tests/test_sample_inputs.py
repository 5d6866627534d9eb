"""The default model does what sample_inputs/README.md says of its heads."""

import json
import re
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from attncli import Notice, ablate, similar, sources
from attncli.analysis.patterns import summarise
from attncli.features.cut import cut
from attncli.features.probe.counting import probe_treebank
from attncli.features.probe.tally import best_heads
from attncli.text.units import PartedText, sentences

FOLDER = Path(__file__).parent.parent / "sample_inputs"
README = (FOLDER / "README.md").read_text(encoding="utf-8")


def lines(name):
    return (FOLDER / name).read_text(encoding="utf-8").splitlines()


def look(model, text, layer, head, query, pair=None):
    """The strongest key of a token's first occurrence, and its weight."""
    record = model.attend(text, pair, layers=layer, heads=head)
    row = record.map(layer, head)[record.tokens.text.index(query)]
    return record.tokens.text[int(row.argmax())], round(float(row.max()), 2)


def test_every_text_has_its_line():
    texts = {path.name for path in FOLDER.iterdir() if path.name != "README.md"}
    assert texts == set(re.findall(r"^\| `(\w+\.\w+)`", README, flags=re.MULTILINE))


def test_coreference(minilm):
    big, small, nurse = lines("coreference.txt")
    assert look(minilm, big, 3, 1, "it") == ("trophy", 0.61)
    assert look(minilm, small, 3, 1, "it") == ("trophy", 0.66)
    assert look(minilm, nurse, 3, 1, "she")[0] == "pilot"


def test_agreement(minilm):
    keys, author = lines("agreement.txt")
    assert look(minilm, keys, 3, 1, "are") == ("keys", 0.76)
    assert look(minilm, author, 3, 1, "was")[0] == "[CLS]"


def test_negation(minilm):
    _, negated, _ = lines("negation.txt")
    assert look(minilm, negated, 1, 8, "not") == ("good", 0.89)
    assert look(minilm, negated, 0, 2, "good") == ("not", 1.0)


@pytest.mark.slow
def test_heads(minilm):
    """A head whose map is as striking in one pair of texts as in the other, and matters in one of them."""
    failed, passed, active, passive = lines("heads.txt")
    assert look(minilm, active, 5, 9, "the") == ("chased", 0.85)
    matters = ablate(minilm, failed, similar_to=passed)
    does_not = ablate(minilm, active, similar_to=passive)
    assert matters.ranked()[0] == (5, 9) and round(float(matters.mean[0, 5, 9]), 3) == 0.112
    assert does_not.ranked().index((5, 9)) == 69 and abs(does_not.mean[0, 5, 9]) < 1e-4


def test_edges(minilm):
    student, hungry = lines("edges.txt")
    assert look(minilm, student, 1, 8, "no") == ("student", 0.88)
    assert look(minilm, hungry, 3, 1, "it") == ("cat", 0.64)
    matters = cut(minilm, student, edges=[("no", "student")], layer=1, head=8)
    does_not = cut(minilm, hungry, edges=[("it", "cat")], layer=3, head=1)
    assert (round(float(matters.effects[0]), 3), round(float(does_not.effects[0]), 3)) == (0.146, 0.007)
    assert matters.controls.max() < 0.01


@pytest.mark.slow
def test_similarity(minilm):
    bit, bitten, good, not_good, _ = lines("similarity.txt")
    assert round(similar(minilm, bit, bitten).cosine, 2) == 0.98
    found = similar(minilm, good, not_good)
    assert round(found.cosine, 2) == 0.80
    pairs = [
        np.unravel_index(place, found.contributions.shape) for place in np.argsort(-found.contributions, axis=None)
    ]
    named = [(found.tokens.text[token], found.key_tokens.text[key]) for token, key in pairs[:3]]
    assert named == [("movie", "movie"), ("good", "good"), ("was", "was")]
    of_not = found.contributions[:, found.key_tokens.text.index("not")]
    assert of_not.max() < found.contributions[pairs[2]] / 2


def test_pair(minilm):
    question, answer = lines("pair.txt")
    record = minilm.attend(question, answer, layers=2, heads=9)
    tokens, segments, weights = record.tokens.text, record.tokens.segments, record.map(2, 9)
    found = []
    for word in ("little", "bear", "honey"):
        places = [place for place, token in enumerate(tokens) if token == word]
        assert [segments[place] for place in places] == [0, 1]
        for query, key in (places, places[::-1]):
            assert int(weights[query].argmax()) == key
            found.append(round(float(weights[query, key]), 2))
    assert (min(found), max(found)) == (0.63, 0.78)
    assert look(minilm, question, 2, 9, "where", answer)[0] == "[CLS]"


def test_other_scripts(minilm):
    assert any("[UNK]" in minilm.tokenizer.encode(text).text for text in lines("chinese.txt"))
    assert "[UNK]" in minilm.tokenizer.encode(lines("scripts.txt")[0]).text


def test_long_words(minilm):
    record = minilm.attend(lines("words.txt")[0], layers=0, heads=2)
    words = record.tokens.words
    pieces = [place for place in range(1, len(words)) if words[place] is not None and words[place] == words[place - 1]]
    assert len(pieces) > 10
    assert all(int(record.map(0, 2)[place].argmax()) == place - 1 for place in pieces)


def test_paragraph(minilm):
    [paragraph] = lines("paragraph.txt")
    record = minilm.attend(paragraph)
    assert (len(paragraph.split()), len(record.tokens)) == (307, 357)
    summaries = summarise(record)
    assert round(summaries[2, 9].shares["first"], 2) == 0.12
    assert round(summaries[0, 2].shares["previous"], 2) == 0.78
    sentences = [text for name in ("coreference", "agreement", "negation") for text in lines(f"{name}.txt")]
    shares = [summarise(minilm.attend(text, layers=2, heads=9))[2, 9].shares["first"] for text in sentences]
    assert round(float(np.mean(shares)), 2) == 0.86


def test_long_text_is_cut(minilm):
    [text] = lines("long.txt")
    with pytest.warns(Notice, match="kept the first 512 of 582 tokens"):
        assert len(minilm.tokenizer.encode(text)) == 512


def test_treebank(minilm):
    found = probe_treebank(minilm, [str(FOLDER / "treebank.conllu")]).measured
    assert found.sentences == 40
    [determiner] = [guess for guess in best_heads(found, found) if guess.relation == "det"]
    assert (determiner.layer, determiner.head, determiner.direction) == (3, 1, "child->head")
    assert (determiner.count, determiner.offset) == (52, 1)
    assert (round(determiner.accuracy, 3), round(determiner.offset_accuracy, 3)) == (0.962, 0.712)
    assert (determiner.verdict, round(determiner.chance, 2)) == ("unclear", 0.07)


def test_questions_have_their_answer_in_one_of_four_documents():
    questions = [json.loads(line) for line in lines("questions.jsonl")]
    assert Counter(one["part"] for one in questions) == dict.fromkeys(["doc 1", "doc 2", "doc 3", "doc 4"], 10)
    assert len({one["answer"] for one in questions}) == 40
    for one in questions:
        parted = PartedText.tagged(one["prompt"])
        texts = {part.name: parted.text[part.start : part.end] for part in parted.parts}
        assert list(texts) == ["doc 1", "doc 2", "doc 3", "doc 4"]
        assert all(len(sentences(text)) == 2 for text in texts.values())
        assert 1 <= len(one["answer"].split()) <= 4
        assert [name for name, text in texts.items() if one["answer"] in text] == [one["part"]]
        question = parted.text[parted.parts[-1].end :]
        assert re.fullmatch(r"\nQuestion: .+\? Answer:", question)
        assert one["answer"].lower() not in question.lower()
        names = set(re.findall(r"\b[A-Z]\w+", question.split(": ", 1)[1])) - {"Answer"}
        rare = [name for name in names if sum(name in text for text in texts.values()) == 1]
        assert rare and all(name in texts[one["part"]] for name in rare)  # the question names the right document only


@pytest.mark.slow
def test_an_answer_rests_on_one_document_and_on_one_message(smollm2):
    found = sources(smollm2, file=str(FOLDER / "prompt.txt"), answer="ten")
    assert found.verdict.startswith("the answer rests on doc 2 (effect ")
    effect, controls = found.effects[0, 1], found.controls[1]
    assert effect > 5 and effect > controls.max() + 3 and found.shares[0].argmax() == 3
    chat = sources(smollm2, chat=True, file=str(FOLDER / "chat.json"))
    assert chat.verdict.startswith("the answer rests on user (effect ")
