"""Chats: read saved messages, and find where a chat template puts the text of each.

A template can strip a message, repeat it, remove its reasoning or write it as JSON. So each letter of the messages is
replaced by a private-use character of Unicode that encodes its position. The template is applied to both chats, and the
private characters show which part of the prompt comes from which message (`located`). But a template may depend on what
it formats. So a marked prompt counts only if it decodes to the plain one. Two notations are tried: with nearly all
characters replaced, and with fewer.
"""

import json
import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain
from typing import Any, NamedTuple

from attncli.base.choices import describe
from attncli.base.errors import RequestError
from attncli.text.units import Part, PartedText, numbered

TEMPLATE = "template"  # the part of a prompt that the template adds
TOOLS = "tools"
_FORM = 'write [{"role": "user", "content": "..."}, ...]'
_PRIVATE = [*range(0xF0000, 0xFFFFE), *range(0x100000, 0x10FFFE)]
_LONGEST_MARKED = 400  # characters marked at each end of a string; its middle is found by comparison
_TAG = re.compile(r"<[^<>\s][^<>\n]{0,80}>|\[/?[A-Z_]{2,24}\]")  # patterns that a template may look for
_UNMARKED = frozenset("\"'\\{}[]<>|/&#*`")
_NAMES = frozenset(["role", "type", "id", "tool_call_id"])  # keys whose values a template compares
_TEXTS = frozenset(["content", "text", "reasoning", "reasoning_content", "thinking", "arguments", "description"])


class Chat(NamedTuple):
    """Messages in the format of OpenAI and of transformers' templates: each with a role, content and tool calls.

    tools: the functions that the model may call.
    """

    messages: list[dict[str, Any]]
    tools: list[dict[str, Any]] | None = None

    @classmethod
    def of_user(cls, text: str) -> "Chat":
        """Return a chat of one user message."""
        return cls([{"role": "user", "content": text}])

    @classmethod
    def of(cls, document: Any) -> "Chat":
        """Return the chat in a JSON document: a list of messages, or an object with `messages` and `tools`.

        Raises RequestError for anything else, and for content that is not text.
        """
        tools = None
        if isinstance(document, dict):
            document, tools = document.get("messages"), document.get("tools")
        if not isinstance(document, list) or not document:
            raise RequestError(f"a chat is a list of messages: {_FORM}")
        if tools is not None and not (isinstance(tools, list) and all(isinstance(one, dict) for one in tools)):
            raise RequestError(f"tools are a list of objects, not {describe(tools)}")
        return cls([_message(number, one) for number, one in enumerate(document, start=1)], tools or None)

    @property
    def names(self) -> list[str]:
        """Return the name of each message's part: "user", "assistant", "user 2"."""
        return numbered(one["role"] for one in self.messages)


def _message(number: int, one: Any) -> dict[str, Any]:
    """Return a message with its content as one text, and the arguments of its tool calls as values."""
    if not isinstance(one, dict) or not isinstance(one.get("role"), str) or not one["role"].strip():
        raise RequestError(f"message {number} has no role: {_FORM}")
    content = one.get("content")
    if isinstance(content, list):
        every = [piece.get("text") if isinstance(piece, dict) else piece for piece in content]
        texts = [text for text in every if isinstance(text, str)]
        if len(texts) < len(every):
            raise RequestError(f"message {number} has content that is not text, such as an image: remove it")
        content = "\n".join(texts)
    if not (content is None or isinstance(content, str)):
        raise RequestError(f"the content of message {number} is {describe(content)}: give text")
    calls = one.get("tool_calls")
    more = {"tool_calls": [_with_values(call) for call in calls]} if isinstance(calls, list) else {}
    return {**one, "content": content or "", **more}


def _with_values(call: Any) -> Any:
    """Return a tool call with its arguments parsed: OpenAI stores them as a string of JSON."""
    function = call.get("function") if isinstance(call, dict) else None
    if isinstance(function, dict) and isinstance(function.get("arguments"), str):
        with suppress(ValueError, RecursionError):
            return {**call, "function": {**function, "arguments": json.loads(function["arguments"])}}
    return call


# --- marking ---------------------------------------------------------------------------------------------


class _String(NamedTuple):
    """A string of a chat.

    owner: the number of its message; None for the tools. content: whether it is the message's text.
    """

    owner: int | None
    text: str
    content: bool


@dataclass(frozen=True)
class Marked:
    """A chat, and its copy in private characters.

    places: for each private character, its string and its position there.
    """

    chat: Chat
    private: Chat
    strings: list[_String]
    places: dict[str, tuple[int, int]]

    @classmethod
    def of(cls, chat: Chat, every: bool) -> "Marked":
        """Mark a chat. every: mark nearly all characters, also in names; otherwise only letters and digits of texts."""
        strings: list[_String] = []

        def read(owner: int | None, key: str, text: str) -> str:
            strings.append(_String(owner, text, key == "content"))
            return text

        _changed(chat, read)
        places: dict[str, tuple[int, int]] = {}
        most = max(1, min(_LONGEST_MARKED, len(_PRIVATE) // (2 * len(strings) + 1)))
        private = map(chr, _PRIVATE)
        numbers = iter(range(len(strings)))

        def mark(owner: int | None, key: str, text: str) -> str:
            number, letters = next(numbers), list(text)
            if every or key in _TEXTS:  # without tags and white space
                tags = set(chain.from_iterable(range(*tag.span()) for tag in _TAG.finditer(text)))
                marked = [
                    letter not in _UNMARKED and not letter.isspace() if every else letter.isalnum() for letter in text
                ]
                chosen = [place for place, flag in enumerate(marked) if flag and place not in tags]
                for place in dict.fromkeys([*chosen[:most], *chosen[-most:]]):
                    if (letter := next(private, None)) is not None:
                        places[letter], letters[place] = (number, place), letter
            return "".join(letters)

        return cls(chat, _changed(chat, mark), strings, places)

    def decoded(self, prompt: str) -> str:
        """Return a marked prompt with its private characters replaced by the original ones."""
        return "".join(
            letter if (place := self.places.get(letter)) is None else self.strings[place[0]].text[place[1]]
            for letter in prompt
        )


_Change = Callable[[int | None, str, str], str]  # called with the owner, the key of a string, and the string


def _changed(chat: Chat, change: _Change) -> Chat:
    """Return a chat with each of its strings changed, except roles and the names of kinds."""
    tools = None if chat.tools is None else [_changed_value(None, "", one, change) for one in chat.tools]
    messages = [
        {key: _changed_value(number, key, value, change) for key, value in one.items()}
        for number, one in enumerate(chat.messages)
    ]
    return Chat(messages, tools)


def _changed_value(owner: int | None, key: str, value: Any, change: _Change) -> Any:
    if isinstance(value, str):
        return value if key in _NAMES else change(owner, key, value)
    if isinstance(value, list):
        return [_changed_value(owner, key, one, change) for one in value]
    if isinstance(value, dict):
        below = {name: "arguments" if key == "arguments" else str(name) for name in value}
        return {name: _changed_value(owner, below[name], one, change) for name, one in value.items()}
    return value


# --- locating the messages ------------------------------------------------------------------------------


class _Run(NamedTuple):
    """A substring that a prompt and a string share: `prompt[start:end]` is the string from `place` on."""

    string: int
    place: int
    start: int
    end: int

    @property
    def after(self) -> int:
        """Return the end position in the string."""
        return self.place + self.end - self.start


def located(prompt: str, marked: Sequence[tuple[Marked, str | None]]) -> tuple[PartedText, list[str]]:
    """Return a prompt with its messages as parts, and the names of messages that the template omits.

    marked: the chat in different notations, each with the template's prompt for it; None if the template fails. Tags in
    a message mark parts inside it, and are kept. White space at the ends of a message belongs to the template. Text
    between two strings of one message belongs to the message, such as the tag that ends its reasoning. A repeated
    message becomes several parts with the same name.
    """
    for one, its_prompt in marked:
        if its_prompt is not None and _same(prompt, one.decoded(its_prompt)):
            runs = _runs(prompt, its_prompt, one)
            break
    else:
        one, runs = marked[-1][0], []
    runs = _searched(prompt, one.strings, runs)
    chat, strings = one.chat, one.strings
    names: dict[int | None, str] = {None: TOOLS, **dict(enumerate(chat.names))}
    spans = [_with_documents(prompt, chat, *span) for span in _spans(runs, strings)]
    parts = [Part(names[owner], start, end) for owner, start, end in spans] + _inner_parts(runs, strings)
    found = {owner for owner, _, _ in spans}
    missing = dict.fromkeys(one.owner for one in strings if one.text.strip() and one.owner not in found)
    kept = []
    for name, start, end in parts:
        text = prompt[start:end]
        if text.strip():
            kept.append(Part(name, start + len(text) - len(text.lstrip()), start + len(text.rstrip())))
    kept.sort(key=lambda part: part.start)
    return PartedText(prompt, tuple(kept), TEMPLATE, marked=True), [names[owner] for owner in missing]


def _inner_parts(runs: Sequence[_Run], strings: Sequence[_String]) -> list[Part]:
    """Return the parts that tags in the messages mark: `<doc id="2"> ... </doc>` is "doc 2". The tags are kept."""
    inner: list[tuple[int, Part]] = []
    for number, string in enumerate(strings):
        with suppress(RequestError):  # overlapping tags are plain text
            inner += [(number, part) for part in PartedText.tagged(string.text, keep=True).parts if string.content]
    named = [
        (number, part, name) for (number, part), name in zip(inner, numbered(p.name for _, p in inner), strict=True)
    ]
    return [
        Part(name, max(part.start - run.place, 0) + run.start, min(part.end - run.place + run.start, run.end))
        for run in runs
        for number, part, name in named
        if run.string == number and part.start < run.after and run.place < part.end
    ]


def _same(one: str, other: str) -> bool:
    """Return True for prompts that are equal ignoring case."""
    if len(one) != len(other):
        return False
    return one == other or all(a == b or a.casefold() == b.casefold() for a, b in zip(one, other, strict=True))


def _runs(prompt: str, its_prompt: str, marked: Marked) -> list[_Run]:
    """Return the substrings of strings in a prompt, in order: marked characters, and equal ones around them."""
    runs: list[_Run] = []
    for at, letter in enumerate(its_prompt):
        if (found := marked.places.get(letter)) is None:
            continue
        string, after = found
        last = runs[-1] if runs else _Run(-1, 0, 0, 0)
        between = marked.strings[string].text[last.after : after]
        if last.string == string and last.after <= after and _same(prompt[last.end : at], between):
            runs[-1] = last._replace(end=at + 1)
        else:
            runs.append(_Run(string, after, at, at + 1))
    ends = [0, *(run.start for run in runs[1:]), len(prompt)]
    for number, (string, place, start, end) in enumerate(runs):
        least, text = runs[number - 1].end if number else 0, marked.strings[string].text
        while start > least and place > 0 and prompt[start - 1] == text[place - 1]:
            start, place = start - 1, place - 1
        while end < ends[number + 1] and (after := place + end - start) < len(text) and prompt[end] == text[after]:
            end += 1
        runs[number] = _Run(string, place, start, end)
    return runs


def _searched(prompt: str, strings: Sequence[_String], runs: Sequence[_Run]) -> list[_Run]:
    """Return runs, adding messages without one where their text occurs next in the prompt."""
    found = list(runs)
    known = {strings[run.string].owner for run in runs}
    for number, string in enumerate(strings):
        text = string.text.strip()
        if not string.content or not text or string.owner in known:
            continue
        at = max((run.end for run in found if run.string < number), default=0)
        start = prompt.find(text, at)
        if start >= 0:
            found.append(_Run(number, string.text.index(text), start, start + len(text)))
    return sorted(found, key=lambda run: run.start)


def _spans(runs: Sequence[_Run], strings: Sequence[_String]) -> list[tuple[int | None, int, int]]:
    """Join adjacent runs of a message to spans (owner, start, end). A repetition begins another span."""
    spans: list[tuple[int | None, int, int]] = []
    seen: list[_Run] = []
    for run in runs:
        owner = strings[run.string].owner
        again = any(one.string == run.string and run.place < one.after and one.place < run.after for one in seen)
        if spans and spans[-1][0] == owner and not again:
            spans[-1] = (owner, spans[-1][1], run.end)
        else:
            spans.append((owner, run.start, run.end))
            seen = []
        seen.append(run)
    return spans


def _with_documents(prompt: str, chat: Chat, owner: int | None, start: int, end: int) -> tuple[int | None, int, int]:
    """Return a span extended to complete JSON, as templates write it: a tool, a call, content as a string."""
    message = {} if owner is None else chat.messages[owner]
    written = [json.dumps(message.get("content", ""), ensure_ascii=False)[1:-1]]
    for value in (chat.tools or []) if owner is None else message.get("tool_calls") or []:
        function = value.get("function") if isinstance(value, dict) else None
        documents = [value, function, function.get("arguments") if isinstance(function, dict) else None]
        written += [json.dumps(one, ensure_ascii=False) for one in documents if isinstance(one, dict)]
    for text in filter(None, written):
        found = prompt.find(text, max(start - len(text) + 1, 0), end + len(text) - 1)
        if found >= 0:
            start, end = min(start, found), max(end, found + len(text))
    return owner, start, end
