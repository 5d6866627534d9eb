"""Where a step may stand in the source: a guess, by what the line does."""

import pytest

from attncli.checks.code.subject import Description
from attncli.checks.theirs.lines import code_lines, guess

SOURCE = '''
class Attention(nn.Module):
    """softmax(Q @ K.transpose(-2, -1) / sqrt(d)) V"""

    def __init__(self, d_model, heads):
        super().__init__()
        self.scale = (d_model // heads) ** -0.5  # sqrt
        self.softmax = nn.Softmax(dim=-1)

    def forward(self, query, key, value, mask=None):
        """With a softmax."""
        q = self.W_q(query).view(batch, -1, heads, d).transpose(1, 2)
        k = self.W_k(key).view(batch, -1, heads, d).transpose(1, 2)

        # scores = q @ k.transpose(-2, -1)
        scores = torch.matmul(q, k.transpose(-2, -1)) / math.sqrt(d)
        if mask is not None:
            scores = scores.masked_fill(mask == 0, -1e9)
        weights = F.dropout(scores.softmax(dim=1), 0.1)
        out = (weights @ v).transpose(1, 2).reshape(batch, -1, d_model)
        return self.W_o(out)
'''


def said(step: str, source: str = SOURCE, first: int = 1) -> tuple[int | None, str]:
    return guess(Description("Attention", "class", (), source=source, first=first), step)


def line(text: str) -> int:
    [found] = [number for number, one in enumerate(SOURCE.splitlines(), 1) if one.strip().startswith(text)]
    return found


@pytest.mark.parametrize(
    "step, text",
    [
        ("score", "scores = torch.matmul"),
        ("scale", "scores = torch.matmul"),
        ("hide", "scores = scores.masked_fill"),
        ("dropout", "weights = F.dropout"),
        ("output", "return self.W_o"),
    ],
)
def test_the_line_of_a_step(step, text):
    number, told = said(step)
    assert number == line(text) and told.startswith(text)


@pytest.mark.parametrize("step", ["normalise", "split", "weigh"])
def test_of_several_lines_that_may_have_a_step_none_is_told(step):
    assert said(step) == (None, "")


def test_lines_are_those_of_the_file():
    assert said("output", first=40)[0] == line("return self.W_o") + 39


def test_comments_and_words_are_no_code():
    lines = [text for _, text in code_lines(SOURCE)]
    assert not any("With a softmax" in text or "# " in text or "softmax(Q" in text for text in lines)


def test_a_constructor_comes_last():
    source = SOURCE.replace("scores.softmax(dim=1)", "self.normal(scores)")
    assert said("normalise", source)[1] == "self.softmax = nn.Softmax(dim=-1)"


def test_an_indented_function_is_read():
    assert said("normalise", "    def f(x):\n        return x.softmax(0)\n", 7) == (8, "return x.softmax(0)")


@pytest.mark.parametrize("source", ["", "lambda q, k: (", "def f(x):\n    return x"])
def test_where_nothing_looks_like_it_nothing_is_said(source):
    assert said("normalise", source) == (None, "")


def test_what_is_shown_is_short_and_commands_no_terminal():
    _, told = said("normalise", "def f(x):\n    return x.softmax(0), '\x1b[31m', " + "x + " * 100 + "x")
    assert len(told) == 100 and "\x1b" not in told
