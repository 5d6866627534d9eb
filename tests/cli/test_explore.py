"""attncli explore at a terminal: it begins, is left in every way, and leaves the terminal as it was."""

import contextlib
import fcntl
import os
import pty
import select
import signal
import struct
import subprocess
import sys
import termios
import time

import pytest
import shell
import typer.main
from typer.testing import CliRunner

from attncli.cli.app import app
from attncli.features import explore

ALTERNATE, BACK = b"\x1b[?1049h", b"\x1b[?1049l"
PATIENCE = 120  # seconds, on a busy machine


class AtTerminal:
    """The program at a terminal of its own, with what it wrote there."""

    def __init__(self, *arguments, columns=100, lines=30, stderr=None, **environment):
        self.terminal, other = pty.openpty()
        fcntl.ioctl(other, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
        self.before = termios.tcgetattr(other)
        self.other = other
        self.shown = b""
        self.process = subprocess.Popen(
            [sys.executable, "-m", "attncli", "explore", *arguments],
            stdin=other,
            stdout=other,
            stderr=stderr or other,
            env=shell.environment(**{"TERM": "xterm-256color", **environment}),
            start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
        )

    def until(self, *texts):
        """Read until all of these were shown."""
        end = time.monotonic() + PATIENCE
        while not all(text.encode() in self.shown for text in texts):
            assert time.monotonic() < end, self.shown[-2000:]
            self.read(0.2)

    def read(self, seconds):
        if select.select([self.terminal], [], [], seconds)[0]:
            with contextlib.suppress(OSError):
                self.shown += os.read(self.terminal, 65536)

    def press(self, keys):
        os.write(self.terminal, keys.encode())

    def end(self):
        """The exit code, once it has ended; what it still writes is read."""
        end = time.monotonic() + PATIENCE
        while self.process.poll() is None:
            assert time.monotonic() < end, self.shown[-2000:]
            self.read(0.1)
        self.read(0.1)
        return self.process.returncode

    def close(self):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        for descriptor in (self.terminal, self.other):
            with contextlib.suppress(OSError):
                os.close(descriptor)


@pytest.fixture
def at_terminal():
    made = []

    def start(*arguments, **more):
        made.append(AtTerminal(*arguments, **more))
        return made[-1]

    yield start
    for one in made:
        one.close()


@pytest.mark.slow
@pytest.mark.parametrize("leaving", ["q", "\x03", "\x11"], ids=["q", "Ctrl-C", "Ctrl-Q"])
def test_it_is_left_by_a_key_and_the_terminal_is_as_it_was(at_terminal, leaving):
    it = at_terminal("--device", "cpu", "The cat sat.")
    it.until("6 tokens", "layer 5")
    it.press(leaving)
    assert it.end() == 0
    assert it.shown.rindex(BACK) > it.shown.rindex(ALTERNATE)
    assert b"\x1b[?25h" in it.shown[it.shown.rindex(ALTERNATE) :]
    assert b"Traceback" not in it.shown
    assert termios.tcgetattr(it.other)[:4] == it.before[:4]


@pytest.mark.slow
def test_it_is_left_while_the_field_is_typed_in_and_a_model_opens(at_terminal):
    it = at_terminal("--device", "cpu", "The cat sat.")
    it.until("opening minilm")
    it.press("ihello\x03")
    assert it.end() == 0
    assert b"Traceback" not in it.shown


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_it(at_terminal, number):
    it = at_terminal("--device", "cpu", "The cat sat.")
    it.until("layer 5")
    it.process.send_signal(number)
    assert it.end() == 128 + number
    assert b"Traceback" not in it.shown
    assert it.shown.rindex(BACK) > it.shown.rindex(ALTERNATE)
    assert termios.tcgetattr(it.other)[:4] == it.before[:4]


@pytest.mark.slow
def test_no_text_commands_the_terminal(at_terminal):
    it = at_terminal("--device", "cpu", "a\x1b]0;title\x07b \u202ec \x1b[31md", "--pair", "\x1b]0;pair\x07")
    it.until("layer 5", "tokens")
    it.press("P")  # the pair, in its line
    it.until("second text")
    it.press("\x1b[200~\x1b]0;pasted\x07\x1b[201~")
    it.until("0;pasted")
    it.press("\x1b")
    it.read(1)
    it.press("\x03")
    assert it.end() == 0
    for harmful in ("\x1b]0;", "\x1b[31m", "\u202e"):
        assert harmful.encode() not in it.shown


@pytest.mark.parametrize("name", ["dumb", "unknown", ""])
def test_a_terminal_that_can_not_be_filled_is_refused_in_words(at_terminal, name):
    it = at_terminal("The cat sat.", TERM=name)
    assert it.end() == 2
    assert b"explore needs a terminal with a full screen, and this one (TERM) has none" in it.shown
    assert ALTERNATE not in it.shown


def test_a_pipe_is_refused_in_words():
    done = CliRunner().invoke(app, ["explore", "The cat sat."])
    assert "stdin is not one: use attncli run, which prints the same heads" in str(done.exception)


def test_errors_that_go_elsewhere_are_refused_there(at_terminal, tmp_path):
    with (tmp_path / "errors").open("wb") as errors:
        it = at_terminal("The cat sat.", stderr=errors)
        assert it.end() == 2
    assert b"stderr is not one: use attncli run" in (tmp_path / "errors").read_bytes()


@pytest.mark.slow
def test_a_model_that_is_not_there_is_said_before_the_screen_is_filled(at_terminal, tmp_path):
    it = at_terminal("-m", str(tmp_path / "none"), "The cat sat.")
    assert it.end() == 2
    assert b"attncli: error:" in it.shown
    assert ALTERNATE not in it.shown


def test_without_the_extra_it_says_what_to_install(monkeypatch):
    monkeypatch.setattr(explore, "_check_terminal", lambda: None)
    monkeypatch.setitem(sys.modules, "attncli.live.explorer.app", None)
    done = CliRunner().invoke(app, ["explore", "The cat sat."])
    assert 'explore needs Textual: pip install ".[live]" in ' in str(done.exception)


CHANGES = {
    "text": ["A dog."],
    "pair": ["--pair", "A dog."],
    "model": ["-m", "minilm,bert-base"],
    "layer": ["-l", "3"],
    "head": ["-H", "3"],
    "mask": ["--mask", "causal"],
    "pad_to": ["--pad-to", "20"],
    "measure": ["--measure", "norm"],
    "unit": ["--unit", "sentence"],
    "words": ["--words"],
    "engine": ["--engine", "attncli"],
    "without": ["--without", "3.1"],
    "device": ["--device", "cpu"],
    "dtype": ["--dtype", "float64"],
}


def begun(monkeypatch, *arguments):
    """Return what the explorer starts with."""
    found = []
    monkeypatch.setattr(explore, "_check_terminal", lambda: None)
    monkeypatch.setattr("attncli.live.check_models", lambda names: None)
    monkeypatch.setattr("attncli.live.explorer.app.Explorer.run", lambda self: found.append(self))
    done = CliRunner().invoke(app, ["explore", *arguments])
    assert done.exit_code == 0, done.output
    [one] = found
    return one.state, one.session.openings, one.pad_to, one.begin


@pytest.mark.parametrize("name", CHANGES)
def test_every_option_reaches_it(monkeypatch, name):
    assert begun(monkeypatch) != begun(monkeypatch, *CHANGES[name])


def test_every_option_is_tried():
    options = {one.name for one in typer.main.get_command(app).commands["explore"].params}
    assert options - {"quiet", "debug", "help", "help_all"} == set(CHANGES)
