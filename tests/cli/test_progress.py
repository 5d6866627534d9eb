"""Check the progress on a stderr that is no terminal."""

from attncli.base import progress


def test_a_command_that_takes_long_says_how_far_it_is(attncli, monkeypatch):
    monkeypatch.setattr(progress, "SECONDS", 0)
    code, _, said = attncli("ablate", "The cat sat.", "-l", "5", "-H", "0-1")
    assert code == 0 and said.splitlines() == [f"attncli: changes: {done} of 4" for done in range(1, 5)]
    code, printed, said = attncli("ablate", "The cat sat.", "-l", "5", "-H", "0-1", "--json", "-q")
    assert code == 0 and printed.startswith("{") and said == ""
