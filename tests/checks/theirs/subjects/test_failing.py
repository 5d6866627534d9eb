"""What goes wrong in somebody's code is a line that does no harm."""

import pytest

from attncli.checks.theirs.subjects.failing import NO_ROOM, in_a_line, in_words, shown


def raised(error: BaseException) -> BaseException:
    try:
        raise error
    except BaseException as caught:  # noqa: BLE001
        return caught


LINE = raised.__code__.co_firstlineno + 2
SAID = {
    "ValueError: odd": ValueError("odd\nand more"),
    "ValueError": ValueError("  "),
    "KeyError: no 'k'": KeyError("k"),
    NO_ROOM: MemoryError(),
    r"TypeError: \x1b[31mred": TypeError("\x1b[31mred"),
    "it ends itself by sys.exit()": SystemExit(),
    r"it ends itself by sys.exit(\x1b)": SystemExit("\x1b"),
    f"ValueError: {'x' * 147}…": ValueError("x" * 1000),
}


@pytest.mark.parametrize(("said", "error"), SAID.items(), ids=map(repr, SAID.values()))
def test_an_error_in_a_line(said, error):
    assert in_a_line(raised(error), __file__) == (said, LINE)
    assert in_words(error, __file__) == f"{said} (line {LINE})" and in_words(error, "other.py") == said


def test_torch_runs_out_of_memory_in_words_of_its_own():
    error = RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory: you tried to allocate 8 bytes.")
    assert in_a_line(error, "") == (NO_ROOM, None)


def test_of_a_long_name_the_end_is_shown():
    assert shown("a/" * 50 + "mine.py:Attention").endswith("a/a/mine.py:Attention")
    assert len(shown("a" * 100)) == 60 and shown("\x1b[31m.py") == r"\x1b[31m.py"
