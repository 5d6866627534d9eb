"""The page of a prompt and its answer."""

import pytest
from packed import page_data

from attncli.report.prompt import AnswerPiece, PromptAndAnswer, PromptPiece

NAMES = ["doc 1", "doc 2", "(rest)"]
HARM = "</script><script>alert(1)</script>\x1b[2J"


def page_of(answer, harm=""):
    pieces = [
        PromptPiece(0, 0, f"A cat sat. {harm}"), PromptPiece(0, 1, "It sat. "), PromptPiece(1, 2, "A dog ran.\n"),
        PromptPiece(2, 3, "Who sat?"),
    ]  # fmt: skip
    facts = [[f"about {name}"] for name in NAMES]
    return PromptAndAnswer(["made-up", "sources"], NAMES, pieces, answer, facts, ["the answer rests on doc 1"], [harm])


OF_SENTENCES = [0.15, 0.05, 0.3, 0.1], [0.1, 0.4, None, None]
WHOLE = AnswerPiece("A cat. It ran.", [0.2, 0.3, 0.1], [0.5, 0.75, None], *OF_SENTENCES)
EACH = [
    AnswerPiece("A cat. ", [0.4, 0.1, 0.1], [2.0, -0.5, 0.0], *OF_SENTENCES),
    AnswerPiece("It ran.", [0.0, 0.5, 0.1], [-1.0, 2.0, 0.0], *OF_SENTENCES),
]


def test_a_text_is_no_markup_and_commands_nothing():
    document = page_of([WHOLE], HARM).page()
    held = page_data(document)
    assert (
        document.count("<script") == 2 and "alert(1)" in held["prompt"][0][2] and "\x1b" not in "".join(held["about"])
    )
    parts = {"share": [0.2, 0.3, 0.1], "effect": [0.5, 0.75, None]}
    of_sentences = dict(zip(("share", "effect"), OF_SENTENCES, strict=True))
    assert held["answer"] == [{"text": WHOLE.text, "parts": parts, "sentences": of_sentences}]


@pytest.mark.slow
def test_parts_are_shaded_by_the_number_that_is_chosen_for_the_piece_that_is_chosen(tabs, tmp_path):
    file, (free, tab) = tmp_path / "page.html", tabs(touch=False)
    file.write_text(page_of([WHOLE, *EACH]).page(), encoding="utf-8")
    tab.goto(file.as_uri())

    def shades():
        style = "one => [...getComputedStyle(one).backgroundColor.matchAll(/[\\d.]+/g)].map(Number).pop()"
        return tab.eval_on_selector_all("#prompt [data-part]", f"all => all.map({style})")

    def numbers():
        return tab.eval_on_selector_all("#parts tbody td:last-child", "all => all.map(one => one.textContent)")

    first, second, dog, rest = shades()
    assert numbers() == ["+0.500", "+0.750", "–"] and rest == 0 < first == second < dog
    tab.keyboard.press("ArrowRight")
    assert numbers() == ["+2.000", "−0.500", "0"] and shades()[0] > 0 == shades()[2]
    tab.click('[data-piece="2"]')
    assert shades()[2] > 0 == shades()[0]
    tab.keyboard.press("a")
    assert shades()[2] > shades()[3] > 0 == shades()[0]
    tab.keyboard.press("Escape")
    tab.keyboard.press("e")
    tab.click("#parts tr[data-part='0']")  # its sentences have shades of their own
    first, second, dog, rest = shades()
    assert 0 < first < second and dog > rest == 0
    tab.keyboard.press("a")
    assert shades()[0] > shades()[1] > 0
    tab.keyboard.press("Escape")
    tab.click("#parts tr[data-part='1']")
    assert tab.inner_text("#facts") == "About doc 2." and tab.inner_text("#said") == "The answer rests on doc 1."
    free.append(tab)
