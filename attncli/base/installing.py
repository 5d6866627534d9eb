"""How to install what an extra brings. Nothing is on PyPI under this name: it is installed from a clone."""

from pathlib import Path

from attncli.base.printable import printable


def install_hint(extra: str) -> str:
    """Say how to install an extra, and name the clone where the package runs from one."""
    clone = find_clone()
    where = "a clone of attncli" if clone is None else f"the clone {printable(str(clone))}"
    return f'pip install ".[{extra}]" in {where}'


def find_clone() -> Path | None:
    """Find the clone that this package lies in: of an editable install or a checkout. Return None for another one."""
    folder = Path(__file__).resolve().parents[2]
    try:
        text = (folder / "pyproject.toml").read_text(encoding="utf-8")
    except (OSError, ValueError):
        return None
    return folder if '\nname = "attncli"\n' in text else None
