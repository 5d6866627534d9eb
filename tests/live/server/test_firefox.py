"""The page in Firefox, through the real server.

Playwright has no driver for Debian's, so it is driven by WebDriver BiDi, which Firefox speaks itself, over a websocket.
"""

import itertools
import json
import re
import shutil
import subprocess
import time

import pytest
from browsers import SETTLE
from serving import TEXT

pytestmark = pytest.mark.slow

LISTENING = re.compile(r"WebDriver BiDi listening on (ws://\S+)")


class Firefox:
    """A tab of a Firefox that listens there."""

    def __init__(self, address):
        from websockets.sync.client import connect

        self.socket = connect(f"{address}/session", max_size=None, open_timeout=30)
        self.numbers = itertools.count(1)
        self.errors = []
        self.call("session.new", capabilities={})
        self.call("session.subscribe", events=["log.entryAdded"])
        self.tab = self.call("browsingContext.getTree")["contexts"][0]["context"]

    def call(self, method, **given):
        number = next(self.numbers)
        self.socket.send(json.dumps({"id": number, "method": method, "params": given}))
        while True:
            said = json.loads(self.socket.recv(timeout=300))
            if said.get("method") == "log.entryAdded" and said["params"]["level"] == "error":
                # Firefox asks for a picture of every site, and tells that the page's policy allows none
                self.errors += [said["params"]["text"]] if "favicon.ico" not in said["params"]["text"] else []
            if said.get("id") == number:
                assert said["type"] == "success", said
                return said["result"]

    def go(self, address):
        self.call("browsingContext.navigate", context=self.tab, url=address, wait="complete")
        self.settle()

    def settle(self):
        self.tell(f"({SETTLE})()")

    def tell(self, script):
        """Evaluate a script, and return its value as JSON has it."""
        found = self.call(
            "script.evaluate",
            expression=f"Promise.resolve({script}).then((it) => JSON.stringify(it ?? null))",
            target={"context": self.tab},
            awaitPromise=True,
        )
        assert found["type"] == "success", found
        return json.loads(found["result"]["value"])

    def until(self, condition):
        for _ in range(2400):
            if self.tell(condition):
                return
            time.sleep(0.05)
        raise AssertionError(condition)

    def type(self, text):
        """By keys, in the field that has the focus."""
        keys = [{"type": kind, "value": key} for key in text for kind in ("keyDown", "keyUp")]
        self.call("input.performActions", context=self.tab, actions=[{"type": "key", "id": "keys", "actions": keys}])

    def text(self, name):
        return self.tell(f"document.getElementById('{name}').textContent")


@pytest.fixture(scope="module")
def firefox(tmp_path_factory):
    pytest.importorskip("websockets")
    path = shutil.which("firefox-esr") or shutil.which("firefox")
    if path is None:
        pytest.skip("no firefox is on PATH")
    profile = tmp_path_factory.mktemp("firefox")
    words = ["--headless", "--no-remote", "--profile", str(profile), "--remote-debugging-port", "0"]
    process = subprocess.Popen([path, *words], stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)
    try:
        address = next((found[1] for line in process.stderr if (found := LISTENING.search(line))), None)
        if address is None:
            pytest.skip("this firefox speaks no WebDriver BiDi")
        yield Firefox(address)
    finally:
        process.kill()
        process.wait()


def test_every_view_follows_what_is_typed(firefox, served):
    firefox.go(served.lock.address)
    assert firefox.tell("location.href") == f"{served.origin}/" and firefox.tell("document.cookie") == ""
    assert firefox.tell("document.getElementById('typed').value") == TEXT and "9 tokens" in firefox.text("about")
    for number, view in enumerate(("heads", "model", "matrix", "neuron")):
        firefox.tell(f"document.querySelector('[data-view={view}]').click()")
        firefox.tell("(() => { const field = document.getElementById('typed'); field.focus(); field.select(); })()")
        firefox.type(f"A dog ran {number}.")
        firefox.until(f"document.title.endsWith('ran {number}.')")
        firefox.settle()
        assert "7 tokens" in firefox.text("about")
    firefox.until("document.getElementById('said').textContent.includes('query')")
    vectors = "document.getElementById('canvas').width"
    assert firefox.tell(vectors) > 0 and firefox.tell("document.getElementById('problem').hidden")
    assert firefox.errors == []


def test_earlier_texts_masks_and_models(firefox, served, small):
    firefox.go(served.lock.address)
    choose = (
        "(() => {{ const menu = document.getElementById('{}'); menu.value = {!r};"
        " menu.dispatchEvent(new Event('change')); }})()"
    )
    firefox.tell(choose.format("earlier", "1"))
    firefox.until("document.getElementById('paired').value === 'it sat'")
    firefox.until("document.getElementById('about').textContent.includes('8 tokens')")
    firefox.tell("document.querySelector('[data-mask=causal]').click()")
    firefox.tell(choose.format("model", small))
    firefox.until(f"document.title.startsWith({json.dumps(small)})")
    firefox.settle()
    assert small in firefox.text("about") and firefox.tell("document.getElementById('problem').hidden")
    assert firefox.errors == []
