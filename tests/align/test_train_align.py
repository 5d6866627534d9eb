"""The script that trains networks: it learns, repeats itself, and draws dates that have one reading."""

from datetime import date

import pytest
import torch
import train_align
from safetensors.torch import load_file
from train_align import FORMATS, days, fields_of

from attncli.align import checkpoint
from attncli.align.characters import NONE
from attncli.align.checkpoint import build
from attncli.align.translate import FIRST, LAST

EVERY_PART = ("train", "validation", "test")


@pytest.fixture
def small(monkeypatch):
    """A small network, and batches of 8."""
    monkeypatch.setattr(train_align, "BATCH", 8)
    monkeypatch.setitem(checkpoint.SIZES, "dot", {"d_embedding": 6, "d_hidden": 8})


def test_a_training_lowers_the_loss_and_repeats_itself_by_seed(small, tmp_path, monkeypatch, capsys):
    for name, value in {"EVERY": 10, "VALIDATION": 5, "TEST": 20, "TEST_NO_DATES": 10}.items():
        monkeypatch.setattr(train_align, name, value)
    for folder, seed in (("a", 1), ("b", 1), ("c", 2)):
        train_align.main(["--attention", "dot", "--steps", "30", "--seed", f"{seed}", "-o", str(tmp_path / folder)])
    a, b, c = (load_file(tmp_path / folder / "dot.safetensors") for folder in "abc")
    assert all(torch.equal(a[name], b[name]) for name in a) and any(not torch.equal(a[name], c[name]) for name in a)
    losses = [float(line.split()[3]) for line in capsys.readouterr().out.splitlines() if "loss" in line]
    assert len(losses) == 9 and losses[0] > losses[2]


def test_loss_is_the_mean_of_minus_log_of_what_the_true_characters_got(small):
    network = build("dot")
    texts, outputs = ["3 March 2021", "hello"], ["2021-03-03", NONE]
    logits, true = train_align.predict(network, texts, outputs)
    written = [(0, column) for column in range(11)] + [(1, column) for column in range(5)]  # with their ends
    likelihood = [logits.softmax(-1)[row, column, true[row, column]] for row, column in written]
    torch.testing.assert_close(train_align.loss_of(network, texts, outputs), -torch.stack(likelihood).log().mean())


# --- dates and texts that are none ----------------------------------------------------------------------

WRITTEN = """
3 March 2021|3 Mar 21|3 Mar '21|3rd of March, 2021|the 3rd of March 2021|03 Mar 2021|3. March 2021|March 3rd, 2021
Mar. 3, 2021|March the 3rd, 2021|Wednesday, March 3, 2021|Wed, 3 Mar 2021|Wed Mar 03 2021|3 Mar 2021 (Wed)|3-Mar-2021
03Mar2021|Mar/03/2021|2021 March 3|2021-Mar-03|3.3.2021|03/03/21|3. 3. 2021|Wednesday, 03.03.2021|2021-03-03|2021. 3. 3
20210303|2021年3月3日|公元2021年3月3日|21年3月3号|2021年3月3日，星期三|2021年3月3日（周三）|周三 2021年3月3日
2021/3/3 周三|二〇二一年三月三日|二零二一年三月三日|二〇二一年三月三日 星期三|二一年三月三号
"""


def write(day, template):
    return template.format_map(fields_of(day.year, day.month, day.day))


def test_third_of_march_2021_as_written_by_hand():
    by_hand = {text for line in WRITTEN.split("\n") if line for text in line.split("|")}
    assert by_hand <= {write(date(2021, 3, 3), template) for template in FORMATS}


def test_parts_are_all_days_and_share_none():
    parts = [set(days(part)) for part in EVERY_PART]
    assert sum(map(len, parts)) == len(set.union(*parts)) == (LAST - FIRST).days + 1
