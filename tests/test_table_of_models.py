"""The table of models in attncli/models/README.md: every command and type is in it, and cells say what commands do."""

import pytest
import table_of_models
import torch
from cli.test_every_model import on_a_model
from foreign_checkpoints import TEXT
from transformers import AutoModelForCausalLM

from attncli import load_model

pytestmark = pytest.mark.slow
CASES = [("gpt2", "run"), ("opt", "ablate"), ("falcon", "explain"), ("lfm2", "flow"), ("t5", "run --measure norm"),
    ("clip", "run"), ("bert", "similar")]  # fmt: skip


@pytest.fixture(scope="module")
def committed():
    """The cells of the table in the README, by type and who runs it, and by column."""
    text = table_of_models.README.read_text(encoding="utf-8")
    table = text.split(table_of_models.MARKERS[0])[1].split(table_of_models.MARKERS[1])[0]
    head, _, *lines = [line.strip("| ").split(" | ") for line in table.splitlines() if line.startswith("|")]
    names = [name.strip("`") for name in head]
    assert all(len(line) == len(names) for line in lines)
    return {(line[0], line[1]): dict(zip(names[2:], line[2:], strict=True)) for line in lines}, table


def test_it_has_every_command_and_every_type(committed):
    cells, table = committed
    assert list(cells) == [(row.name, row.by) for row in table_of_models.rows()] and len(cells) >= 35
    assert all(list(line) == list(table_of_models.columns()) for line in cells.values())
    assert {*on_a_model()} <= {*table_of_models.columns()}
    assert {cell for line in cells.values() for cell in line.values()} <= {"yes", *table_of_models.REFUSALS}
    for word in table_of_models.REFUSALS:
        assert (f"- *{word}*: " in table) is any(word in line.values() for line in cells.values())


@pytest.mark.parametrize(("name", "column"), CASES)
def test_a_cell_is_what_the_command_does(committed, tmp_path, name, column):
    row = next(row for row in table_of_models.rows() if row.name == name)
    (tmp_path / name).mkdir()
    row.make(tmp_path / name)
    with table_of_models.prepared(tmp_path):
        found = table_of_models.cell(row, column, table_of_models.columns()[column])
    assert found == committed[0][row.name, row.by][column]


@pytest.mark.parametrize("name", table_of_models.DECODERS)
def test_checkpoints_have_something_to_see_and_say_what_their_own_logits_say(tmp_path, name):
    """Attention neither uniform nor one-hot; and the likeliest next tokens by transformers' own head."""
    table_of_models.make_random(tmp_path, name)
    model = load_model(str(tmp_path), "cpu")
    record = model.attend(TEXT, predict=True)
    assert record.weights.std() > 0.01 and record.weights.max(axis=-1).mean() < 0.99
    with torch.inference_mode():
        network = AutoModelForCausalLM.from_pretrained(tmp_path).eval()
        shares = network(torch.tensor([record.tokens.ids])).logits[0, -1].float().softmax(dim=-1)
    answers = record.prediction.answers
    assert [one.probability for one in answers] == pytest.approx(shares.topk(len(answers)).values.tolist(), abs=1e-5)
