"""Check attention in your own tests. This module is also a pytest plug-in, with both functions as fixtures:

    def test_attention(assert_attention):
        assert_attention(MyAttention)


    def test_no_leak(assert_no_leak):
        assert_no_leak(MyModel().eval(), vocab_size=100)

Or import them: `from attncli.testing import assert_attention, assert_no_leak`. Importing this module does not import
torch.
"""

import sys
from collections.abc import Callable, Mapping
from copy import deepcopy
from typing import TYPE_CHECKING, Any

from attncli.base.errors import RequestError

if TYPE_CHECKING:
    from attncli.checks.behaviour.model import ModelSubject

LAWS = ("look-ahead", "padding on the right", "padding on the left")


def assert_attention(module: Any, **options: Any) -> None:
    """Assert that a function, a module or its class computes attention correctly.

    options: those of `attncli.check`. Raises AssertionError with the output of `attncli check`, and RequestError if it
    can't be checked.
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
    batch: Mapping[str, Any] | None = None,
) -> None:
    """Assert that no token of a model depends on a later one or on [PAD].

    The model is not changed. Windows, cached positions, the order of key heads and scales are not checked. With a
    batch, no token may depend on another document, on [PAD], or in a decoder on later tokens.

        assert_no_leak(network)                            # a model of transformers
        assert_no_leak(MyGPT(), vocab_size=100)            # reads ids `[text, token]`, returns vectors or logits
        assert_no_leak(MyLayer(64), width=64)              # reads and returns vectors `[text, token, width]`
        assert_no_leak(network, batch=collator(examples))  # checks the masks of your own batch
        assert_no_leak(bert, vocab_size=100, causal=False, call=lambda ids, real: bert(ids, key_padding_mask=~real))

    call: runs the model on texts and a mask of the real tokens, bool `[text, token]`, or None if all are real. Without
    it, [PAD] is checked only in models of transformers. causal: by default as in the configuration, else True. batch:
    tensors by name, as a collator returns them (`attncli.checks.behaviour.batch`); `call` then runs the model on such a
    batch.

    Raises AssertionError with position, layer, head and size of the leak, and RequestError if nothing can be checked.
    """
    __tracebackhide__ = True
    if batch is not None:
        from attncli.checks.behaviour.batch import check_batch

        if vocab_size is not None or width is not None:
            raise RequestError("vocab_size and width have no effect with a batch: omit them")
        checked = check_batch(model, batch, call=call, causal=causal)
        if checked.broken:
            raise AssertionError(str(checked))
        return
    from attncli.checks.behaviour.laws import examine
    from attncli.models.transformers_place import is_of_transformers

    subject = open_model(model, call, causal, vocab_size, width)
    result = examine(type(model).__name__, "model", lambda _: subject, ("",), LAWS)
    if result.broken:
        is_guess = causal is None and LAWS[0] in {one.law for one in result.broken} and not is_of_transformers(model)
        raise AssertionError(
            str(result) + ("\nan encoder, whose tokens see later ones: causal=False" if is_guess else "")
        )
    if not result.right:
        raise RequestError(f"{result.name} could not be checked: {'; '.join(map(str, result.outcomes))}")


def open_model(
    model: Any, call: Callable[..., Any] | None, causal: bool | None, vocab_size: int | None, width: int | None
) -> "ModelSubject":
    """Make a subject of the caller's model. Raises RequestError if its input is unknown."""
    import torch

    from attncli.checks.behaviour.model import ModelSubject
    from attncli.checks.behaviour.opening import make_subject
    from attncli.models.transformers_place import is_of_transformers

    if is_of_transformers(model) and call is None:
        return make_subject(deepcopy(model), causal)
    if (vocab_size is None) == (width is None):
        raise RequestError("The model's input is unknown: give vocab_size= for ids, or width= for vectors.")
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
