"""The last line of a command at a terminal: what to type next, that works when pasted; and --quiet, which drops it."""

import shlex
from pathlib import Path

import pytest
from shell import run_line
from terminals import at_a_terminal

from attncli.cli import output
from attncli.features import inputs

TEXT = "the cat sat on it"
# Commands, with what the line after each begins with.
NEXT = {
    f"explain -m tiny -l -1 -H 2 '{TEXT}'": "attncli run -m tiny -l 3 -H 2 ",
    f"heatmap -m tiny -H 2 --pair 'it is big' -o a.svg '{TEXT}'": "attncli heatmap -m tiny --pair 'it is big' -H 2 ",
    f"heatmap -m tiny --style lines --mask causal -o a.svg '{TEXT}'": "attncli view -m tiny --mask causal ",
    f"view -m tiny -l 0 '{TEXT}'": "attncli view -m tiny -l 0 --open ",
    "heatmap --from maps.npz -o a.svg": "attncli heatmap --from maps.npz --style lines ",
    f"mask -m tiny --pad-to 9 '{TEXT}'": "attncli view -m tiny --pad-to 9 --mask none,causal,padding ",
    f"mechanisms -m tiny -l 0 -o a.svg '{TEXT}'": "attncli explain -m tiny -l 0 ",
    f"flow -m tiny '{TEXT}'": "attncli flow -m tiny --query it ",
    f"flow -m tiny --query it '{TEXT}'": "attncli flow -m tiny --query it -o flow.svg ",
    "stats -m tiny lines.txt": "attncli run -m tiny -l ",
    "stats --from stats.json --by previous": "attncli run -m tiny -l ",
    "probe -m tiny trees.conllu": "attncli run -m tiny -l ",
    f"diff -m tiny --masks none,causal '{TEXT}'": "attncli diff -m tiny -l ",
    f"compare -m tiny '{TEXT}'": "attncli compare -m tiny --against torch ",
    f"run -m tiny -l 0 '{TEXT}'": "attncli run -m tiny -l 0 -H ",
    f"run -m tiny -l 0 -H 1 '{TEXT}'": "attncli heatmap -m tiny -l 0 -H 1 --style lines ",
    f"find -m tiny it cat '{TEXT}'": "attncli run -m tiny -l ",
    f"find -m speaks --by logit --at 2 --target cat '{TEXT}'": "attncli explain -m speaks --target cat -l ",
    f"explain -m speaks --logit --target cat '{TEXT}'": "attncli run -m speaks -l 3 -H 0 ",
    f"ablate -m tiny '{TEXT}'": "attncli run -m tiny -l ",
    "ablate -m tiny -f lines.txt": "attncli run -m tiny -f lines.txt -l ",
    f"cut -m tiny -l 0 '{TEXT}'": "attncli find -m tiny -l 0 ",
    f"patch -m tiny '{TEXT}' 'the cat sat on the'": "attncli diff -m tiny ",
    f"similar '{TEXT}' 'the cat sat'": "attncli ablate --similar-to 'the cat sat' ",
    f"trust -m tiny --permutations 5 --rankings 120 '{TEXT}'": "attncli ablate -m tiny ",
    "samples": "attncli samples coreference.txt",
    "models": "attncli models show minilm",
    "models show tiny": "attncli run -m tiny",
    "align": "attncli align -o align.html",
    "align --attention transformer '3 March 2021'": "attncli align --attention transformer -o align.html ",
}


@pytest.fixture
def place(tiny, tmp_path, monkeypatch):
    (tmp_path / "tiny").symlink_to(tiny("bert"))
    (tmp_path / "speaks").symlink_to(tiny("gpt2", head="LMHeadModel"))
    (tmp_path / "lines.txt").write_text(f"{TEXT}\nit is too big\n", encoding="utf-8")
    trees = (Path(__file__).parents[2] / "sample_inputs" / "treebank.conllu").read_text(encoding="utf-8").split("\n\n")
    (tmp_path / "trees.conllu").write_text("\n\n".join(trees[:3]) + "\n\n", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def hinted(attncli, monkeypatch):
    """`hinted("explain", ...)` -> the lines that there are for a terminal."""

    def run(*arguments: str) -> list[str]:
        offered: list[str] = []
        monkeypatch.setattr(output, "hint", offered.append)
        result = attncli(*arguments)
        assert result.code == 0, result
        return offered

    return run


@pytest.mark.slow
@pytest.mark.parametrize("line", NEXT)
def test_what_is_offered_works_when_pasted(line, place, hinted, attncli):
    if "maps.npz" in line:
        attncli("run", "-m", "tiny", "-l", "all", "-o", "maps.npz", TEXT)
    if "stats.json" in line:
        attncli("stats", "-m", "tiny", "-o", "stats.json", "lines.txt")
    [offered] = hinted(*shlex.split(line))
    command = offered.removeprefix("Next: ")
    assert command.startswith(NEXT[line])
    assert run_line(command, place).code == 0


def test_json_and_what_another_command_can_t_take_offer_nothing(place, hinted):
    assert hinted("explain", "-m", "tiny", "--json", TEXT) == []
    assert hinted("models", "--json") == []
    assert hinted("compare", "-m", "tiny", "--against", "torch", "--pair", "it is big", TEXT) == []


@pytest.mark.parametrize(
    ("text", "last"),
    [
        (("the cat",), [" 'the cat'"]),
        (('it\'s "big" $HOME',), [" 'it'\"'\"'s \"big\" $HOME'"]),
        (("--", "-l cat"), [" -- '-l cat'"]),
        (("the \x1b[31mcat",), []),
        (("the \u202ecat",), []),
        ((), [""]),
    ],
)
def test_the_text_is_quoted_or_left_out(text, last, place, hinted):
    offered = hinted("explain", "-m", "tiny", "-l", "1", *text)
    assert offered == [f"Next: attncli run -m tiny -l 1 -H 0{end}" for end in last]


def test_a_file_is_named_and_a_text_that_was_piped_in_can_t_be(place, hinted, monkeypatch):
    (place / "one.txt").write_text("the cat", encoding="utf-8")
    [offered] = hinted("explain", "-m", "tiny", "-l", "1", "-f", "one.txt")
    assert offered == "Next: attncli run -m tiny -f one.txt -l 1 -H 0"
    monkeypatch.setattr(inputs, "read_stdin", lambda: b"the cat")
    assert hinted("explain", "-m", "tiny", "-l", "1", "-f", "-") == []


# --- at a terminal --------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_command_at_a_terminal_that_fits_into_three_lines_of_it(place):
    command = ("explain", "-m", "tiny", "-l", "0", TEXT)
    code, shown = at_a_terminal(command, place)
    assert code == 0
    assert shown.splitlines()[-1] == f"\x1b[2mNext: attncli run -m tiny -l 0 -H 0 '{TEXT}'\x1b[0m"
    _, shown = at_a_terminal(command, place, columns=50, NO_COLOR="1")
    assert shown.splitlines()[-1] == f"Next: attncli run -m tiny -l 0 -H 0 '{TEXT}'"  # it folds
    _, shown = at_a_terminal(command, place, columns=12)
    assert "attncli" not in shown


@pytest.mark.slow
@pytest.mark.parametrize(("option", "variable"), [(("-q",), ""), ((), "1"), ((), "true")])
def test_quiet_says_nothing_at_a_terminal(option, variable, place):
    _, shown = at_a_terminal(("heatmap", "-m", "tiny", "-o", "a.svg", *option), place, ATTNCLI_QUIET=variable)
    assert shown == "a.svg\n"


@pytest.mark.slow
def test_only_errors_are_not_quiet(attncli, refused, place, monkeypatch):
    plain = attncli("heatmap", "-m", "tiny", "-o", "a.svg")
    quiet = attncli("heatmap", "-m", "tiny", "-o", "a.svg", "--quiet")
    assert "no text given" in plain.err and quiet.err == "" and quiet.out == plain.out
    long = "the cat " * 400
    assert attncli("stats", "-m", "tiny", "lines.txt", "-o", "a.csv", "-q").err == ""
    assert "no model" in refused("run", "-q", "-m", "nonsense", long)
    monkeypatch.setenv("ATTNCLI_QUIET", "0")
    assert "no text given" in attncli("heatmap", "-m", "tiny", "-o", "a.svg").err
