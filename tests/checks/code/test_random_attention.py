"""A random search: attention in a random style is never called wrong, and never right with a mistake in it."""

import importlib.util
import random
import sys
import warnings
from collections import Counter

import pytest
from checks.code.composed import CHOICES, MISTAKES, consistent, is_module, program

import attncli


def verdict(style, mistake, folder):
    """Return "right", "wrong" or "refused", and what `check` says."""
    path = folder / f"random_{abs(hash((tuple(style.items()), mistake)))}.py"
    path.write_text(program(style, mistake))
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = attncli.check(module.Attention if is_module(style) else module.attention)
    except attncli.RequestError as error:
        return "refused", str(error)
    return "right" if found.right else "wrong", str(found)


@pytest.mark.slow
@pytest.mark.parametrize(("count", "seed"), [(4, 36), (100, 0), (100, 1), (100, 2)])
def test_no_random_attention_gets_the_wrong_verdict(count, seed, tmp_path):
    """Half of all draws have a mistake. At most a quarter is refused."""
    chooser, verdicts = random.Random(seed), Counter()
    for _ in range(count):
        style = consistent({name: chooser.choice(values) for name, values in CHOICES.items()})
        mistakes = [name for name, applies in MISTAKES.items() if applies(style)]
        mistake = chooser.choice([None, chooser.choice(mistakes)])
        said, why = verdict(style, mistake, tmp_path)
        assert said != ("right" if mistake else "wrong"), (mistake, why, program(style, mistake))
        verdicts[said] += 1
    assert verdicts["refused"] <= count / 4, verdicts
