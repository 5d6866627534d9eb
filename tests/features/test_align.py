"""attncli align: what it shows, what it prints for programs, and what it says of texts that are no dates."""

import json

import numpy as np
import pytest

from attncli.align.checkpoint import load
from attncli.align.translate import translate
from attncli.base import choices
from attncli.features import align as feature
from attncli.record import save_records
from attncli.record.loading import load_records

TEXT = "Wednesday, the 3rd of March 2021"
SHORT = "Wed 3 Mar 21"
every_kind = pytest.mark.parametrize("attention", choices.names(choices.AttentionName))


def align(attention, text):
    return next(translate(load(attention).network, [text]))


@every_kind
def test_the_output_its_probability_and_a_row_a_character(attncli, attention):
    result = attncli("align", "--attention", attention, TEXT)
    assert result.code == 0 and result.err == ""
    one, [first, *rest] = align(attention, TEXT), result.out.splitlines()
    assert first.startswith(f"{TEXT} → 2021-03-03 · probability {one.probability:.4g} · align-{attention}")
    header = next(place for place, line in enumerate(rest) if "W   e   d   n" in line)
    assert rest[header].split() == [*TEXT.replace(" ", "␣"), "[E…"]
    rows = [line for line in rest[header + 1 :] if line]
    assert [line.split()[1] for line in rows] == [*"2021-03-03", "[END]"]
    for row, weights in zip(rows, one.maps["cross"][-1].mean(axis=0), strict=True):
        strongest = [*TEXT.replace(" ", "␣"), "[END]"][weights.argmax()]
        assert row.split("  ")[-3].split("#")[0].split()[0] == strongest


def test_json_is_what_the_library_gives(attncli):
    document = json.loads(attncli("align", "--json", "--attention", "transformer", TEXT).out)
    [one], expected = document["alignments"], align("transformer", TEXT)
    assert document["model"]["attention"] == "transformer" and document["model"].keys() >= {"seed", "steps", "sizes"}
    assert len(document["records"]) == 3
    assert (one["text"], one["date"]) == (TEXT, "2021-03-03")
    assert one["output"] == "2021-03-03" and one["probability"] == expected.probability and one["doubt"] is None
    assert one["characters"] == expected.characters and one["emitted"] == expected.emitted
    for record, (kind, weights) in zip(document["records"], expected.maps.items(), strict=True):
        assert record.get("kind", "encoder") == kind
        assert np.allclose([head["weights"] for head in record["attention"]], weights.reshape(-1, *weights.shape[2:]))


def test_without_a_text_a_sample_that_is_named(attncli):
    result = attncli("align")
    assert '"3 March 2021"' in result.err and "2021-03-03" in result.out


def test_what_is_no_date_gets_an_answer_and_a_sentence(attncli):
    text, said = "1 January 2050", "2050-01-01 is not from 1950 to 2049"
    result = attncli("align", text)
    assert result.code == 0 and f"{text} → " in result.out
    assert said in result.err
    [one] = json.loads(attncli("align", "--json", text).out)["alignments"]
    assert said in one["doubt"] and one["date"] is None


def test_unknown_characters_are_said_and_escape_sequences_stay_harmless(attncli):
    result = attncli("align", "3 March 2021 \x1b[31m\u202e[red]")
    assert result.code == 0 and "unknown to the model" in result.err
    assert "\x1b" not in result.out + result.err and "\u202e" not in result.out + result.err


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


def test_a_picture_is_of_one_text(attncli, tmp_path):
    dates, picture = tmp_path / "dates.txt", tmp_path / "date.png"
    dates.write_text(f"{TEXT}\n{SHORT}\n", encoding="utf-8")
    result = attncli("align", "-f", dates, "-o", picture)
    assert result.code == 2 and result.out == "" and not picture.exists()
    assert result.err == "attncli: error: one text is needed, but 2 are given: give one as TEXT\n"


# --- records --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("attention", choices.names(choices.AttentionName))
def test_records_hold_the_weights_of_the_alignment(attention, tmp_path):
    alignment, found = align(attention, SHORT), feature.align(SHORT, attention=attention).records
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
    cross, encoder, decoder = feature.align(SHORT, attention="transformer").records
    assert "".join(cross.keys.text) == "Wed␣3␣Mar␣21[END]"
    assert "".join(cross.tokens.text) == "2021-03-03[END]"
    assert "".join(decoder.tokens.text) == "[START]2021-03-03"
    assert encoder.tokens == cross.keys and decoder.mask_name == "causal"
    assert cross.keys.words == [*range(len(SHORT)), None]
    assert cross.keys.special == [False] * len(SHORT) + [True]
