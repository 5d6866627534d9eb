"""Operations of an encoder: as torch counts them on ours."""

import pytest
import torch
from checkpoints import ONE_OF_EACH
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode
from walks import made_up, walked

from attncli import load_model
from attncli.checks.flops import encoder_flops
from attncli.models import network as linear
from attncli.models import rows


@pytest.fixture(params=ONE_OF_EACH, scope="module")
def model(request, tiny):
    loaded = load_model(str(tiny(request.param)), device="cpu")
    loaded.need(loaded.config.layers)
    walked(loaded.network, [made_up([10, 11])], layers=[], whole=True)  # what is made once is made
    return loaded


@pytest.mark.slow
@settings(max_examples=10)
@given(texts=st.integers(1, 3), tokens=st.integers(1, 30), heads=st.integers(1, 4))
def test_they_are_as_torch_counts_them(model, texts, tokens, heads):
    ids = torch.randint(10, 20, (texts, tokens), generator=torch.Generator().manual_seed(0)).tolist()
    texts_made = [made_up(one) for one in ids]
    kept = list(range(min(heads, model.config.heads)))
    layers = model.config.layers
    for wanted, expected in (
        ({"layers": [], "whole": True}, encoder_flops(model.config, texts, tokens, layers)),
        ({"layers": [1], "heads": kept}, encoder_flops(model.config, texts, tokens, 1, len(kept))),
    ):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(linear, "ONEDNN_LINEAR", None)  # torch's counter does not know that operator
            patch.setattr(rows, "ROWS", 1)  # no idle rows
            with sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False) as counter:
                walked(model.network, texts_made, **wanted)
        assert counter.get_total_flops() == expected
