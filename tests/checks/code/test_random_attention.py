"""A random search: attention in a random style is never called wrong, and never right with a mistake in it.

python tests/checks/code/test_random_attention.py 500 7    500 programs from seed 7; each error as its smallest program
"""

import importlib.util
import random
import sys
import tempfile
import warnings
from collections import Counter
from pathlib import Path

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[2]))

import pytest
from checks.code.composed import CHOICES, MISTAKES, consistent, is_module, program

import attncli


def verdict(style, mistake, folder):
    """Return "right", "wrong", "refused" or "crashed", and what `check` says."""
    path = Path(folder) / f"random_{abs(hash((tuple(style.items()), mistake)))}.py"
    path.write_text(program(style, mistake))
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    options = {"means": style["means"]} if style["said"] else {}
    options |= {"give": GIVEN[style["position"]]} if style["position"] in GIVEN else {}
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = attncli.check(module.Attention if is_module(style) else module.attention, **options)
    except attncli.RequestError as error:
        return "refused", str(error)
    except RuntimeError as error:
        return "crashed", str(error)
    return "right" if found.right else "wrong", str(found)


GIVEN = {"window": {"sliding_window": 3}, "softcap": {"softcap": 2.0}}


def draw(chooser):
    """Draw a style, and a mistake that is one in this style, or None in half of all draws."""
    style = consistent({name: chooser.choice(values) for name, values in CHOICES.items()})
    mistakes = [name for name, applies in MISTAKES.items() if applies(style)]
    return style, chooser.choice([None, chooser.choice(mistakes)])


def search(count, seed, folder):
    """Yield the errors of the checker among `count` draws. Then assert that it refused at most a quarter."""
    chooser, verdicts = random.Random(seed), Counter()
    for _ in range(count):
        style, mistake = draw(chooser)
        said, why = verdict(style, mistake, folder)
        verdicts[said] += 1
        if said in ("right" if mistake else "wrong", "crashed"):
            yield style, mistake, why
    print(f"seed {seed}: {dict(verdicts)}")
    assert verdicts["refused"] <= count / 4, verdicts


def smallest(style, mistake, folder):
    """Reduce a style on which the checker errs."""
    for name, (simplest, *_) in CHOICES.items():
        other = consistent(style | {name: simplest})
        errors = "right" if mistake else "wrong", "crashed"
        if (mistake is None or MISTAKES[mistake](other)) and verdict(other, mistake, folder)[0] in errors:
            style = other
    return style


@pytest.mark.slow
@pytest.mark.parametrize(("count", "seed"), [(4, 36), (100, 0), (100, 1), (100, 2)])
def test_no_random_attention_gets_the_wrong_verdict(count, seed, tmp_path):
    errors = [(mistake, why, program(style, mistake)) for style, mistake, why in search(count, seed, tmp_path)]
    assert not errors, "\n\n".join(map(str, errors[0]))


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as place:
        shown = []
        for style, mistake, _ in search(int(sys.argv[1]), int(sys.argv[2]), place):
            style = smallest(style, mistake, place)
            odd = {name: value for name, value in style.items() if value != CHOICES[name][0]}
            if (odd, mistake) in shown:
                continue
            shown.append((odd, mistake))
            print(f"\n# {mistake or 'right'}: {odd}\n# {verdict(style, mistake, place)}\n{program(style, mistake)}")
