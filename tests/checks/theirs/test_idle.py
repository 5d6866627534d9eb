"""What is said of somebody's attention and has no effect is refused, in Python as by the command."""

import pytest
from own_attention import MINE

import attncli
from attncli.base.errors import RequestError

SPACE: dict = {}
exec(MINE, SPACE)


@pytest.mark.parametrize(
    ("name", "kind", "wanted", "said"),
    [
        ("causal_mask", "mask", {"layout": "token d"}, "--layout has no effect on what is checked as mask"),
        ("positions", "positions", {"means": "added"}, "--mask-means has no effect on what is checked as positions"),
        ("causal_mask", "mask", {"map": {"m": "length"}}, "--map 'm': nothing has this name; there is n"),
        ("positions", "positions", {"map": {"m": "length"}}, "there is length, d_model"),
        ("unscaled", "attention", {"means": "added"}, "--mask-means has no effect, as unscaled takes no mask"),
        ("unscaled", "attention", {"nowhere": "any"}, "--nowhere has no effect, as unscaled takes no mask"),
        ("unscaled", "attention", {"map": {"q": "what"}}, "--map 'q=what': that is none of x, query, "),
        ("unscaled", "attention", {"give": {"n": 1}}, "--give n: unscaled's constructor has no such parameter"),
        ("MyAttention", "attention", {"map": {"W": "query"}}, "there is q, k, v, mask, W_q, W_k, W_v, W_o"),
    ],
)
def test_it_is_refused(name, kind, wanted, said):
    with pytest.raises(RequestError) as refused:
        attncli.check(SPACE[name], kind, **wanted)
    assert said in str(refused.value)
