"""The mistakes of mistakes.txt can be planted."""

import ast
from pathlib import Path

import pytest
from mistakes import Mistake, plant, read_mistakes

import attncli

PACKAGE = Path(attncli.__file__).parent


@pytest.mark.slow
@pytest.mark.parametrize("mistake", read_mistakes(), ids=lambda mistake: mistake.name)
def test_a_mistake_has_one_place_in_the_package_and_changes_it(mistake: Mistake) -> None:
    path, text = plant(mistake, PACKAGE)
    assert ast.dump(ast.parse(text)) != ast.dump(ast.parse(path.read_text(encoding="utf-8")))


def test_a_mistake_without_a_place_is_refused() -> None:
    with pytest.raises(ValueError, match="0 times, not once: nothing"):
        plant(Mistake("none", "meet", "nothing", "None", {}), PACKAGE)


def test_layout_comments_and_the_file_do_not_matter(tmp_path: Path) -> None:
    mistake = Mistake("sum", "Sums.both", "f(a, b)", "f(a)", {})
    source = (
        'class Sums:\n    def both(self, a, b):\n        return "é", f(  # of\n            a,  b,\n        ), g(a)\n'
    )
    (tmp_path / "any.py").write_text(source, encoding="utf-8")
    wanted = 'class Sums:\n    def both(self, a, b):\n        return "é", (f(a)), g(a)\n'
    assert plant(mistake, tmp_path) == (tmp_path / "any.py", wanted)
