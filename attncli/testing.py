"""Check attention in your own tests. It is a plug-in for pytest too, which gives both functions as fixtures:

    def test_attention(assert_attention):
        assert_attention(MyAttention)


    def test_no_leak(assert_no_leak):
        assert_no_leak(MyModel().eval(), vocab_size=100)

Or import them: `from attncli.testing import assert_attention, assert_no_leak`. Importing this module imports no torch.
"""

import sys
from collections.abc import Callable
from copy import deepcopy
from typing import TYPE_CHECKING, Any

from attncli.base.errors import RequestError

if TYPE_CHECKING:
    from attncli.checks.behaviour.model import ModelSubject

LAWS = ("look-ahead", "padding on the right", "padding on the left")


def assert_attention(module: Any, **options: Any) -> None:
    """Assert that a function, a module or its class is attention. options: those of `attncli.check`.

    Raises AssertionError with what `attncli check` says, and RequestError where it can't be checked.
    """
    __tracebackhide__ = True
    from attncli.checks.code.check import check

    result = check(module, **options)
    if not result.right:
        raise AssertionError(str(result))


def assert_no_leak(
    model: Any,
    *,
    call: Callable[..., Any] | None = None,
    causal: bool | None = None,
    vocab_size: int | None = None,
    width: int | None = None,
) -> None:
    """Assert that no token of a model sees a later one, and that [PAD] moves nothing. The model is not changed.

    Nothing else is looked at: not windows, cached positions, the order of key heads, or scales.

        assert_no_leak(network)                            # a model of transformers
        assert_no_leak(MyGPT(), vocab_size=100)            # reads ids `[text, token]`, returns vectors or logits
        assert_no_leak(MyLayer(64), width=64)              # reads and returns vectors `[text, token, width]`
        assert_no_leak(MyBERT(), vocab_size=100, causal=False, call=lambda ids, real: bert(ids, key_padding_mask=~real))

    call: runs the model on texts and a mask of the real tokens, bool `[text, token]`, or None if all are real. Without
    it, [PAD] is checked only in models of transformers. causal: by default what the configuration says, else True.

    Raises AssertionError with position, layer, head and size of the leak; RequestError where nothing can be checked.
    """
    __tracebackhide__ = True
    from attncli.checks.behaviour.laws import examine

    subject = open_model(model, call, causal, vocab_size, width)
    result = examine(type(model).__name__, "model", lambda _: subject, ("",), LAWS)
    if result.broken:
        raise AssertionError(str(result))
    if not result.right:
        raise RequestError(f"nothing of {result.name} could be checked: {'; '.join(map(str, result.outcomes))}")


def open_model(
    model: Any, call: Callable[..., Any] | None, causal: bool | None, vocab_size: int | None, width: int | None
) -> "ModelSubject":
    """Make a subject of the caller's model. Raises RequestError where nothing says what the model reads."""
    import torch
    from transformers import PreTrainedModel

    from attncli.checks.behaviour.model import ModelSubject
    from attncli.checks.behaviour.opening import make_subject

    if isinstance(model, PreTrainedModel) and call is None:
        return make_subject(deepcopy(model), causal)
    if (vocab_size is None) == (width is None):
        raise RequestError("Say what the model reads: vocab_size= for ids, or width= for vectors.")
    if getattr(model, "training", False):
        raise RequestError("The model is in training mode, where dropout changes every output. Call its .eval() first.")
    parameters = model.parameters() if isinstance(model, torch.nn.Module) else ()
    dtype = next((one.dtype for one in parameters), torch.float32)
    subject = ModelSubject(
        model, call or (lambda texts, _: model(texts)), causal is not False, vocab_size, width, dtype
    )
    subject.takes_padding = call is not None
    with torch.no_grad():
        subject.find_places()
    return subject


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
