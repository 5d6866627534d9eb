"""The cells sum to the cosine of sentence-transformers, and the report shows them in every medium."""

import csv
import json

import numpy as np
import pytest
import torch
from checkpoints import make_checkpoint
from foreign_checkpoints import TEXT, make_foreign
from pictures import check_nothing_overlaps, maps, picture_texts
from records import similarity_of, tokens
from rich.console import Console
from sentences import NORMALIZE, dense, pooling, write_modules
from transformers import AutoModel

from attncli import RequestError, load_model
from attncli.features.similar import Cosines, cosines, similar
from attncli.features.similar.credit import has_bias, in_float64, parts_of
from attncli.report.canvas import Canvas
from attncli.report.figure import figure_of
from attncli.report.terminal import lines_of

A, B = "The cat sat on the mat.", "A cat is sitting on a rug."
SMALL = "the cat sat on the unbelievable cat", "it is too big and it sat"
LINEAR = "linear.Identity"
POOLED = ("cls_token", "max_tokens", "mean_tokens", "mean_sqrt_len_tokens", "weightedmean_tokens", "lasttoken")
CREDITED = {
    **{name: [pooling(name), NORMALIZE] for name in POOLED},
    **{f"{name}, dense": [pooling(name), dense(32, 20, LINEAR)] for name in POOLED if name != "max_tokens"},
    "max, dense without a bias": [pooling("max_tokens"), dense(32, 20, LINEAR, bias=False), NORMALIZE],
    "two": [pooling("cls_token", "max_tokens", "mean_tokens"), NORMALIZE],
    "two that weigh alike": [pooling("mean_tokens", "mean_sqrt_len_tokens"), dense(64, 20, LINEAR)],
    "after Normalize": [pooling("mean_tokens"), NORMALIZE, dense(32, 20, LINEAR), dense(20, 9, LINEAR), NORMALIZE],
}


@pytest.fixture
def folder(tmp_path):
    """`folder(*modules)` -> a small checkpoint with these modules after it."""
    return lambda *modules: write_modules(make_checkpoint(tmp_path / "made"), *modules)


def theirs(directory, *texts: str) -> float:
    """The cosine of what sentence-transformers makes of two texts."""
    package = pytest.importorskip("sentence_transformers", reason="sentence-transformers is not installed")
    one, other = package.SentenceTransformer(str(directory), device="cpu").encode(list(texts)).astype(np.float64)
    return float(one @ other / np.linalg.norm(one) / np.linalg.norm(other))


@pytest.mark.slow
@pytest.mark.parametrize("modules", CREDITED.values(), ids=CREDITED)
def test_it_sums_to_the_cosine_of_sentence_transformers(modules, folder):
    directory = folder(*modules)
    found = similar(load_model(str(directory), "cpu"), *SMALL)
    expected = theirs(directory, *SMALL)
    assert found.contributions.sum() == pytest.approx(expected, abs=1e-6)
    assert found.cosine == pytest.approx(expected, abs=1e-6)


@pytest.mark.slow
def test_it_sums_to_the_cosine_of_the_embeddings(minilm):
    """And what a cell is: of the mean of n and m vectors, x · y / (n m), over the lengths of the means."""
    found = similar(minilm, A, B)
    one, other = minilm.embed([A, B]).astype(np.float64)
    assert found.sum == found.contributions.sum()
    assert (found.sum, found.cosine) == pytest.approx((one @ other, one @ other), abs=1e-6)
    assert abs(found.difference) < 1e-12
    x, y = (minilm.last_hidden([minilm.tokenizer.encode(text)])[0].double().numpy() for text in (A, B))
    lengths = np.linalg.norm(x.mean(axis=0)) * np.linalg.norm(y.mean(axis=0))
    np.testing.assert_allclose(found.contributions, x @ y.T / x.shape[0] / y.shape[0] / lengths, atol=1e-7)
    assert (found.tokens.text[2], found.key_tokens.text[4]) == ("cat", "sitting")
    other_way = similar(minilm, B, A)
    np.testing.assert_allclose(other_way.contributions, found.contributions.T, atol=1e-6)


def test_cosines_of_several_texts(minilm):
    texts = [A, B, "It rains."]
    found = cosines(minilm, texts)
    assert found.texts == texts and found.values.dtype == np.float64
    np.testing.assert_allclose(np.diag(found.values), 1, atol=1e-12)
    np.testing.assert_allclose(found.values, found.values.T, atol=1e-12)
    assert found.values[0, 1] == pytest.approx(similar(minilm, A, B).cosine, abs=1e-6)
    assert cosines(minilm, texts, "causal").values[0, 1] != found.values[0, 1]


@pytest.mark.parametrize("pool", ["mean", "last"])
@pytest.mark.parametrize("family", ["gpt2", "t5", "bert"])
def test_a_pooling_is_named_where_the_files_name_none(tmp_path, tiny, family, pool):
    """By transformers: the encoder's last vectors of T5, the decoder's of GPT-2."""
    made = tiny("bert") if family == "bert" else make_foreign(tmp_path, family)
    model, network = load_model(str(made), "cpu"), AutoModel.from_pretrained(made).eval()
    network = network.get_encoder() if family == "t5" else network
    texts = (TEXT, "a cat on a mat")
    units = []
    for text in texts:
        with torch.inference_mode():
            last = network(torch.tensor([model.tokenizer.encode(text).ids])).last_hidden_state[0].double()
        vector = last.mean(dim=0) if pool == "mean" else last[-1]
        units.append(vector / vector.norm())
    expected = float(units[0] @ units[1])
    found = similar(model, *texts, pool=pool)
    assert found.cosine == pytest.approx(expected, abs=1e-5)
    assert found.contributions.sum() == pytest.approx(expected, abs=1e-5)
    assert cosines(model, texts, pool=pool).values[0, 1] == pytest.approx(expected, abs=1e-5)
    assert abs(expected) < 0.99
    with pytest.raises(RequestError, match="add --pool mean, or --pool last"):
        cosines(model, texts)


def test_a_pooling_that_files_name_is_the_one(minilm):
    with pytest.raises(RequestError, match="name its pooling: omit --pool"):
        similar(minilm, A, B, pool="mean")
    with pytest.raises(RequestError, match="no pooling 'max': use one of mean, last"):
        similar(minilm, A, B, pool="max")


# --- the credit of tokens --------------------------------------------------------------------------------

REFUSED = {
    "with tanh": [pooling("mean_tokens"), dense(32, 20)],
    "the bias can't be divided among tokens": [pooling("max_tokens"), dense(32, 20, LINEAR)],
    "follows cls and mean pooling": [pooling("cls_token", "mean_tokens"), dense(64, 20, LINEAR)],
}
LONG = "the unbelievable cat sat on the big cat"


@pytest.fixture
def embedding(tiny, tmp_path):
    """`embedding(modules)` -> a model, and its output in float64."""

    def make(modules):
        folder = tmp_path / "made"
        folder.mkdir()
        for file in tiny("bert").iterdir():
            (folder / file.name).symlink_to(file)
        model = load_model(str(write_modules(folder, *modules)), "cpu")
        return model, in_float64(model.outputs()["embedding"])

    return make


@pytest.mark.parametrize("modules", CREDITED.values(), ids=CREDITED)
def test_parts_sum_to_the_embedding_and_padding_has_none(modules, embedding):
    model, output = embedding(modules)
    tokens = model.tokenizer.encode(LONG, pad_to=20)
    [last] = model.last_hidden([tokens])
    last = last.double()
    parts, [whole] = parts_of(output, last, tokens), output([last], [tokens])
    assert parts.shape == (20, len(whole)) and parts.dtype == torch.float64
    torch.testing.assert_close(parts.sum(dim=0), whole, rtol=0, atol=1e-12)
    assert not parts[tokens.padding].any()


@pytest.mark.parametrize(("why", "modules"), REFUSED.items())
def test_what_is_no_sum_is_refused_with_what_to_ask_instead(why, modules, embedding):
    model, output = embedding(modules)
    tokens = model.tokenizer.encode(LONG)
    [last] = model.last_hidden([tokens])
    with pytest.raises(RequestError, match=f"{why}.*attncli ablate --similar-to") as caught:
        parts_of(output, last.double(), tokens)
    assert len(str(caught.value)) <= 300


def test_a_bias_is_shared_out_as_the_pooling_weighs_tokens(embedding):
    """A Dense of nothing but a bias: what a token has of it is its share."""
    model, output = embedding(CREDITED["weightedmean_tokens, dense"])
    output.network[0].weight.zero_()
    tokens = model.tokenizer.encode("the cat")  # [CLS] the cat [SEP]
    parts = parts_of(output, torch.ones(4, 32, dtype=torch.float64), tokens)
    expected = torch.tensor([1, 2, 3, 4]).double()[:, None] / 10 * output.network[0].bias
    torch.testing.assert_close(parts, expected)
    assert has_bias(output)
    output.network = torch.nn.Sequential()
    assert not has_bias(output)


# --- results ----------------------------------------------------------------------------------------------

CELLS = np.array([[0.1, 0.02, 0.0], [0.2, -0.3, 0.05]])
FIRST, SECOND = tokens(["un", "##able"], [0, 0]), tokens(["the", "cat", "##s"], [0, 1, 1])


def made(**changes):
    return similarity_of(CELLS, FIRST, SECOND, **changes)


def test_words_add_up_what_their_pieces_contribute():
    merged = made().merged()
    np.testing.assert_allclose(merged.contributions, [[0.3, -0.23]])
    assert (merged.tokens.text, merged.key_tokens.text) == (["unable"], ["the", "cats"])
    assert merged.sum == pytest.approx(made().sum)


# --- the report -------------------------------------------------------------------------------------------


def printed(report, canvas=Canvas(100, colour=False, unicode=True)) -> str:
    console = Console(width=canvas.width, color_system=None)
    with console.capture() as capture:
        console.print(*lines_of(report.title, report.parts, canvas), sep="\n")
    return capture.get()


def test_every_cell_stands_in_the_map():
    text = printed(made(listed=2).report())
    rows = [line.split() for line in text.splitlines() if line.startswith(("  0 un", "  1 ##able"))]
    assert "contribution to the cosine, A down and B across (× 10⁻³)" in text
    np.testing.assert_allclose([[float(one) / 1000 for one in row[2:]] for row in rows], CELLS)


def test_the_pairs_and_heads_that_do_most_come_first():
    lines = [line.split() for line in printed(made(listed=2).report()).splitlines()]
    pairs = [line[-1] for line in lines if len(line) > 2 and line[-1] in ("-0.300", "+0.200", "+0.100")]
    assert pairs == ["-0.300", "+0.200"]
    assert ["0.1", "-0.200"] in lines and ["0.0", "+0.100"] in lines and ["1.1", "+0.050"] not in lines


def test_the_picture_has_contributions_around_zero():
    report = made(listed=2).report()
    drawn = figure_of(report.title, report.picture)
    [image] = maps(drawn)
    np.testing.assert_allclose(image.get_array(), CELLS, rtol=1e-6)
    assert (image.norm.vmin, image.norm.vmax) == pytest.approx((-0.3, 0.3))
    texts = picture_texts(drawn)
    assert {"un", "##able", "the", "cat", "##s", "A", "B", "100", "-300"} <= set(texts)
    check_nothing_overlaps(drawn)


def test_cosines_have_a_row_and_a_column_a_text():
    report = Cosines(made().model, ["a cat", "a dog"], np.array([[1, -0.25], [-0.25, 1]])).report()
    lines = printed(report).splitlines()
    assert lines[0] == "made-up · cosines of 2 texts"
    assert lines[-2].split() == ["0", "a", "cat", "1.00", "-0.25"]
    drawn = figure_of(report.title, report.parts)
    [image] = maps(drawn)
    np.testing.assert_allclose(image.get_array(), [[1, -0.25], [-0.25, 1]])
    assert {"a cat", "a dog", "-0.25"} <= set(picture_texts(drawn))
    check_nothing_overlaps(drawn)


# --- the command ------------------------------------------------------------------------------------------

THREE = f"{A}\n{B}\nIt rains.\n"


@pytest.fixture
def lines(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "lines.txt").write_text(THREE, encoding="utf-8")
    return "lines.txt"


def test_the_sum_the_cosine_and_what_is_credited_stand_there_also_of_two_samples(attncli):
    given, samples = attncli("similar", A, B), attncli("similar")
    assert "sum of all cells 0.729630, cosine 0.729630, difference " in given.out
    assert "contextual" in given.out and "2 cat   2 cat            +0.0409" in given.out
    assert (samples.code, samples.out) == (0, given.out) and f'"{A}" and "{B}"' in samples.err


def test_a_file_has_a_matrix_of_which_one_cell_is_taken_apart(attncli, lines):
    matrix = json.loads(attncli("similar", "--json", "-f", lines).out)
    assert matrix["texts"] == THREE.splitlines()
    apart = json.loads(attncli("similar", "--json", "-f", lines, "--apart", "0,2").out)
    assert apart["cosine"] == pytest.approx(matrix["cosines"][0][2], abs=1e-6)
    assert apart["key_tokens"] == ["[CLS]", "it", "rains", ".", "[SEP]"]


def test_documents_are_the_librarys_and_tables_have_a_row_a_pair(attncli, lines, tmp_path, minilm):
    document = json.loads(attncli("similar", "--json", "-o", "pairs.csv", "--device", "cpu", A, B).out)
    assert document == similar(minilm, A, B).document()
    with (tmp_path / "pairs.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == len(document["tokens"]) * len(document["key_tokens"])
    for row in rows:
        index, key = int(row["index"]), int(row["key_index"])
        assert (row["token"], row["key_token"]) == (document["tokens"][index], document["key_tokens"][key])
        assert float(row["contribution"]) == document["contributions"][index][key]
    attncli("similar", "-o", "texts.csv", "-f", lines)
    with (tmp_path / "texts.csv").open(encoding="utf-8") as file:
        found = [(row["text"], row["other"]) for row in csv.DictReader(file)]
    assert found[1:4] == [("0", "1"), ("0", "2"), ("1", "0")]
