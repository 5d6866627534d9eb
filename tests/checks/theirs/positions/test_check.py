"""Positional encodings that are right are found right, and mistakes in them are found and named."""

from pathlib import Path

import pytest
import torch
from checks.theirs import right_positions
from checks.theirs.loaded import loaded, one_of_each_quick
from checks.theirs.wrong import NAME, PLANTED, base, source
from torch import nn

from attncli.base.errors import RequestError
from attncli.checks.theirs.found import Found, Wanted
from attncli.checks.theirs.positions.check import check_positions
from attncli.checks.theirs.subjects.here import Here

PROGRAM = Path(right_positions.__file__).read_text(encoding="utf-8")
POSITIONS = [one for one in PLANTED if one.style.startswith("position")]
# Mistake, function or module, what stands there, what stands there in its place.
WRONG = [
    ("position added twice", "TokenFirst", "self.dropout(x + self.table[: x.size(0)])",
     "self.dropout(x + self.table[: x.size(0)]) + self.table[: x.size(0)]"),
    ("position added twice", "Scaled", "return x + self.pe[:, : x.size(1)]", "return x + 2 * self.pe[:, : x.size(1)]"),
    ("position added twice", "ParameterTable", "return hidden_states + self", "return hidden_states + 2 * self"),
    ("positions counted from 1", "numpy_table", "np.sin(k / denominator)\n            table[k, 2 * i + 1] = np.cos(k /",
     "np.sin((k + 1) / denominator)\n            table[k, 2 * i + 1] = np.cos((k + 1) /"),
    ("positions counted from 1", "positional_encoding", "np.arange(length)[", "np.arange(1, length + 1)["),
    ("positions counted from 1", "Alone", "torch.arange(x.shape[1], dtype", "torch.arange(1, x.shape[1] + 1, dtype"),
    ("sine and cosine swapped", "positional_encoding", "np.sin(places * rates), np.cos(places * rates)",
     "np.cos(places * rates), np.sin(places * rates)"),
    ("sine and cosine swapped", "of_a_position", "math.cos if i % 2 else math.sin", "math.sin if i % 2 else math.cos"),
    ("sine and cosine swapped", "Alone", "(angles.sin(), angles.cos())", "(angles.cos(), angles.sin())"),
    ("one wave alone", "Scaled", "for f in (math.sin, math.cos)", "for f in (math.sin, math.sin)"),
    ("positions over the batch", "ParameterTable", "self.pos[:, : hidden_states.shape[1]]",
     "self.pos[0, : hidden_states.shape[0], None]"),
    ("positions over the batch", "Scaled", "self.pe[:, : x.size(1)]", "self.pe[0, : x.size(0)].unsqueeze(1)"),
    ("positions over the batch", "TokenFirst", "x + self.table[: x.size(0)]",
     "x + self.table[: x.size(1)].transpose(0, 1)"),
    ("first position for all", "ParameterTable", "self.pos[:, : hidden_states.shape[1]]", "self.pos[:, :1]"),
    ("first position for all", "TokenFirst", "self.table[: x.size(0)]", "self.table[0]"),
    ("positions in reverse", "ParameterTable", "self.pos[:, : hidden_states.shape[1]]",
     "self.pos[:, : hidden_states.shape[1]].flip(1)"),
    ("positions in reverse", "Alone", "torch.arange(x.shape[1], dtype=x.dtype)",
     "torch.arange(x.shape[1] - 1, -1, -1, dtype=x.dtype)"),
    ("exponent without 2", "numpy_table", "np.power(n, 2 * i / d_model)", "np.power(n, i / d_model)"),
    ("exponent without 2", "Scaled", "10000 ** (2 * i / d_model)) for i in", "10000 ** (i / d_model)) for i in"),
    ("exponent doubled", "of_positions", "torch.arange(0, dim, 2) *", "2 * torch.arange(0, dim, 2) *"),
    ("exponent of every element", "of_a_position", "(2 * (i // 2) / d_model)", "(i / d_model)"),
    ("exponent of every element", "of_a_position", "(2 * (i // 2) / d_model)", "(2 * i / d_model)"),
    ("rates the wrong way", "of_positions", "(-math.log(10000.0) / dim)", "(math.log(10000.0) / dim)"),
    ("degrees, not radians", "Alone", "angles.sin(), angles.cos()",
     "angles.deg2rad().sin(), angles.deg2rad().cos()"),
    ("angles times 2π", "positional_encoding", "np.arange(length)[:, np.newaxis]",
     "2 * np.pi * np.arange(length)[:, np.newaxis]"),
    ("base other than 10000", "numpy_table", "n=10000", "n=1000"),
    ("base other than 10000", "Alone", "(10000 ** (torch.arange(0.0", "(100000 ** (torch.arange(0.0"),
    ("position multiplied", "Scaled", "return x + self.pe", "return x * self.pe"),
    ("position never added", "ParameterTable", "+ self.pos[:, : hidden_states.shape[1]]", ""),
    ("dropout left on", "TokenFirst", "return self.dropout(x", "return nn.functional.dropout(x"),
    ("turned the wrong way", "rope", "(-second, first)", "(second, -first)"),
    ("turned the wrong way", "rope_complex", "torch.ones_like(angles), angles", "torch.ones_like(angles), -angles"),
    ("turned the wrong way", "apply_freqs", "pairs * freqs_cis[", "pairs * freqs_cis.conj()["),
    ("turned without the minus", "apply_rotary_pos_emb", "(-second, first)", "(second, first)"),
    ("turned without the minus", "Rotary", "angle.cos() - b", "angle.cos() + b"),
    ("pairs mixed", "rope", "torch.cat([angles, angles], dim=-1)", "angles.repeat_interleave(2, dim=-1)"),
    ("keys not turned", "rope", "k * cos + rotate_half(k) * sin", "k"),
    ("keys not turned", "apply_freqs", "return tuple(turned)", "return turned[0], xk"),
    ("positions over the heads", "rope", "torch.arange(q.shape[-2])[:, None] /",
     "torch.arange(q.shape[1])[:, None, None] /"),
    ("exponent without 2", "rope", "10000 ** (torch.arange(0, d, 2) / d)", "10000 ** (torch.arange(0, d // 2) / d)"),
    ("position added twice", "rope", "angles = torch.cat([angles, angles], dim=-1)",
     "angles = 2 * torch.cat([angles, angles], dim=-1)"),
]  # fmt: skip


def checked(thing: object, **wanted: object) -> Found:
    return check_positions(Here(thing), Wanted("positions", **wanted))


@pytest.mark.parametrize("thing", right_positions.RIGHT, ids=lambda thing: thing.__name__)
def test_what_is_right_is_found_right_under_its_convention(thing):
    kind, words = right_positions.RIGHT[thing]
    found = checked(thing)
    assert found.right, found
    assert found.kind == kind
    assert words in "; ".join(found.conventions)


@pytest.mark.parametrize(("mistake", "name", "old", "new"), one_of_each_quick(WRONG))
def test_a_mistake_is_found_and_named(mistake, name, old, new, tmp_path):
    assert PROGRAM.count(old) == 1
    found = checked(loaded(PROGRAM.replace(old, new), name, tmp_path))
    assert not found.right
    assert [one.mistake for one in found.diagnosis] == [mistake], found


@pytest.mark.parametrize("planted", POSITIONS, ids=lambda one: one.style)
def test_positions_that_are_added_twice_are_found_in_every_style(planted, tmp_path):
    assert checked(loaded(base(planted.style), NAME[planted.style], tmp_path)).right
    found = checked(loaded(source(planted), NAME[planted.style], tmp_path))
    assert [one.mistake for one in found.diagnosis] == [planted.mistake]


def wrong_checks(found: Found) -> set[str]:
    return {check.name for check in found.checks if check.holds is False}


class OfTheFirstDimension(nn.Module):
    def __init__(self, d_model):
        super().__init__()
        self.pe = nn.Parameter(torch.zeros(64, 1, d_model))

    def forward(self, x):
        return x + self.pe[: x.size(0)]


def test_a_layout_that_is_declared_is_the_one_in_which_positions_are_counted():
    assert checked(OfTheFirstDimension).conventions == ("[token, batch, d_model]",)
    found = checked(OfTheFirstDimension, layout="batch token d_model")
    assert [one.mistake for one in found.diagnosis] == ["positions over the batch"]
    assert "each text by itself" in wrong_checks(found)
    with pytest.raises(RequestError, match="--layout 'batch'"):
        checked(OfTheFirstDimension, layout="batch")


@pytest.mark.slow
def test_two_mistakes_at_once_are_both_named(tmp_path):
    program = PROGRAM.replace("np.arange(length)[", "np.arange(1, length + 1)[").replace(
        "np.sin(places * rates), np.cos", "np.sin(places * rates), np.sin"
    )
    found = checked(loaded(program, "positional_encoding", tmp_path))
    assert {one.mistake for one in found.diagnosis} == {"positions counted from 1", "one wave alone"}


def test_an_input_that_is_changed_in_place_is_a_mistake():
    def add(x):
        x += right_positions.of_positions(torch.arange(x.shape[1]), x.shape[2])
        return x

    found = checked(add)
    assert wrong_checks(found) == {"inputs are not changed"}
    assert [one.mistake for one in found.diagnosis] == ["input changed in place"]


@pytest.mark.slow
def test_a_table_that_is_stretched_over_the_text_breaks_a_law():
    def stretched(x):
        places = torch.linspace(0, 6, x.shape[1]) if x.shape[1] > 1 else torch.zeros(1)
        return x + right_positions.of_positions(places, x.shape[2])

    found = checked(stretched)
    assert {"a longer text changes no position", "texts of 5 tokens"} <= wrong_checks(found)
    assert "texts of 7 tokens" not in wrong_checks(found)
    assert found.diagnosis == ()
    assert found.smallest.startswith("of 2 tokens the last vector begins with")


@pytest.mark.slow
def test_a_rotation_that_makes_vectors_longer_breaks_the_laws_of_rotations():
    def longer(q, k):
        turned = right_positions.rope(q, k)
        return tuple(x * (1 + torch.arange(7)[: x.shape[-2], None] / 7) for x in turned)

    found = checked(longer, map={"q": "query", "k": "key"})
    assert {"lengths of vectors are kept", "scores depend on differences alone"} <= wrong_checks(found)


@pytest.mark.slow
def test_what_is_another_each_time_without_dropout_is_not_called_dropout():
    found = checked(lambda x: x + torch.rand_like(x))
    assert "the same twice" in wrong_checks(found)
    assert found.diagnosis == ()


def crashes(x):
    raise ValueError("no")


def two_tables(x, positions):
    angles = positions[:, None] * torch.ones(x.shape[-1])
    return angles.cos(), angles.sin()


class Embeddings(nn.Module):
    def __init__(self, words, d_model):
        super().__init__()
        self.words = nn.Embedding(words, d_model)
        self.places = nn.Embedding(64, d_model)

    def forward(self, x):
        return x + self.places(torch.arange(x.shape[1]))


@pytest.mark.parametrize(
    ("thing", "said"),
    [
        (crashes, "crashes gives no positions: ValueError: no"),
        (two_tables, "it gives 2 arrays"),
        (Embeddings, "--give words=VALUE"),
    ],
)
def test_what_gives_no_positions_is_refused_in_one_line(thing, said):
    with pytest.raises(RequestError, match=said) as refused:
        checked(thing)
    assert len(str(refused.value)) <= 300
    assert "\n" not in str(refused.value)


def test_which_weight_is_the_table_can_be_said():
    with pytest.raises(RequestError, match="--map NAME=table"):
        checked(Embeddings, give={"words": 9})
    assert checked(Embeddings, give={"words": 9}, map={"places.weight": "table"}).right


def test_a_parameter_is_what_the_user_says_it_is():
    def encode(a, b):
        return torch.as_tensor(right_positions.numpy_table(a, b))

    with pytest.raises(RequestError, match="--map NAME=x"):
        checked(encode)
    assert checked(encode, map={"a": "length", "b": "d_model"}).right
    with pytest.raises(RequestError, match="--map a=colour"):
        checked(encode, map={"a": "colour"})
