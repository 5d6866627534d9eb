"""Hostile tokens in a real browser: nothing runs, nothing is requested, and they are shown as the text they are."""

from dataclasses import replace

import pytest
from records import record_of, tokens

from attncli.base.printable import printable

pytestmark = pytest.mark.slow

HOSTILE = [
    '</script><img src=x onerror="window.hacked=1">',
    "<script>window.hacked=1</script>",
    "<!--",
    "<!--<script>",
    "]]>",
    "<![CDATA[",
    "&lt;b&gt;&amp;&#x3c;",
    "\"'`",
    "${window.hacked=1}",
    "`+(window.hacked=1)+`",
    "{{ script }}",
    "\\u003cscript\\u003e",
    "\u2028window.hacked=1\u2029",
    "\ud800",
    "\udc00x\ud83d",
    "\u202egnirts\u202c",
    "\u2066\u2067\u2068",
    "a\x00b",
    "\x1b[31m\x1b]0;x\x07",
    "\ufffe\uffff",
    "__proto__",
    "constructor",
    "javascript:window.hacked=1",
    '" onmouseover="window.hacked=1',
    "x" * 10_000,
    "\u0301" * 200,
    "",
]
VIEWS = ["heads", "model", "matrix", "neuron"]


@pytest.fixture
def record(random_maps):
    """Everything in it that is text is hostile."""
    made = record_of(random_maps(1, 2, len(HOSTILE)))
    model = replace(made.model, name=HOSTILE[0], path=HOSTILE[1], sha256=HOSTILE[0])
    return replace(made, model=model, mask_name=HOSTILE[0], tokens=tokens(HOSTILE, range(len(HOSTILE))))


def test_nothing_runs_and_nothing_is_requested(opened, record):
    page = opened([record, replace(record, mask_name="__proto__")], title=HOSTILE[0])
    for view in VIEWS:
        page.go(f"#view={view}")
        page.press("j", "j", "o", "w")
        for x in range(100, 1000, 180):
            page.tab.mouse.move(x, 300)
    assert page.tab.evaluate("window.hacked") is None
    assert page.tab.title() == HOSTILE[0]
    # Nothing has become an element that the page did not have.
    assert page.tab.locator("img, body script:not([type]), main b, iframe, [onmouseover], [onerror]").count() == 0


def test_tokens_are_shown_as_text(opened, record):
    page = opened(record, height=1000)
    shown = [printable(token) for token in HOSTILE]
    assert page.sentence() == shown
    texts = page.texts()
    for token in shown[:-1]:
        whole = token.replace("\ufffe", "\ufffd").replace("\uffff", "\ufffd")  # XML can't hold these two
        same = [text for text in texts if text == whole or (text.endswith("…") and whole.startswith(text[:-1]))]
        assert len(same) >= 2, token
    page.hold(0)
    assert f"Query 0 “{HOSTILE[0]}”" in page.text("said")


def test_a_saved_svg_of_them_is_xml_without_a_script(opened, record):
    page = opened(record)
    for view in VIEWS:
        page.go(f"#view={view}&token=3")
        root = page.svg()  # parses
        names = {element.tag.rpartition("}")[2] for element in root.iter()}
        assert names <= {"svg", "rect", "line", "text", "clipPath", "g", "image"}
        assert not [name for element in root.iter() for name in element.attrib if name.lower().startswith("on")]
        assert all(element.get("href", "data:image/png").startswith("data:image/png") for element in root.iter())


# What a page might try, and the part of its policy that forbids it.
FORBIDDEN = [
    ("add('script', { textContent: 'window.hacked=1' })", "script-src-elem"),
    ("add('script', { src: 'https://example.org/x.js' })", "script-src-elem"),
    ("add('b').setAttribute('onclick', 'window.hacked=1'); document.body.lastChild.click()", "script-src-attr"),
    ("add('img', { src: 'https://example.org/x.png' })", "img-src"),
    ("fetch('https://example.org/').catch(() => {})", "connect-src"),
    ("navigator.sendBeacon('https://example.org/', 'x')", "connect-src"),
    ("add('style', { textContent: 'body { display: none }' })", "style-src-elem"),
    ("new FontFace('x', 'url(https://example.org/x.woff2)').load().catch(() => {})", "font-src"),
    ("add('iframe', { src: 'https://example.org/' })", "frame-src"),
    ("try { new Worker(URL.createObjectURL(new Blob(['1']))) } catch {}", "worker-src"),
    ("add('form', { action: 'https://example.org/' }).submit()", "form-action"),
    ("add('base', { href: 'https://example.org/' })", "base-uri"),
]
VIOLATED = """() => new Promise((done) => {
  const add = (tag, properties) => {
    const element = Object.assign(document.createElement(tag), properties);
    document.body.append(element);
    return element;
  };
  document.addEventListener("securitypolicyviolation", (event) => done(event.effectiveDirective), { once: true });
  setTimeout(() => done("nothing was forbidden"), 5000);
  %s;
})"""


def test_the_pages_policy_forbids_every_request_and_every_foreign_script(opened, random_maps):
    page = opened(record_of(random_maps(1, 1, 4)))
    first = page.tab.evaluate("[...document.head.children].slice(0, 2).map(one => one.httpEquiv || one.tagName)")
    assert first == ["META", "Content-Security-Policy"]  # before everything that it is for
    content = page.tab.get_attribute("meta[http-equiv]", "content")
    assert content.startswith("default-src 'none'; ")
    assert "unsafe" not in content and "http" not in content and "*" not in content
    for script, directive in FORBIDDEN:
        assert page.tab.evaluate(VIOLATED % script) == directive, script
    assert page.tab.evaluate("window.hacked") is None
    assert page.tab.is_visible("body")
    assert all(request.failure == "csp" for request in page.requests[1:])
    page.errors.clear()  # the browser complains of each of them,
    del page.requests[1:]  # and lists what it did not ask for
