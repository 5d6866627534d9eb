"""Verdicts of `check`: their words, conventions, mistakes and refusals. Nothing that is checked changes."""

import json
import pickle
import re
import threading

import pytest
import torch
import torch.nn.functional as F
from own_attention import MINE
from slow import slow_except
from torch import nn

import attncli

SPACE: dict = {}
exec(MINE, SPACE)
UNSCALED, MINE_MODULE, UNIFORM = SPACE["unscaled"], SPACE["MyAttention"], SPACE["attention"]
kernel = F.scaled_dot_product_attention


def right(query, key, value, mask=None):
    return kernel(query, key, value, mask)


def attention_with(
    scores=lambda x: x, normalise=lambda x: x.softmax(-1), mask_of_pairs=lambda x: x, mask_of_padding=lambda x: x
):
    """Return right attention except for what is given. Both masks: True = allowed."""

    def attention(query, key, value, attn_mask=None, key_padding_mask=None):
        made = scores(query @ key.mT / query.shape[-1] ** 0.5)
        if attn_mask is not None:
            made = made.masked_fill(~mask_of_pairs(attn_mask), -torch.inf)
        if key_padding_mask is not None:
            made = made.masked_fill(~mask_of_padding(key_padding_mask)[:, None, None, :], -torch.inf)
        return normalise(made).nan_to_num() @ value

    return attention


class Plain(nn.Module):
    """Right. Classes below change a part."""

    def __init__(self, d_model, num_heads):
        super().__init__()
        self.num_heads = num_heads
        self.W_q, self.W_k, self.W_v, self.W_o = (nn.Linear(d_model, d_model) for _ in range(4))

    def split(self, x):
        return x.unflatten(-1, (self.num_heads, -1)).transpose(1, 2)

    def attend(self, q, k, v):
        return kernel(q, k, v)

    def forward(self, x):
        q, k, v = (self.split(layer(x)) for layer in (self.W_q, self.W_k, self.W_v))
        return self.W_o(self.attend(q, k, v).transpose(1, 2).flatten(-2))


def failing(found):
    return {one.name for one in found.checks if one.holds is False}


def mistakes(thing, **wanted):
    found = attncli.check(thing, **wanted)
    assert not found.right
    return [one.mistake for one in found.diagnosis]


def refusal(thing, **wanted):
    with pytest.raises(attncli.RequestError) as refused:
        attncli.check(thing, **wanted)
    reason, *adapter = str(refused.value).split("\n")
    assert len(reason) <= 320 and reason.isprintable() and len(adapter) in (0, 3)
    return reason


# --- what a verdict says ----------------------------------------------------------------------------------


def test_a_right_verdict_has_its_conventions_and_its_document_is_json():
    found = attncli.check(MINE_MODULE)
    assert found.right and not found.diagnosis and not found.smallest
    assert found.verdict.startswith("right: MyAttention computes attention. Conventions: ")
    assert str(found) == found.verdict
    assert any("True = allowed, as [query, key]" in one for one in found.conventions)
    assert sum(one.holds is True for one in found.checks) > 8
    document = json.loads(json.dumps(found.document(), allow_nan=False))
    assert document["right"] is True and document["verdict"] == found.verdict and document["smallest"] is None
    assert set(document["checks"][0]) == {"name", "holds", "difference", "note"}


def test_a_wrong_verdict_names_the_mistake_the_line_and_the_remedy(tmp_path):
    found = attncli.check(UNSCALED)
    [one] = found.diagnosis
    assert (
        found.verdict == "wrong: unscaled computes attention without the division by √d_k" and one.mistake == "no scale"
    )
    assert one.remedy and one.remedy in str(found) and failing(found)
    assert json.loads(json.dumps(found.document(), allow_nan=False))["diagnosis"][0]["mistake"] == "no scale"


def test_the_line_is_short_and_no_terminal_obeys_it(tmp_path, monkeypatch):
    path = tmp_path / "long_line.py"
    noise = " + ".join(["0"] * 100)
    path.write_text(
        '"""softmax(q @ k)"""\n\n\ndef attention(q, k, v):\n    # scores = q @ k.mT\n'
        f"    return (q @ k.mT).softmax(-1) @ v  # \x1b[31m {noise}\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    from long_line import attention  # type: ignore[import-not-found]

    [one] = attncli.check(attention).diagnosis
    assert one.line == 6 and one.text.startswith("return (q @ k.mT)") and len(one.text) <= 100
    assert "\x1b" not in one.text


@pytest.mark.slow
@pytest.mark.parametrize(
    "thing",
    [
        lambda q, k, v: right(q, k, v) + 1e-4,
        pytest.param(lambda q, k, v: right(q, k, 2 * v), marks=pytest.mark.slow),
    ],
)
def test_the_smallest_input_shows_a_difference(thing):
    found = attncli.check(thing)
    assert not found.right and not found.diagnosis and "no known mistake explains it" in found.verdict
    mine, formula = re.search(r" is (\S+); the formula gives (\S+)$", found.smallest).groups()
    assert mine != formula and found.smallest in str(found)


def test_parameters_that_were_never_given_stand_in_the_verdict():
    class Cached(Plain):
        def forward(self, x, past_state=None, colour=None):
            return super().forward(x)

    found = attncli.check(Cached)
    assert set(found.unchecked) == {"past_state", "colour"} and found.right
    assert found.verdict.startswith("right, but never called with past_state, colour: Cached computes attention")
    assert not attncli.check(Plain).unchecked and attncli.check(Plain).verdict.startswith("right: ")


class Biased(Plain):
    """Adds a learned number for each head and distance to the scores."""

    factor, is_read, name = 1.0, True, "distances"

    def __init__(self, d_model, num_heads):
        super().__init__(d_model, num_heads)
        setattr(self, self.name, nn.Embedding(32, num_heads))

    def attend(self, q, k, v):
        places = torch.arange(q.shape[-2])
        bias = getattr(self, self.name)((places[:, None] - places).clamp(-15, 15) + 15).permute(2, 0, 1)
        return kernel(self.factor * q, k, v, self.is_read * bias.to(q))


def test_weights_of_unknown_meaning_are_set_to_0_and_named():
    named = "distances.weight"
    found = attncli.check(Biased)
    assert found.right and found.zeroed == (named,)
    assert found.verdict.startswith(f"right with {named} set to 0: Biased computes attention"), found
    wrong = attncli.check(type("Unscaled", (Biased,), {"factor": 10**0.5}))  # 80 / 8 heads
    assert [one.mistake for one in wrong.diagnosis] == ["no scale"]
    assert wrong.verdict.startswith(f"wrong with {named} set to 0: Unscaled computes attention")
    unread = attncli.check(type("Unread", (Biased,), {"is_read": False}))
    assert unread.right and not unread.zeroed and unread.verdict.startswith("right: ")
    t5 = attncli.check(type("T5", (Biased,), {"factor": 10**0.5, "name": "relative_attention_bias"}))
    assert t5.right and "scores are not divided by √d_k, as in T5" in t5.conventions


def test_a_query_that_may_see_nothing_is_a_convention_unless_the_user_says_otherwise():
    found = attncli.check(UNIFORM)
    assert found.right and any("--nowhere" in one for one in found.conventions)
    assert mistakes(UNIFORM, nowhere="zero-or-nan") == ["fully masked rows uniform"]
    assert attncli.check(MINE_MODULE, nowhere="nan").right and not attncli.check(MINE_MODULE, nowhere="zero").right


def of_allowed(query, key, value, allowed=None):
    return right(query, key, value, allowed)


def of_forbidden(query, key, value, forbidden=None):
    return right(query, key, value, None if forbidden is None else ~forbidden)


def of_added(query, key, value, added=None):
    return right(query, key, value, None if added is None else added + 0.0)


@pytest.mark.parametrize("thing", [of_allowed, of_forbidden, of_added])
def test_the_meaning_of_a_mask_is_found_or_its_name_declares_it(thing):
    names = [lambda query, key, value, mask=None: thing(query, key, value, mask), thing]
    for found in map(attncli.check, names):
        assert found.right and any(re.match("(mask|allowed|forbidden|added): ", one) for one in found.conventions)

    if thing is not of_added:
        other = {of_allowed: "forbidden", of_forbidden: "allowed"}[thing]
        space = {"thing": thing}
        exec(f"def inverted(query, key, value, {other}=None): return thing(query, key, value, {other})", space)
        assert mistakes(space["inverted"]) == ["mask inverted"]


# --- what is right ----------------------------------------------------------------------------------------


def of_matrices(query, key, value):
    assert query.dim() == 2
    return right(query, key, value)


def causal(query, key, value):
    seen = torch.ones(query.shape[-2], key.shape[-2], dtype=torch.bool)
    return right(query, key, value, seen.tril(key.shape[-2] - query.shape[-2]))


def in_float32_only(query, key, value):
    assert query.dtype == torch.float32
    return right(query, key, value)


def of_one_length(query, key, value):
    assert query.shape == key.shape
    return right(query, key, value)


@pytest.mark.parametrize(
    ("thing", "convention"),
    [
        (right, "arrays are [batch, head, token, d]"),
        (of_matrices, "arrays are [token, d]"),
        (causal, "causal by itself"),
        (in_float32_only, ""),
        (of_one_length, ""),
        (attention_with(), ""),
        (attention_with(normalise=lambda x: x.softmax(-1, dtype=torch.float32).to(x.dtype)), ""),
        (attention_with(scores=lambda x: x * torch.tensor(3.0).sqrt() / torch.tensor(3.0).sqrt()), ""),
    ],
)
def test_layouts_precisions_and_causal_attention_are_conventions(thing, convention):
    found = attncli.check(thing)
    assert found.right and any(convention in one for one in found.conventions), found


def capped(query, key, value, softcap=2.0):
    scores = query @ key.mT / query.shape[-1] ** 0.5
    return (softcap * torch.tanh(scores / softcap)).softmax(-1) @ value


def capped_by_a_constant(query, key, value):
    return capped(query, key, value, 3.0)


def windowed(query, key, value, window=3):
    places = torch.arange(key.shape[-2])
    offsets = places[-query.shape[-2] :, None] - places
    return right(query, key, value, (offsets >= 0) & (offsets < window))


def in_columns(query, key, value, mask=None):
    scores = key.mT @ query / query.shape[-2] ** 0.5
    return value @ (scores if mask is None else scores.masked_fill(~mask, -torch.inf)).softmax(-2)


class Additive(nn.Module):
    """The listing of a tutorial: a text has one query, which has no dimension of tokens."""

    def __init__(self, units):
        super().__init__()
        self.W1, self.W2, self.V = nn.Linear(units, units), nn.Linear(units, units), nn.Linear(units, 1)

    def forward(self, query, values):
        assert query.dim() == 2
        weights = self.V(torch.tanh(self.W1(values) + self.W2(query[:, None]))).softmax(1)
        return (weights * values).sum(1), weights


class WithFlags(Plain):
    """A module built from a configuration, like those of transformers."""

    def __init__(self, config):
        super().__init__(config.hidden_size, config.num_attention_heads)
        self.flags = config.attention_bias, config.attention_dropout


def test_tokens_in_columns_one_query_and_a_config_are_understood():
    for thing, convention in {
        in_columns: "mask: True = allowed, as [key, query]",
        Additive: "arrays are [batch, d_model]",
        WithFlags: "arrays are [batch, token, d_model]",
    }.items():
        found = attncli.check(thing)
        assert found.right and any(one.startswith(convention) for one in found.conventions), found


class OtherWeights(Additive):
    def forward(self, query, values):
        output, weights = super().forward(query, values)
        return output, weights.roll(1, 1)


class ValuesDetached(Additive):
    def forward(self, query, values):
        output, weights = super().forward(query, values)
        return output - (weights.detach() * (values - values.detach())).sum(1), weights


@pytest.mark.parametrize(
    ("thing", "wrong"),
    [(Additive, []), (OtherWeights, ["returned weights"]), (ValuesDetached, ["gradients"])],
)
def test_weights_and_gradients_of_one_query_a_text_are_checked(thing, wrong):
    checks = {one.name: one.holds for one in attncli.check(thing).checks}
    assert [name for name, holds in checks.items() if holds is False] == wrong
    assert all(checks[name] is not None for name in ("gradients", "returned weights"))


def windowed_by_a_constant(query, key, value):
    return windowed(query, key, value, 4)


@pytest.mark.slow
def test_sizes_of_a_softcap_and_a_window_have_names_or_are_refused():
    for thing, convention in ((capped, "scores capped at 2"), (windowed, "causal, with a window of 3 tokens")):
        found = attncli.check(thing)
        assert found.right and convention in found.conventions and not found.unchecked
    assert "a softcap is recognized by a parameter or attribute named softcap" in refusal(capped_by_a_constant)
    assert "it has a window of 4 tokens, but no parameter" in refusal(windowed_by_a_constant)


def test_right_code_whose_mask_has_no_known_form_is_refused():
    def attention(query, key, value, mask=None):
        return right(query, key, value, None if mask is None else mask.allowed)

    assert "its mask (mask) has no known form, such as bool [query, key]: paste an adapter below the" in refusal(
        attention
    )


# --- what is wrong ----------------------------------------------------------------------------------------


class Masked(nn.Module):
    """Both masks are True where nobody looks. It ignores padding if there is another mask."""

    def forward(self, query, key, value, attn_mask=None, key_padding_mask=None):
        scores = query @ key.mT / query.shape[-1] ** 0.5
        if attn_mask is not None:
            scores = scores.masked_fill(attn_mask[None, None], -torch.inf)
        elif key_padding_mask is not None:
            scores = scores.masked_fill(key_padding_mask[:, None, None], -torch.inf)
        return scores.softmax(-1) @ value


class OfQueries(Plain):
    """Hides keys of the memory by the place of the query."""

    def forward(self, x, memory, memory_mask=None):
        q, k, v = self.split(self.W_q(x)), self.split(self.W_k(memory)), self.split(self.W_v(memory))
        seen = None if memory_mask is None else memory_mask[:, None, :, None].expand(-1, 1, -1, k.shape[-2])
        return self.W_o(kernel(q, k, v, seen).transpose(1, 2).flatten(-2))


@pytest.mark.parametrize(
    ("thing", "law"),
    [
        (
            lambda query, key, value, mask=None: right(query, key, value, None if mask is None else mask[0]),
            "a mask per text",
        ),
        (Masked(), "both masks"),
        (OfQueries, "padding of the memory"),
    ],
)
def test_no_form_of_a_mask_hides_a_mistake(thing, law):
    assert any(law in name for name in failing(attncli.check(thing)))


@pytest.mark.parametrize(("more", "wrong"), [(-1, True), (0, False), (1, True)])
def test_a_window_to_both_sides_that_is_off_by_one_is_named(more, wrong):
    def attention(query, key, value, window_size=3):
        offsets = torch.arange(key.shape[-2]) - torch.arange(query.shape[-2])[:, None]
        offsets = offsets - (key.shape[-2] - query.shape[-2])
        return right(query, key, value, offsets.abs() <= window_size + more)

    assert (mistakes(attention) == ["window off by one"]) if wrong else attncli.check(attention).right


@pytest.mark.parametrize("temperature", slow_except([0.37, 1.7, 13.0], [1.7]))
def test_any_temperature_is_named(temperature):
    assert mistakes(lambda query, key, value: right(query / temperature, key, value)) == ["temperature"]


class Head(nn.Module):
    """Divides by the root of the model's size, which no head and no sum of heads has."""

    def __init__(self, n_embd, head_size):
        super().__init__()
        self.query, self.key, self.value = (nn.Linear(n_embd, head_size) for _ in range(3))

    def forward(self, x):
        return kernel(self.query(x), self.key(x), self.value(x), scale=x.shape[-1] ** -0.5)


def test_the_size_of_the_input_is_the_wrong_scale():
    assert mistakes(Head) == ["scale by d_model"]


@pytest.mark.parametrize(
    ("thing", "name"),
    [
        pytest.param(attention_with(normalise=torch.sigmoid), "self-attention", marks=pytest.mark.slow),
        pytest.param(
            attention_with(scores=lambda x: x + torch.arange(x.shape[-1])), "self-attention", marks=pytest.mark.slow
        ),
        (attention_with(mask_of_pairs=torch.ones_like), "causal mask"),
        (attention_with(mask_of_padding=torch.ones_like), "padding mask"),
        (attention_with(scores=lambda x: x * x.shape[-1]), "self-attention"),
    ],
)
def test_a_check_finds_what_differs_from_the_formula(thing, name):
    assert name in failing(attncli.check(thing))


class Louder(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.clone()

    @staticmethod
    def backward(ctx, gradient):
        return 1.001 * gradient


@pytest.mark.parametrize(
    "thing",
    [
        lambda query, key, value: right(query, Louder.apply(key), value),
        lambda query, key, value: right(query, key, value.detach()),
        lambda query, key, value: (query @ key.mT / query.shape[-1] ** 0.5).softmax(-1).detach() @ value,
    ],
)
def test_wrong_gradients_are_found_where_the_output_is_right(thing):
    wrong = failing(attncli.check(thing))
    assert wrong and all("gradient" in name or "difference" in name for name in wrong)


def test_no_gradients_are_not_wrong():
    with_none = torch.no_grad()(lambda query, key, value: right(query, key, value))
    found = attncli.check(with_none)
    assert found.right and any("gradient" in one.name and one.holds is None for one in found.checks)


class Drops(Plain):
    def attend(self, q, k, v):
        return F.dropout((q @ k.mT / q.shape[-1] ** 0.5).softmax(-1), 0.3) @ v


def test_dropout_in_evaluation_is_the_only_thing_wrong_with_it():
    assert mistakes(Drops) == ["dropout left on"] and len(failing(attncli.check(Drops))) == 1
    assert attncli.check(lambda q, k, v, dropout_p=0.5: kernel(q, k, v, dropout_p=0.0)).right


# --- nothing is changed -----------------------------------------------------------------------------------


class Careless(Plain):
    """Changes all that it has, each time that it runs."""

    def __init__(self, d_model, num_heads):
        super().__init__(d_model, num_heads)
        self.register_buffer("table", torch.ones(d_model) / 3)
        self.kept, self.runs = [], 0

    def forward(self, x):
        out = super().forward(x) * (self.table * 3) + self.runs + len(self.kept)
        with torch.no_grad():
            self.W_q.weight += 1
            self.table += 1
        self.kept.append(x)
        self.runs += 1
        torch.set_default_dtype(torch.float16)
        torch.set_grad_enabled(False)
        self.train()
        return out


@pytest.mark.parametrize("dtype", slow_except([torch.float32, torch.float64, torch.bfloat16], [torch.float32]))
@pytest.mark.parametrize("kind", [Plain, Careless])
def test_a_module_stays_as_it_was_bit_for_bit(kind, dtype):
    module = kind(8, 2).to(dtype).train()
    module.W_k.weight.requires_grad_(False)
    module.W_k.bias.grad = torch.ones(8, dtype=dtype)
    before = pickle.dumps(module), module.W_k.bias.grad, [id(one) for one in module.parameters()]
    found = attncli.check(module)
    assert (pickle.dumps(module), module.W_k.bias.grad, [id(one) for one in module.parameters()]) == before
    assert module.training and found.right == (kind is Plain)
    assert kind is Plain or "deterministic" in failing(found)
    assert torch.get_default_dtype() == torch.float32 and torch.is_grad_enabled()


def test_a_module_that_ran_before_is_copied_and_one_with_a_lock_is_refused():
    module = Plain(8, 2)
    module.kept = [module(torch.randn(1, 3, 8))]  # which has a graph
    assert attncli.check(module).right
    module.lock = threading.Lock()
    assert re.match(r"Plain can't be copied \(TypeError: .*lock.*\): check its class, or a", refusal(module))


def test_one_thread_runs_and_the_others_are_given_back():
    before, seen = torch.get_num_threads(), []
    torch.set_num_threads(2)
    try:
        attncli.check(lambda query, key, value: seen.append(torch.get_num_threads()) or right(query, key, value))
        assert set(seen) == {1} and torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)


# --- what is refused --------------------------------------------------------------------------------------


def raises(query, key, value):
    raise ValueError("not\x1b today\nand more")


class Unreadable(nn.Module):
    def __init__(self, d_model):
        super().__init__()
        self.q, self.k, self.v = nn.Linear(d_model, 6), nn.Linear(d_model, 7), nn.Linear(d_model, 8)

    def forward(self, x):
        return x


@pytest.mark.parametrize(
    ("thing", "wanted", "said"),
    [
        (raises, {}, r"it can't be run: ValueError: not\x1b today (line "),
        (lambda query, key, value: query.sum(), {}, "nothing that it returns has the output's shape: []"),
        (Unreadable, {}, "the weights of Unreadable don't fit together"),
        (3, {}, "is not a function, class or module, but"),
        (type("Sizes", (), {}), {}, "Sizes has neither forward nor __call__"),
        (right, {"nowhere": "home"}, "home"),
        (UNSCALED, {"nowhere": "nan"}, "--nowhere has no effect, as unscaled takes no mask"),
    ],
)
def test_what_cannot_be_checked_is_refused_in_a_line(thing, wanted, said):
    assert said in refusal(thing, **wanted)


def test_other_types_are_errors_of_the_caller():
    for wanted in ({"colour": "red"}, {"layout": "token d"}):
        with pytest.raises(TypeError):
            attncli.check(right, **wanted)


class Odd(nn.Module):
    """Names explain neither the constructor, nor the call, nor the weights."""

    def __init__(self, d_model, num_heads, depth):
        assert depth == 3
        super().__init__()
        self.plain = Plain(d_model, num_heads)
        self.one, self.two, self.three, self.four = (nn.Linear(d_model, d_model) for _ in range(4))
        del self.plain.W_q, self.plain.W_k, self.plain.W_v, self.plain.W_o

    def forward(self, alpha, beta, gamma, delta, epsilon):
        assert delta == epsilon == 0
        q, k, v = (self.plain.split(layer(alpha)) for layer in (self.one, self.two, self.three))
        return self.four(kernel(q, k, v).transpose(1, 2).flatten(-2))


def packed(qkv):
    query, key, value = qkv.unbind(1)
    return right(query, key, value)


def odd(alpha, beta, gamma, delta, epsilon):
    assert delta == epsilon == 0
    return right(alpha, beta, gamma)


@pytest.mark.parametrize(
    ("thing", "lines"),
    [
        (
            Odd,
            [
                {"depth=...": "depth=3", "alpha=...": "alpha=x"},
                {"out = ...": "out = self.one, self.two, self.three, self.four"},
            ],
        ),
        (packed, [{"qkv=...": "qkv=torch.stack([query, key, value], 1)"}]),
        (odd, [{"alpha=...": "alpha=query", "beta=...": "beta=key", "gamma=...": "gamma=value"}]),
    ],
)
def test_the_adapter_of_a_refusal_works_when_pasted_and_filled_in(thing, lines):
    space = {"Odd": Odd, "odd": odd, "packed": packed, "torch": torch}
    for filled_in in lines:
        with pytest.raises(attncli.RequestError) as refused:
            attncli.check(thing)
        _, _, adapter = str(refused.value).partition("\n")
        assert len(adapter.splitlines()) == 3
        for old, new in (filled_in | {"=...": "=0"}).items():
            adapter = adapter.replace(old, new)
        exec(adapter.replace("(Adapter)", "(Odder)"), space)
        thing = space.get("Adapter") or space["adapter"]
        space["Odder"] = thing
    assert attncli.check(thing).right


def test_a_config_and_a_maker_are_understood():
    class Configured(Plain):
        def __init__(self, config):
            super().__init__(config.hidden_size, config["num_heads"])

    assert attncli.check(Configured).right
    assert attncli.check(lambda: Plain(8, 2)).right
