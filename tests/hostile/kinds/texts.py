"""Texts of all that Unicode has, as arguments, lines and fields: in any script, of no script, and of no text at all."""

import json
import sys
import unicodedata
from random import Random

from hostile.case import Case
from hostile.place import Place

WORDS = ("the", "cat", "sat", "it", "unbelievable", "don't", "naïve", "Straße", "中国", "人工智能", "日本語", "한국어",
    "नमस्ते", "สวัสดี", "العربية", "עברית", "ελληνικά", "привет", "🤖", "👩‍👩‍👧‍👦", "🏳️‍🌈", "🇩🇪", "e\u0301", "ﬁ", "ǅ", "İ",
    "a\u0300\u0301\u0302\u0303", "[CLS]", "[SEP]", "[PAD]", "[unused1]", "[bold]", "</s>", "<pad>", "$x^2$", "\\frac",
    "\u200b", "\u200d", "\u00ad", "\ufeff", "\u2028", "\u2029", "\u202e", "\u2066", "\x1b[31m", "\x1b]0;title\x07",
    "\x00", "\x7f", "\x85", "\r", "\t", "\v", "\f", "<script>alert(1)</script>", "</script>", "<!--", "]]>", "&amp;",
    "=1+1", '"', "'", "`", "{}", "%s", "{0}", "../..", "-", "--", "#1", "it#2", "\U000e0041", "\U0010ffff", "\ufffe",
)  # fmt: skip
PLANES = ((0x20, 0x7F), (0x80, 0x250), (0x300, 0x370), (0x590, 0x700), (0x900, 0x1200), (0x2000, 0x2C00),
    (0x3000, 0xD7FF), (0xE000, 0xFFFF), (0x10000, 0x20000), (0x20000, 0x32000), (0xE0000, 0xE01F0), (0xF0000, 0x110000),
)  # fmt: skip

# {} is the text, as it can be typed; FILE and JSONL hold it.
CALLS = (
    ("run", "-m", "minilm", "--json", "--", "{}"), ("run", "-m", "minilm", "--", "{}"),
    ("run", "-m", "minilm", "--words", "--json", "--", "{}"), ("run", "-m", "tiny", "--json", "--pair={}", "--", "{}"),
    ("run", "-m", "tiny", "--words", "--", "{}"), ("run", "-m", "minilm", "-f", "texts.txt", "--json"),
    ("stats", "-m", "tiny", "texts.txt", "--json"), ("stats", "-m", "tiny", "--jsonl", "text", "one.jsonl", "--json"),
    ("stats", "-m", "tiny", "--paragraphs", "texts.txt", "--json"), ("find", "-m", "tiny", "{}", "cat", "the cat {}"),
    ("explain", "-m", "tiny", "--json", "--", "{}"), ("explain", "-m", "tiny", "--query={}", "--", "the cat {}"),
    ("run", "-m", "minilm", "-o", "a.csv", "--", "{}"), ("run", "-m", "minilm", "-o", "a.npz", "--", "{}"),
    ("view", "-m", "tiny", "-o", "a.html", "--", "{}"), ("mask", "-m", "tiny", "--json", "--", "{}"),
    ("align", "--attention", "dot", "--json", "--", "{}"), ("align", "--attention", "dot", "--", "{}"),
    ("diff", "-m", "tiny", "--words", "--json", "--", "{}", "{}"),
    ("flow", "-m", "minilm", "--method", "rollout", "--json", "--", "{}"),
    ("run", "-m", "json", "--json", "--", "{}"), ("run", "-m", "minilm", "--mask", "causal", "--", "{}"),
)  # fmt: skip
DRAWN = (
    ("heatmap", "-m", "tiny", "-l", "0", "-H", "0", "-o", "a.svg", "--", "{}"),
    ("heatmap", "-m", "tiny", "--style", "lines", "-o", "a.svg", "--title={}", "--", "the cat"),
    ("explain", "-m", "tiny", "-o", "a.svg", "--", "{}"),
)


def make(random: Random, place: Place) -> Case:
    text = some_text(random)
    call = random.choice(DRAWN if random.random() < 0.05 else CALLS)
    files = {}
    if "texts.txt" in call:
        lines = [text, *(some_text(random) for _ in range(random.randrange(3)))]
        files["texts.txt"] = as_bytes("\n".join(lines), random)
    if "one.jsonl" in call:
        files["one.jsonl"] = (json.dumps({"text": text}) + "\n").encode()
    typed = typeable(text)
    return Case("texts", tuple(word.replace("{}", typed) for word in call), files)


def some_text(random: Random) -> str:
    """A few words, most of which are odd; at times none, a very long one, or more than a model has room for."""
    way = random.randrange(12)
    if way == 0:
        return random.choice(
            ("", " ", "\n", "\u3000", "\u200b", "\ufeff", "\x00", "\u0301", "\ud800", ".", "\u00ad" * 9)
        )
    if way == 1:
        return some_word(random) * random.choice((20, 200, 3000))
    if way == 2:
        return " ".join(some_word(random) for _ in range(random.choice((60, 700))))
    return random.choice((" ", "", "\u00a0", "  ")).join(some_word(random) for _ in range(random.randrange(1, 9)))


def some_word(random: Random) -> str:
    if random.random() < 0.6:
        return random.choice(WORDS)
    low, high = random.choice(PLANES)
    return "".join(chr(random.randrange(low, high)) for _ in range(random.randrange(1, 5)))


def typeable(text: str) -> str:
    """Return the text as the system passes it to a program: without NUL, maybe not UTF-8, and shortened."""
    raw = text.replace("\0", "").encode("utf-8", "surrogatepass")[:100_000]
    return raw.decode(sys.getfilesystemencoding(), "surrogateescape")


def as_bytes(text: str, random: Random) -> bytes:
    """A file's: in UTF-8, composed in any way, with any ends of lines; at times in another encoding."""
    if "\ud800" not in text and random.random() < 0.3:
        text = unicodedata.normalize(random.choice(("NFC", "NFD", "NFKC", "NFKD")), text)
    raw = text.encode("utf-8", "surrogatepass")
    way = random.randrange(10)
    if way == 0:
        return raw.replace(b"\n", b"\r\n")
    if way == 1:
        return b"\xef\xbb\xbf" + raw
    if way == 2:
        return text.encode("utf-16", "surrogatepass")
    return raw + b"\n"
