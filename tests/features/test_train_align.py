"""attncli train-align: what it writes and says, interruptions, refusals."""

import pytest

from attncli.align import checkpoint, train
from attncli.features import train_align

SMALL = {"d_embedding": 4, "d_hidden": 6}


@pytest.fixture(autouse=True)
def small(monkeypatch):
    """A small network, small batches, measured every second step."""
    monkeypatch.setitem(checkpoint.SIZES, "dot", SMALL)
    monkeypatch.setattr(train, "BATCH", 4)
    for name, value in {"EVERY": 2, "VALIDATION": 5, "TEST": 20, "TEST_NO_DATES": 10}.items():
        monkeypatch.setattr(train_align, name, value)


def content(path):
    """Return the numbers in a file. Its bytes differ: the order of the metadata is random."""
    network = checkpoint.load(path.parent, path.stem).network
    return {name: tensor.tolist() for name, tensor in network.state_dict().items()}


def test_weights_are_written_measured_and_used_by_align(attncli, tmp_path):
    folder = tmp_path / "new" / "folder"
    done = attncli("train-align", "--attention", "dot", "--steps", 4, "-o", folder)
    assert done.code == 0
    assert [path.name for path in folder.iterdir()] == ["dot.safetensors"]
    path, dates, no_dates = done.out.splitlines()
    assert path == str(folder / "dot.safetensors") and "of 20 dates never seen are exact" in dates
    assert no_dates.endswith("of 10 texts that are no date are exact")
    assert [line.split()[2:4] for line in done.err.splitlines()] == [["step", "2/4"], ["step", "4/4"]]
    assert all("loss" in line and "exact" in line for line in done.err.splitlines())
    assert attncli("align", "--attention", "dot", "--weights", folder, "3 March 2021").code == 0


def test_the_same_command_makes_the_same_weights(attncli, tmp_path):
    for folder, seed in (("a", 1), ("b", 1), ("c", 2)):
        attncli("train-align", "--attention", "dot", "--steps", 3, "--seed", seed, "-o", tmp_path / folder)
    a, b, c = (content(tmp_path / folder / "dot.safetensors") for folder in "abc")
    assert a == b != c


def test_an_interruption_leaves_no_file(attncli, tmp_path, monkeypatch):
    def interrupted(network, seed, steps):
        raise KeyboardInterrupt

    monkeypatch.setattr(train, "train", interrupted)
    result = attncli("train-align", "--attention", "dot", "--steps", 6, "-o", tmp_path)
    assert result.code == 130 and result.out == "" and not list(tmp_path.iterdir())


def test_bad_requests_are_refused_in_one_line(refused, tmp_path):
    assert "no attention 'location': it is one of additive, dot, general, concat, transformer" in refused(
        "train-align", "--attention", "location", "-o", tmp_path
    )
    (tmp_path / "file").touch()
    assert "folder" in refused("train-align", "--attention", "dot", "-o", tmp_path / "file")
    assert "--steps" in refused("train-align", "--attention", "dot", "--steps", 0)
    assert not list(tmp_path.glob("*.safetensors"))
