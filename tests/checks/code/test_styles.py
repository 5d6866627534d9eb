"""No right style is called wrong, and no wrong one right."""

import pytest
from checks.code.cases import STYLES
from checks.code.styles_table import result_of

pytestmark = pytest.mark.slow

# The formula has no part for what these have; the line says which.
REFUSED = {"lucidrains null key", "T5 bias", "einsum with bias", "Bahdanau", "additive without tanh"}


@pytest.mark.parametrize("style", STYLES, ids=lambda style: style.title)
def test_its_verdict_is_true(style):
    result = result_of(style)
    if style.title in REFUSED:
        assert result.verdict in ("refused", "right" if style.right else "wrong"), result
    else:
        assert result.verdict == ("right" if style.right else "wrong"), result
