"""attncli align: what it shows, what it prints for programs, and what it says of texts that are no dates."""

import json
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from terminals import PLAIN, canvases

from attncli.align.translate import load_aligner
from attncli.base import choices
from attncli.features.align import _Alignment, records_of_alignment
from attncli.record import save_records
from attncli.record.loading import load_records
from attncli.report.terminal import shade

TEXT = "Wednesday, the 3rd of March 2021"
SHORT = "Wed 3 Mar 21"
END = "END"
every_kind = pytest.mark.parametrize("attention", choices.names(choices.Attention))


@every_kind
def test_the_output_its_probability_and_a_row_a_character(attncli, attention):
    result = attncli("align", "--attention", attention, TEXT)
    assert result.code == 0 and result.err == ""
    first, second, *rest = result.out.splitlines()
    assert first.startswith(f"{TEXT} → 2021-03-03 · probability ")
    assert second.startswith(f"{attention} attention")
    header = next(place for place, line in enumerate(rest) if "W e d n e s d a y" in line)
    assert rest[header].endswith("2 0 2 1 [END]")
    assert [line.split()[0] for line in rest[header + 1 :] if line] == [*"2021-03-03", "[END]"]


def test_a_row_is_darkest_where_the_weight_is_largest(attncli):
    one = next(load_aligner("dot").translate([TEXT]))
    rows = attncli("align", "--attention", "dot", TEXT).out.splitlines()[5:-1]
    for row, weights in zip(rows, one.maps["cross"][0, 0], strict=True):
        shades = [" ░▒▓█".index(row.ljust(100)[12 + 2 * place]) for place in range(len(TEXT) + 1)]
        assert shades[int(weights.argmax())] == max(shades) >= 3


def test_json_is_what_the_library_gives(attncli):
    document = json.loads(attncli("align", "--json", "--attention", "transformer", TEXT).out)
    [one], expected = document["alignments"], next(load_aligner("transformer").translate([TEXT]))
    assert document["model"]["attention"] == "transformer" and document["model"].keys() >= {"seed", "steps", "sizes"}
    assert len(document["records"]) == 3
    assert (one["text"], one["date"]) == (TEXT, "2021-03-03")
    assert one["output"] == "2021-03-03" and one["probability"] == expected.probability and one["doubt"] is None
    assert one["characters"] == expected.characters and one["emitted"] == expected.emitted
    for record, (kind, weights) in zip(document["records"], expected.maps.items(), strict=True):
        assert record.get("kind", "encoder") == kind
        assert np.allclose([head["weights"] for head in record["attention"]], weights.reshape(-1, *weights.shape[2:]))


def test_many_texts_from_a_file_in_their_order(attncli, tmp_path):
    path = tmp_path / "dates.txt"
    path.write_text("3 March 2021\n\n二〇二一年三月四日\n", encoding="utf-8")
    document = json.loads(attncli("align", "--json", "-f", path).out)
    assert [one["output"] for one in document["alignments"]] == ["2021-03-03", "2021-03-04"]
    out = attncli("align", "-f", path).out
    assert out.index("2021-03-03") < out.index("2021-03-04")


def test_without_a_text_a_sample_that_is_named(attncli):
    result = attncli("align")
    assert '"3 March 2021"' in result.err and "2021-03-03" in result.out


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("31 February 2021", "no date that exists"),
        ("1 January 2050", "2050-01-01 is no day of 1950 to 2049"),
        ("hello world", "finds no date of 1950 to 2049"),
    ],
)
def test_what_is_no_date_gets_an_answer_and_a_sentence(attncli, text, said):
    result = attncli("align", text)
    assert result.code == 0 and f"{text} → " in result.out
    assert said in result.err
    [one] = json.loads(attncli("align", "--json", text).out)["alignments"]
    assert said in one["doubt"] and one["date"] is None


def test_unknown_characters_are_said_and_escape_sequences_stay_harmless(attncli):
    result = attncli("align", "3 March 2021 \x1b[31m\u202e[red]")
    assert result.code == 0 and "never saw" in result.err
    assert "\x1b" not in result.out + result.err and "\u202e" not in result.out + result.err


def test_a_map_wider_than_the_terminal_comes_in_parts(attncli, monkeypatch):
    whole = attncli("align", TEXT).out.splitlines()
    monkeypatch.setattr("attncli.cli.output.PAGE_WIDTH", 40)
    parts = attncli("align", TEXT).out.splitlines()
    maps = [line for line in parts if line and not line.startswith((TEXT, "additive", "weight"))]
    assert max(len(line) for line in maps) <= 40
    headers = [line.strip() for line in maps if not line[:11].strip()]
    assert "".join(headers).replace(" ", "") == TEXT.replace(" ", "") + "[END]"
    assert len(maps) == len(headers) * 12 and len(whole) < len(parts)


def test_bad_requests_are_refused_in_one_line(refused, tmp_path):
    assert "no attention 'location': it is one of additive, dot, general, concat, transformer" in refused(
        "align", "--attention", "location", TEXT
    )
    assert "empty" in refused("align", "  ")
    assert "at most 64" in refused("align", "1" * 65)
    assert "train-align" in refused("align", "--weights", tmp_path, TEXT)
    assert "--file" in refused("align", "-f", tmp_path / "dates.txt", TEXT)
    (tmp_path / "additive.safetensors").write_bytes(b"\x80\x04hostile")
    assert "damaged" in refused("align", "--weights", tmp_path, TEXT)


# --- saving ---------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("attention", ["additive", "transformer"])
def test_a_record_a_page_and_a_picture(attncli, tmp_path, attention):
    from attncli.record.loading import load_records

    record, page = tmp_path / "date.safetensors", tmp_path / "date.html"
    options = ["3 March 2021", "--attention", attention]
    assert attncli("align", *options, "-o", record).out.strip() == str(record)
    kinds = ["cross"] if attention == "additive" else ["cross", "encoder", "decoder"]
    assert [one.kind for one in load_records(record)] == kinds
    assert attncli("align", *options, "-o", page).code == 0
    html = page.read_text(encoding="utf-8")
    assert all(f'"attention":"{kind}"' in html for kind in kinds)
    assert "attncli align keeps no q and k" in html and "attncli view --vectors" not in html
    picture = tmp_path / "date.svg"
    assert attncli("align", *options, "-o", picture).code == 0
    assert "[START]" not in picture.read_text(encoding="utf-8")  # it shows the cross-attention


def test_a_saved_alignment_goes_through_the_other_commands(attncli, tmp_path):
    record = tmp_path / "date.safetensors"
    attncli("align", "3 March 2021", "-o", record)
    for command, name in (("view", "a.html"), ("heatmap", "a.png")):
        assert attncli(command, "--from", record, "-o", tmp_path / name).code == 0
        assert (tmp_path / name).stat().st_size > 1000
    assert attncli("heatmap", "--from", record, "--style", "lines", "--query", "-", "-o", tmp_path / "b.svg").code == 0


def test_what_can_not_be_saved(refused, tmp_path):
    assert "an alignment is saved as" in refused("align", "3 March 2021", "-o", tmp_path / "date.txt")
    texts = tmp_path / "dates.txt"
    texts.write_text("3 March 2021\n4 March 2021\n")
    assert "one is needed: give the one to draw" in refused("align", "-f", texts, "-o", tmp_path / "date.png")
    nowhere = ("--weights", tmp_path / "nowhere")  # it is said before anything is loaded
    assert ".npz holds one text and there are 2" in refused("align", "-f", texts, "-o", tmp_path / "a.npz", *nowhere)
    transformer = ("align", "3 March 2021", "--attention", "transformer", "-o", tmp_path / "a.npz", *nowhere)
    assert ".npz holds one text and there are 3" in refused(*transformer)


# --- records --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("attention", choices.names(choices.Attention))
def test_records_hold_the_weights_of_the_alignment(attention, tmp_path):
    aligner = load_aligner(attention)
    alignment = next(aligner.translate([SHORT]))
    found = records_of_alignment(aligner, alignment)
    kinds = ["cross", "encoder", "decoder"] if attention == "transformer" else ["cross"]
    assert [record.kind for record in found] == kinds
    for record in found:
        assert np.array_equal(record.weights, alignment.maps[record.kind])
        np.testing.assert_allclose(record.weights.sum(axis=-1), 1, atol=1e-5)
        assert (record.weights[..., ~record.mask] == 0).all()
        assert record.weights.shape[2:] == (len(record.tokens), len(record.keys))
    save_records(found, tmp_path / "date.safetensors")
    again = load_records(tmp_path / "date.safetensors")
    assert [(one.kind, one.tokens, one.keys) for one in again] == [(one.kind, one.tokens, one.keys) for one in found]


def test_tokens_are_the_characters():
    aligner = load_aligner("transformer")
    cross, encoder, decoder = records_of_alignment(aligner, next(aligner.translate([SHORT])))
    assert "".join(cross.keys.text) == "Wed␣3␣Mar␣21[END]"
    assert "".join(cross.tokens.text) == "2021-03-03[END]"
    assert "".join(decoder.tokens.text) == "[START]2021-03-03"
    assert encoder.tokens == cross.keys and decoder.mask_name == "causal"
    assert cross.keys.words == [*range(len(SHORT)), None]
    assert cross.keys.special == [False] * len(SHORT) + [True]


# --- the terminal ---------------------------------------------------------------------------------------


def aligned(text="三月 3", output="03", heads=1):
    weights = np.random.default_rng(0).dirichlet(np.ones(len(text) + 1), (1, heads, len(output) + 1))
    return SimpleNamespace(
        text=text,
        output=output,
        attention="dot",
        probability=0.98765,
        characters=[*text, END],
        emitted=[*output, END],
        probabilities=[1.0, 0.5, 0.25],
        maps={"cross": weights.astype(np.float32)},
    )


def test_a_row_is_a_character_written_with_its_probability_and_its_weights():
    one = aligned()
    names, *lines = [line.plain for line in _Alignment(one).map_lines(PLAIN)]
    assert names == " " * 12 + "三月  3 END"
    for line, name, row in zip(lines, ["  0 1.000", "  3 0.500", "END 0.250"], one.maps["cross"][0, 0], strict=True):
        assert line.startswith(f"{name} ")
        assert line[-10:] == "".join(2 * shade(float(weight), unicode=True) for weight in row)


@given(st.integers(1, 40), canvases(20, 60))
def test_a_long_text_comes_in_parts_that_fit_the_width(length, canvas):
    one = aligned("x" * length)
    lines = _Alignment(one).map_lines(canvas)
    assert all(cell_len(line.plain) <= canvas.width for line in lines)
    assert "".join(line.plain for line in lines).count("x") == length


def test_the_title_says_what_came_out_and_which_map_it_is():
    first, second, *_ = _Alignment(aligned("3\x1b", heads=2)).terminal(PLAIN)
    assert first.plain == "3\\x1b → 03 · probability 0.9877"
    assert second.plain == "dot attention · layer 0, the mean of 2 heads"
