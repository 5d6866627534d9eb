"""Tokens: one text, or a pair of texts, as a model sees it."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, fields, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from attncli.base.brief import Brief
from attncli.base.errors import RequestError
from attncli.text.shown import Notation, by_themselves

if TYPE_CHECKING:
    from tokenizers import Encoding


class Unreadable(RequestError):  # noqa: N818  (it says what is the case)
    """A text that can't be made tokens of, though others can."""


class NothingKept(Unreadable):
    """A text in which a tokenizer finds nothing."""


@dataclass(frozen=True, repr=False)
class Tokens(Brief):
    """One text (or pair of texts) as the model sees it. All lists are one entry a token.

    text: the vocabulary's strings ("[CLS]", "the", "##s").
    ids: their numbers in the vocabulary.
    segments: 0 for the first text, 1 for the second.
    words: which word of its text the token is a piece of, counted from 0; None for special tokens.
    offsets: the characters [start, end) of its own text that it stands for; (0, 0) for special tokens.
    special: True for what the tokenizer added ([CLS], [SEP], [PAD]).
    padding: True for [PAD].
    shown: how a reader sees it (`attncli.text.shown`): " grüßt" for "ĠgrÃ¼ÃŁt", "[UNK:猫]" for "[UNK]". Where none are
    given they are made of `text` alone.
    written: what its text says from where the token begins to where the next one does, so that together they are the
    text as it was written; "" of special tokens, and where it is not known.
    """

    text: list[str]
    ids: list[int]
    segments: list[int]
    words: list[int | None]
    offsets: list[tuple[int, int]]
    special: list[bool]
    padding: list[bool]
    shown: list[str] = field(default_factory=list)
    written: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        if not self.shown:
            object.__setattr__(self, "shown", by_themselves(self.text, self.special))
        if not self.written:
            object.__setattr__(self, "written", [""] * len(self.text))

    def __len__(self) -> int:
        return len(self.text)

    @property
    def lists(self) -> dict[str, list[Any]]:
        """The fields by name, one entry a token each."""
        return {one.name: getattr(self, one.name) for one in fields(Tokens)}

    def take(self, places: Iterable[int]) -> "Tokens":
        """Those at these places, in this order."""
        chosen = list(places)
        return replace(self, **{name: [part[place] for place in chosen] for name, part in self.lists.items()})

    def then(self, *others: "Tokens") -> "Tokens":
        """These, and the others after them."""
        every = [tokens.lists for tokens in (self, *others)]
        return Tokens(**{name: [entry for one in every for entry in one[name]] for name in every[0]})

    @property
    def plain(self) -> "Tokens":
        """The tokens by themselves, without another half."""
        return self if type(self) is Tokens else Tokens(**self.lists)

    @property
    def spoken(self) -> "Tokens":
        """The tokens whose vectors come out of a network's last layer: of an encoder-decoder, its decoder's."""
        return self

    @property
    def sizes(self) -> tuple[int, int]:
        """How many tokens there are, and how many of the other half of an encoder-decoder."""
        return len(self), 0


@dataclass(frozen=True, repr=False)
class Read(Tokens):
    """What the encoder of an encoder-decoder reads, with what its decoder is fed.

    goal: the number of the token that the decoder is to write after each that it is fed.
    """

    fed: Tokens = field(kw_only=True)
    goal: list[int] = field(kw_only=True)

    @property
    def spoken(self) -> Tokens:
        return self.fed

    @property
    def sizes(self) -> tuple[int, int]:
        return len(self), len(self.fed)


@dataclass(frozen=True, repr=False)
class Fed(Tokens):
    """What the decoder of an encoder-decoder is fed, with what its encoder has read. goal: as of `Read`."""

    read: Tokens = field(kw_only=True)
    goal: list[int] = field(kw_only=True)

    @property
    def sizes(self) -> tuple[int, int]:
        return len(self), len(self.read)


def tokens_of(encoding: "Encoding", notation: Notation | None = None, *texts: str | None) -> Tokens:
    """What `tokenizers` found in a text, or a pair of texts, in this program's words.

    notation: of its vocabulary, and texts: what it was given, where these are known.
    """
    segments: list[int] = []
    for kind, part in zip(encoding.type_ids, encoding.sequence_ids, strict=True):
        # RoBERTa's tokenizer calls every token type 0; what a separator ends, it belongs to.
        segments.append(max(kind, part if part is not None else segments[-1] if segments else 0))
    special = [bool(flag) for flag in encoding.special_tokens_mask]
    shown = [] if notation is None else notation.read(encoding.tokens, special)
    if notation is not None and notation.unknown is not None and notation.unknown.id in encoding.ids:
        where = zip(encoding.ids, special, encoding.sequence_ids, encoding.offsets, strict=True)
        for place, (number, added, part, (start, end)) in enumerate(where):
            if number == notation.unknown.id and not added:
                source = texts[part] if part is not None and texts else None
                shown[place] = notation.unknown.of((source or "")[start:end])
    return Tokens(
        text=list(encoding.tokens),
        ids=list(encoding.ids),
        segments=segments,
        words=list(encoding.word_ids),
        offsets=list(encoding.offsets),
        special=special,
        padding=[False] * len(special),
        shown=shown,
        written=written(encoding, texts),
    )


def written(encoding: "Encoding", texts: Sequence[str | None]) -> list[str]:
    """What was written for each token of these texts: the first has what the tokenizer passed over before it, too."""
    found = [""] * len(encoding)
    parts, offsets = encoding.sequence_ids, encoding.offsets
    for number, text in enumerate(texts):
        places = [place for place, part in enumerate(parts) if part == number]
        if text is None or not places:
            continue
        bounds = [0, *(offsets[place][0] for place in places[1:]), offsets[places[-1]][1]]
        for place, (start, end) in zip(places, pairwise(bounds), strict=True):
            found[place] = text[start:end]
    return found


def check_text(text: str) -> None:
    """Raises NothingKept when a text is empty or only spaces, Unreadable when it is not valid Unicode."""
    if not text or text.isspace():
        raise NothingKept('the text is empty: give a sentence, as in attncli run "The cat sat."')
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise Unreadable(f"the text is not valid UTF-8 at character {error.start}") from error
