"""What is said of somebody's attention and has no effect is refused, in Python as by the command."""

import pytest
from own_attention import MINE

import attncli
from attncli.base.errors import RequestError

SPACE: dict = {}
exec(MINE, SPACE)


@pytest.mark.parametrize(
    ("name", "wanted", "said"),
    [
        ("unscaled", {"means": "added"}, "--mask-means has no effect, as unscaled takes no mask"),
        ("unscaled", {"nowhere": "nan"}, "--nowhere has no effect, as unscaled takes no mask"),
        ("unscaled", {"map": {"q": "what"}}, "--map 'q=what': that is none of x, query, "),
        ("unscaled", {"give": {"n": 1}}, "--give n: unscaled's constructor has no such parameter"),
        ("MyAttention", {"map": {"W": "query"}}, "there is q, k, v, mask, W_q, W_k, W_v, W_o"),
    ],
)
def test_it_is_refused(name, wanted, said):
    with pytest.raises(RequestError) as refused:
        attncli.check(SPACE[name], **wanted)
    assert said in str(refused.value)
