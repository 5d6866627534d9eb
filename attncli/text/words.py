"""Words put together from their pieces: which tokens are of one word, and how a reader spells it."""

from collections.abc import Sequence

from attncli.text.shown import joined
from attncli.text.tokens import Tokens

CONTINUED = "##"  # WordPiece: this piece goes on where the last one ended (Wu et al. 2016)


def word_groups(tokens: Tokens) -> list[list[int]]:
    """The tokens of each word, in order: neighbours with the same word number in the same segment.

    What the tokenizer added ([CLS], [SEP], [PAD]) stands alone.
    """
    groups: list[list[int]] = []
    last: tuple[int, int] | None = None
    for place, (segment, word) in enumerate(zip(tokens.segments, tokens.words, strict=True)):
        if word is not None and (segment, word) == last:
            groups[-1].append(place)
        else:
            groups.append([place])
        last = None if word is None else (segment, word)
    return groups


def word_texts(tokens: Tokens, groups: Sequence[list[int]]) -> list[str]:
    """Words as a reader knows them: what their pieces show, without the marks of the vocabulary."""
    spaced = any(token.startswith(" ") for token in tokens.shown)  # such a vocabulary has no mark for going on
    return [word_text([tokens.shown[place] for place in group], tokens.special[group[0]], spaced) for group in groups]


def word_text(pieces: Sequence[str], special: bool, spaced: bool) -> str:
    """One word of pieces as they are shown."""
    if not special and not spaced:
        pieces = [pieces[0], *(piece.removeprefix(CONTINUED) for piece in pieces[1:])]
    text = joined(pieces)
    return text if special else text.strip() or text


def text_between(tokens: Tokens, start: int, end: int) -> str:
    """What the tokens [start, end) stand for: their words, with a space between those that do not touch in the text."""
    part = tokens.take(range(start, end))
    groups = word_groups(part)
    text = ""
    for group, word in zip(groups, word_texts(part, groups), strict=True):
        touches = group[0] > 0 and part.offsets[group[0]][0] == part.offsets[group[0] - 1][1]
        apart = not touches or part.shown[group[0]].startswith(" ")
        text += f" {word}" if text and apart else word
    return text


def word_tokens(tokens: Tokens) -> Tokens:
    """The words of a text in place of its tokens; a word has the id of its first piece."""
    groups = word_groups(tokens)
    starts = [group[0] for group in groups]
    texts = word_texts(tokens, groups)
    return Tokens(
        text=texts,
        ids=[tokens.ids[start] for start in starts],
        segments=[tokens.segments[start] for start in starts],
        words=[tokens.words[start] for start in starts],
        offsets=[(tokens.offsets[group[0]][0], tokens.offsets[group[-1]][1]) for group in groups],
        special=[tokens.special[start] for start in starts],
        padding=[tokens.padding[start] for start in starts],
        shown=texts,
        written=["".join(tokens.written[place] for place in group) for group in groups],
    )
