"""The page with a field to type in, in a real browser and through the real server."""

import re

import pytest
from browsers import Opened
from checkpoints import edit_config, make_checkpoint
from serving import TEXT, serving

from attncli import load_model
from attncli.base.printable import visible
from attncli.live import Session
from attncli.live.server.app import Site
from attncli.live.session import WRITES, SessionRequest, Watch
from attncli.models.generation import Sampling, prompt_tokens, write
from attncli.models.opening import Opening
from attncli.page import MEAN, save_page
from attncli.record.selection import Input

pytestmark = pytest.mark.slow

TROPHY = "The trophy does not fit in the suitcase because it is too big."
PIECES = ["[CLS]", "the", "trophy", "does", "not", "fit", "in", "the", "suitcase", "because", "it", "is", "too", "big",
          ".", "[SEP]"]  # fmt: skip
VIEWS = ["heads", "model", "matrix", "neuron"]
NUMBER = "() => document.getElementById('chart').dataset.drawn"


class Live(Opened):
    """A page of a server, and what a user does there."""

    def type(self, text, field="typed", tokens=None):
        """Type it, and wait until so many tokens are drawn, or a page of this title."""
        self.tab.fill(f"#{field}", text)
        if tokens is None:
            self.tab.wait_for_function("text => document.title.endsWith(text)", arg=text)
            self.settle()
        else:
            self.wait(tokens)

    def wait(self, tokens):
        """Until a text of so many tokens is drawn."""
        self.tab.wait_for_function(
            "count => document.getElementById('about').textContent.includes(`\\n${count} tokens`)", arg=tokens
        )
        self.settle()

    @property
    def caption(self):
        """The line of the drawing that says what it is of."""
        return next(text for text in self.texts() if " · " in text)

    def wait_for_vectors(self):
        """Until Neuron has q and k."""
        for _ in range(1200):
            if "q × k" in self.texts():
                return
            self.tab.wait_for_timeout(50)
        raise AssertionError("no q and k came")

    def earlier(self):
        return [label for _, label in self.options("earlier")][1:]


@pytest.fixture
def live(browser, served):
    """`live(width=390)` -> the page of the server, in a browser of its own; in the end nothing went wrong in it."""
    contexts, pages = [], []

    def open_it(server=served, *, width=1280, height=800, scheme="light"):
        context = browser.new_context(viewport={"width": width, "height": height}, color_scheme=scheme)
        contexts.append(context)
        context.set_default_timeout(60_000)
        page = Live(context.new_page(), server.lock.address)
        page.tab.goto(server.lock.address)
        page.settle()
        pages.append((server, page))
        return page

    yield open_it
    for server, page in pages:
        assert [one for one in page.errors if "Failed to load resource" not in one] == []
        asked = {request.url.split("?")[0] for request in page.requests if not request.url.startswith("blob:")}
        assert asked <= {server.origin + path for path in ("/", "/look", "/page", "/sources")}
    for context in contexts:
        context.close()


def test_it_opens_as_view_does_and_the_token_is_gone(live, served):
    page = live()
    assert page.tab.url == f"{served.origin}/" and page.tab.input_value("#typed") == TEXT
    assert page.caption.startswith("minilm · layer ") and "9 tokens" in page.text("about")
    assert page.tab.evaluate("document.cookie") == ""


@pytest.mark.parametrize("view", VIEWS)
def test_every_view_follows_what_is_typed(live, view):
    page = live()
    page.click(f"[data-view={view}]")
    if view == "neuron":
        page.wait_for_vectors()
    before = page.marks("line"), page.marks("rect"), page.tab.evaluate(NUMBER)
    page.type(TROPHY, tokens=16)
    assert (page.marks("line"), page.marks("rect")) != before[:2]
    if view != "model":
        assert set(PIECES) <= set(page.texts())
    assert "minilm" in page.caption and page.hash.get("view", "heads") == view


def test_an_answer_that_comes_after_a_newer_one_is_not_shown(live):
    page, held = live(), []

    def hold(route):
        if "A cat slept." in route.request.post_data:
            held.append(route)
        else:
            route.continue_()

    page.tab.route("**/look", hold)
    page.tab.fill("#typed", "A cat slept.")
    while not held:
        page.tab.wait_for_timeout(20)
    page.tab.wait_for_timeout(300)  # after which it is waited for no longer
    page.type("A dog ran.", tokens=6)
    [late] = held
    late.fulfill(response=late.fetch())
    page.tab.wait_for_timeout(300)
    page.settle()
    assert "dog" in page.texts() and "cat" not in page.texts()
    assert page.tab.title().endswith("A dog ran.") and page.tab.input_value("#typed") == "A dog ran."


def test_what_is_drawn_is_what_the_model_makes(live, minilm):
    page = live()
    page.click("[data-view=matrix]")
    page.choose("layer", 4)
    page.choose("head", 7)
    page.type("A dog ran.", tokens=6)
    record = minilm.attend("A dog ran.")
    drawn = {(int(cell["query"]), int(cell["key"])): cell["weight"] for cell in page.marks("rect") if "weight" in cell}
    assert len(drawn) == 36
    for (query, key), weight in drawn.items():
        assert weight == pytest.approx(float(record.map(4, 7)[query, key]), rel=1e-3)


def test_a_decoder_writes_on_and_again_without_a_head(live, tmp_path):
    directory = make_checkpoint(tmp_path / "llama", "llama", "ForCausalLM")
    edit_config(directory, eos_token_id=None)
    (directory / "generation_config.json").unlink(missing_ok=True)
    model = load_model(str(directory), "cpu")
    session = Session([Opening("llama", "cpu")])
    session.engines["llama", ""] = model
    count = len(prompt_tokens(model, "the cat sat on"))
    with serving(Site(session, [Input("the cat sat on")])) as one:
        page = live(one)
        assert page.tab.is_hidden("#rewrite")
        page.click("#write")
        page.wait(count + WRITES)
        steps = page.tab.locator("#findings-list li")
        assert page.text("findings-title") == "Written" and steps.count() == WRITES
        page.press("n", "n", "n")
        kept = int(page.hash["token"]) - (count - 1)
        assert 1 < kept < 4
        layer, head = page.hash.get("layer", "0"), page.hash.get("head", "0")
        page.click("#silence")
        page.tab.wait_for_function("() => document.getElementById('silence').textContent.startsWith('Restore')")
        page.settle()
        page.click("#rewrite")
        page.wait(count + kept + WRITES)
        plain = [step.token for step in write(model, prompt_tokens(model, "the cat sat on"), Sampling(WRITES))]
        part = model.without(f"{layer}.{head}")
        changed = write(part, prompt_tokens(part, "the cat sat on"), Sampling(WRITES), written=plain[:kept])
        whole = model.tokenizer.extend(
            prompt_tokens(model, "the cat sat on"), [*plain[:kept], *(one.token for one in changed)]
        )
        texts, tokens = page.texts(), list(map(visible, whole.shown))[:25]  # those below are drawn after scrolling
        first = texts.index(tokens[0])
        assert texts[first : first + len(tokens)] == tokens and page.text("replaced").startswith("Earlier: ")
        page.type("the dog")
        assert page.tab.is_hidden("#replaced") and page.text("findings-title") == "Findings"


def session_of_a_decoder(folder):
    """The session of a small decoder, a text, and the place of the text's last token."""
    model = load_model(str(make_checkpoint(folder / "llama", "llama", "ForCausalLM")), "cpu")
    session = Session([Opening("llama", "cpu")])
    session.engines["llama", ""] = model
    text = "the cat sat. it is big. the cat"
    place = len(prompt_tokens(model, text)) - 1
    return session, text, place


def test_s_shows_what_the_held_token_rests_on(live, tmp_path):
    session, text, place = session_of_a_decoder(tmp_path)
    with serving(Site(session, [Input(text)])) as one:
        page = live(one)
        page.press("Escape")
        assert page.tab.is_hidden("#sources")
        page.go(f"#token={place}")
        page.press("s")
        page.tab.wait_for_selector("#rests table")
        found = session.sources(SessionRequest("llama", Input(text)), place, Watch())
        rows = [row.split("\t") for row in page.tab.inner_text("#rests table").splitlines()[1:]]
        assert [float(row[1].replace("\u2212", "-")) for row in rows] == pytest.approx(
            sorted(found.effects, reverse=True), abs=6e-4
        )
        asked = len(page.requests)
        page.press("k")
        assert page.tab.is_hidden("#rests")
        page.press("j", "s")
        page.tab.wait_for_selector("#rests table")
        assert len(page.requests) == asked, "the panel of that token is still there"
        # Between a key in the field and its answer: the shown text is measured, not the typed one.
        page.tab.route("**/look", lambda route: None)
        page.tab.fill("#typed", "the dog")
        page.press("Escape", "k")
        with page.tab.expect_request("**/sources") as request:
            page.press("s")
        assert request.value.post_data_json["text"] == text


def test_silenced_heads_are_silent_in_sources(live, tmp_path):
    session, text, place = session_of_a_decoder(tmp_path)
    with serving(Site(session, [Input(text)])) as one:
        page = live(one)
        page.go(f"#layer=0&head=1&token={place}")
        page.click("#silence")
        page.tab.wait_for_function("() => document.getElementById('silence').textContent.startsWith('Restore')")
        page.settle()
        page.press("s")
        page.tab.wait_for_selector("#rests table")
        found = session.sources(SessionRequest("llama", Input(text), without="0.1"), place, Watch())
        rows = [row.split("\t") for row in page.tab.inner_text("#rests table").splitlines()[1:]]
        assert [float(row[1].replace("\u2212", "-")) for row in rows] == pytest.approx(
            sorted(found.effects, reverse=True), abs=6e-4
        )


def test_a_phone_has_a_short_form_that_unfolds(live, served):
    page = live(width=390, height=844)
    assert page.tab.is_hidden("#save-page") and page.tab.is_visible("#typed")
    assert page.tab.eval_on_selector("#asking", "form => form.offsetHeight") < 844 / 8
    page.click("#unfold")
    assert page.tab.is_visible("#save-page") and page.tab.is_visible("#paired")
    page.click("#unfold")
    assert page.tab.is_hidden("#save-page")
    assert live(width=800).tab.is_visible("#save-page")


def test_another_model_has_its_own_layers_and_heads(live, small, minilm):
    page = live()
    page.choose("layer", 5)
    page.type("the big cat", tokens=5)
    page.choose("model", small)
    page.tab.wait_for_function("name => document.title.startsWith(name)", arg=small)
    page.settle()
    assert page.caption.startswith(f"{small} · layer") and len(page.options("layer")) < 6
    shown = page.text("about")
    assert page.tab.eval_on_selector_all("#heads button", "all => all.length") == len(page.options("head")) - 1
    page.go("")  # an address that says nothing
    page.press("ArrowDown", "ArrowRight")
    page.choose("model", "minilm")
    assert page.tab.evaluate("document.title").startswith("minilm") and page.caption.startswith("minilm · layer 5")
    page.choose("model", small)
    assert page.text("about") == shown and page.tab.input_value("#typed") == "the big cat"


def test_masks_switch_at_once(live):
    page = live()
    page.type(TROPHY, tokens=16)
    asked = len(page.requests)
    page.click("[data-view=matrix]")
    page.click("[data-mask=causal]")
    assert "mask causal" in page.caption and len(page.requests) == asked
    assert [cell for cell in page.marks("rect") if cell.get("hidden")]
    page.type("A dog ran.", tokens=6)
    assert "mask causal" in page.caption


def test_earlier_texts_are_there_at_once(live):
    page = live()
    assert page.earlier() == [TEXT, "the big cat | it sat", "<b>bold</b> & \u202eturned"]
    page.type(TROPHY, tokens=16)
    page.tab.press("#typed", "Enter")
    assert page.earlier()[0] == TROPHY[:60]
    asked = len(page.requests)
    page.choose("earlier", 1)  # the one it began with
    assert page.tab.input_value("#typed") == TEXT and "9 tokens" in page.text("about") and len(page.requests) == asked
    page.tab.select_option("#earlier", "2")
    page.wait(8)
    assert page.tab.input_value("#paired") == "it sat" and len(page.requests) == asked + 1
    assert not page.tab.eval_on_selector("#segment-filter", "one => one.hidden")


def test_what_is_typed_on_takes_the_place_of_its_beginning(live):
    page = live()
    for text, tokens in (("A dog", 4), ("A dog ran.", 6), ("A bird", 4)):
        page.type(text, tokens=tokens)
        page.tab.press("#typed", "Enter")
    assert page.earlier()[:3] == ["A bird", "A dog ran.", TEXT]


def test_neuron_gets_q_and_k_and_others_do_without(live, minilm):
    page = live()
    page.type("A dog ran.", tokens=6)
    asked = len(page.requests)
    page.tab.click("[data-view=neuron]")
    page.wait_for_vectors()
    assert len(page.requests) == asked + 1
    page.choose("head", 3)
    page.press("ArrowDown")
    assert len(page.requests) == asked + 1  # those of all heads came
    page.type("the cat sat on it " * 30, tokens=152)
    assert "q × k" in page.texts()
    asked = len(page.requests)
    page.choose("head", 4)
    page.wait_for_vectors()
    assert len(page.requests) == asked + 1


@pytest.mark.parametrize(("layer", "head"), [(3, 1), (3, MEAN), (MEAN, 1), (MEAN, MEAN)])
def test_a_saved_page_opens_without_a_server_and_shows_the_same(live, browser, tmp_path, layer, head):
    page = live()
    page.type(TROPHY, tokens=16)
    page.click("[data-view=matrix]")
    page.choose("layer", layer)
    page.choose("head", head)
    page.hold(10)
    page.click("[data-mask=causal]")
    with page.tab.expect_download() as download:
        page.tab.click("#save-page")
    assert download.value.suggested_filename == "attention-the-trophy-does-not-fit-in-the-suitcase-.html"
    file = tmp_path / "saved.html"
    save_page(download.value.path().read_text(encoding="utf-8"), file)
    with browser.new_context(offline=True, viewport={"width": 1280, "height": 800}) as context:
        alone = Opened(context.new_page(), file.as_uri())
        alone.open()
        names, live_names = ([one for one in of.texts() if one[-1].isalpha()] for of in (alone, page))
        assert names == live_names  # the numbers of cells need room, which fields and buttons take here
        rects = [cell for cell in page.marks("rect") if "weight" in cell]
        others = [cell for cell in alone.marks("rect") if "weight" in cell]
        assert [(cell["query"], cell["key"]) for cell in rects] == [(cell["query"], cell["key"]) for cell in others]
        assert [cell["weight"] for cell in rects] == [cell["weight"] for cell in others]
        assert alone.text("said") == page.text("said") and alone.errors == []


def test_an_error_is_told_and_loses_nothing(live):
    page = live()
    page.type("A dog ran.", tokens=6)
    page.tab.fill("#typed", "\u00ad")  # of which the tokenizer keeps nothing
    page.tab.wait_for_selector("#problem:visible")
    page.settle()
    assert "has no characters" in page.text("problem") and page.tab.input_value("#typed") == "\u00ad"
    assert "ran" in page.texts()
    page.type("A dog ran far.", tokens=7)
    assert page.tab.is_hidden("#problem")
    page.tab.fill("#typed", "word " * 60_000)
    page.tab.wait_for_selector("#problem:visible")
    assert page.text("problem") == "more than 262,144 bytes of text: shorten it"


HOSTILE = ["<img src=x onerror=window.hacked=1>", "</script><script>window.hacked=1</script>",
           "\x1b[31m red \x1b]0;x\x07",
           "{{ script }} &lt;b&gt;", "\u202egnirts\u202c \u2066x", "__proto__ constructor"]  # fmt: skip


def test_hostile_text_is_text(live):
    page = live()
    for text in HOSTILE:
        title = page.tab.title()
        page.tab.fill("#typed", text)
        page.tab.wait_for_function("before => document.title !== before", arg=title)
        page.settle()
        page.tab.press("#typed", "Enter")
        assert page.tab.evaluate("window.hacked") is None and page.tab.locator("main img, main b").count() == 0
        assert not re.search("[\x00-\x08\x0b-\x1f\u202a-\u202e\u2066\u2067]", page.tab.title())


def test_a_long_text_shows_how_far_it_is_and_gives_way(live, served, monkeypatch):
    import threading
    from functools import partial

    from attncli.live import session

    page, going = live(), threading.Event()
    watching = session.progress_taps

    def slowly(engine, asked, watch):
        taps = watching(engine, asked, watch)
        for tap in taps:
            tap.tell = partial(told, tap.tell, watch)
        return taps

    def told(tell, watch, layer):
        tell(layer)
        while layer and not going.wait(0.1):  # until the progress was seen
            watch(0.5)  # which ends where it is not wanted any more

    monkeypatch.setattr(session, "progress_taps", slowly)
    page.tab.fill("#typed", "the cat sat on it " * 40)
    page.tab.wait_for_selector("#progress[value]:visible")
    page.tab.wait_for_function("document.getElementById('progress').value > 0.05")
    page.type("A dog ran.", tokens=6)
    assert page.tab.is_hidden("#progress") and "ran" in page.texts()
    page.tab.fill("#typed", "the cat sat on it " * 41)
    page.tab.wait_for_selector("#progress[value]:visible")
    page.tab.click("#stop")
    assert page.text("problem").startswith("Stopped.") and page.tab.is_hidden("#progress") and "ran" in page.texts()
    going.set()
    page.type("the cat sat on it " * 40, tokens=202)
    assert page.tab.is_hidden("#progress")


def test_an_empty_field_empties_the_drawing_until_something_is_typed(live):
    page = live()
    page.type("A dog ran.", tokens=6)
    page.tab.fill("#typed", "")
    page.tab.wait_for_selector("main", state="hidden")
    assert page.tab.is_hidden("#sentence") and page.tab.is_hidden("#problem")
    page.type("A dog ran.", tokens=6)
    assert page.tab.is_visible("main") and page.sentence()[1:4] == ["a", "dog", "ran"]


def test_a_text_that_is_cut_says_so_beside_it(live):
    page = live()
    page.type("word " * 600, tokens=512)
    assert page.text("note") == "only the first 512 tokens: this model takes no more"


def test_letters_in_the_field_are_no_keys_of_the_page_and_a_slash_goes_there(live):
    page = live()
    page.tab.focus("#chart")
    page.tab.keyboard.press("/")
    assert page.tab.evaluate("document.activeElement.id") == "typed"
    page.tab.keyboard.press("3")
    assert page.tab.input_value("#typed").endswith("3") and page.hash.get("view", "heads") == "heads"
    page.tab.keyboard.press("Escape")
    assert page.tab.evaluate("document.activeElement.id") == "chart"
    page.press("3")
    assert page.hash["view"] == "matrix"


def test_a_server_that_was_started_anew_is_told_of(live, served, browser):
    page = live()
    page.tab.context.clear_cookies()
    page.tab.fill("#typed", "A dog ran.")
    page.tab.wait_for_selector("#problem:visible")
    assert "Open the address that it printed" in page.text("problem")
