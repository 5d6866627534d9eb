"""Check attention in your own tests. It is a plug-in for pytest too, which gives both functions as fixtures:

    def test_attention(assert_attention):
        assert_attention(MyAttention)


    def test_no_leak(assert_no_leak):
        assert_no_leak(MyModel(), vocab_size=100)

Or import them: `from attncli.testing import assert_attention, assert_no_leak`. Importing this module imports no torch.
"""

import sys
from collections.abc import Callable
from typing import Any

from attncli.base.errors import RequestError

LAWS = ("look-ahead", "padding on the right", "padding on the left")


def assert_attention(module: Any, **options: Any) -> None:
    """Assert that a function, a module or its class is attention. options: those of `attncli.check`.

    Raises AssertionError with what `attncli check` says, and RequestError where it can't be checked.
    """
    __tracebackhide__ = True
    from attncli.checks.code.check import check

    found = check(module, **options)
    if not found.right:
        raise AssertionError(str(found))


def assert_no_leak(
    model: Any,
    *,
    call: Callable[..., Any] | None = None,
    causal: bool | None = None,
    vocab_size: int | None = None,
    width: int | None = None,
) -> None:
    """Assert that a model shows no token what follows it, and that [PAD] moves nothing. It is not changed.

        assert_no_leak(network)                            # a model of transformers
        assert_no_leak(MyGPT(), vocab_size=100)            # ids `[text, token]` in, vectors or logits out
        assert_no_leak(MyLayer(64), width=64)              # vectors `[text, token, width]` in and out
        assert_no_leak(MyBERT(), vocab_size=100, causal=False, call=lambda ids, real: bert(ids, key_padding_mask=~real))

    call: runs it on texts and on which tokens are real, bool `[text, token]`, or None for all; without it a model that
    is not of transformers is asked about the future alone. causal: by default what the configuration says, else True.

    Raises AssertionError with position, layer, head and size of the leak; RequestError where nothing can be checked.
    """
    __tracebackhide__ = True
    from attncli.checks.behaviour.examine import examine
    from attncli.checks.behaviour.opening import subject_of_model

    subject = subject_of_model(model, call, causal, vocab_size, width)
    found = examine(type(model).__name__, "model", lambda _: subject, ("as it is",), LAWS)
    if found.broken:
        raise AssertionError(str(found))
    if not found.right:
        raise RequestError(f"nothing of {found.name} could be checked: {'; '.join(map(str, found.outcomes))}")


if "pytest" in sys.modules:
    import pytest

    @pytest.fixture(name="assert_attention")
    def give_assert_attention() -> Callable[..., None]:
        """Give `attncli.testing.assert_attention`."""
        return assert_attention

    @pytest.fixture(name="assert_no_leak")
    def give_assert_no_leak() -> Callable[..., None]:
        """Give `attncli.testing.assert_no_leak`."""
        return assert_no_leak
