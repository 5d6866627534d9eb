"""attncli serve: what it prints and how it ends, in a process of its own; and what its options come to."""

import http.client
import re
import signal
import socket
import subprocess
import sys

import pytest
import typer
from shell import environment

from attncli.cli.app import app
from attncli.live.server import running

TEXT = "the cat sat on it"
ADDRESS = re.compile(r"http://127\.0\.0\.1:(\d+)/\?token=([\w-]{20,})\n")


@pytest.fixture(scope="module")
def model(tiny):
    return str(tiny("bert"))


@pytest.fixture
def begun(tmp_path):
    """`begun(option, ...)` -> the process, and the line that it prints first."""
    processes = []

    def begin(*arguments):
        command = [sys.executable, "-m", "attncli", "serve", *map(str, arguments)]
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment(), cwd=tmp_path
        )
        processes.append(process)
        return process, process.stdout.readline()

    yield begin
    for process in processes:
        process.kill()
        process.wait()


def answered(port, path):
    client = http.client.HTTPConnection("127.0.0.1", port, timeout=300)
    client.request("GET", path)
    status = client.getresponse().status
    client.close()
    return status


@pytest.mark.slow
@pytest.mark.parametrize(("ending", "code"), [("SIGINT", 0), ("SIGTERM", 143)])
def test_it_prints_its_address_as_soon_as_it_answers_and_ends_in_order(begun, model, ending, code):
    process, line = begun("-m", model, TEXT)
    port, token = ADDRESS.fullmatch(line).groups()
    assert answered(int(port), f"/?token={token}") == 303 and answered(int(port), "/") == 403
    process.send_signal(getattr(signal, ending))
    out, err = process.communicate(timeout=300)
    assert (process.returncode, out) == (code, "")
    assert err == "attncli: open this address; Ctrl-C ends the server\n"


@pytest.mark.slow
def test_ctrl_c_ends_it_while_somebody_is_connected(begun, model):
    process, line = begun("-m", model, TEXT)
    port = int(ADDRESS.fullmatch(line)[1])
    with socket.create_connection(("127.0.0.1", port)) as idle, socket.create_connection(("127.0.0.1", port)) as half:
        half.sendall(b"GET / HTTP/1.1\r\n")
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=300)
        assert process.returncode == 0 and "Traceback" not in err
        assert idle.recv(10) == b""


def test_a_port_in_use_is_one_line(refused, tmp_path):
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        line = refused("serve", "--port", port, "-m", tmp_path / "no-model", TEXT)
    assert f"port {port} is in use: use another --port, or omit it to find a free one" in line


@pytest.mark.parametrize("missing", ["starlette", "uvicorn"])
def test_what_is_not_installed_is_said(refused, monkeypatch, missing):
    monkeypatch.setitem(sys.modules, missing, None)
    assert 'attncli serve needs starlette and uvicorn: pip install ".[live]" in ' in refused("serve", TEXT)


# --- what the options come to ---------------------------------------------------------------------------

LINES = "the cat sat\nit is big\n"
# For every option values that are not its default, and what of the server they change.
CHANGES = {
    "text": (("the big cat",), lambda made: made.texts[0].text == "the big cat"),
    "pair": (("--pair", "it is"), lambda made: made.texts[0].pair == "it is"),
    "file": (("-f", "lines.txt"), lambda made: [one.text for one in made.texts] == LINES.splitlines()),
    "whole": (("-f", "lines.txt", "--whole"), lambda made: [one.text for one in made.texts] == [LINES.strip()]),
    "model": (("-m", "{model},minilm"), lambda made: len(made.names) == 2),
    "masks": (("--mask", "none,causal"), lambda made: made.masks == ("none", "causal")),
    "measure": (("--measure", "norm"), lambda made: made.request.measure == "norm"),
    "unit": (("--unit", "sentence"), lambda made: made.request.grouping.unit == "sentence" and not made.words),
    "engine": (("--engine", "attncli"), lambda made: made.session.openings[0].engine == "attncli"),
    "without": (("--without", "0.1"), lambda made: made.session.openings[0].without == "0.1"),
    "device": (("--device", "cpu"), lambda made: made.session.openings[0].device == "cpu"),
    "dtype": (("--dtype", "float64"), lambda made: made.session.openings[0].dtype == "float64"),
    "host": (("--host", "localhost"), lambda made: made.host == "localhost"),
    "port": (("--port", "{port}"), lambda made: made.port == made.wanted),
    "open_it": (("--open",), lambda made: bool(made.opened)),
}


@pytest.fixture
def made(attncli, model, monkeypatch, tmp_path):
    """`made(option, ...)` -> the site that the server would be of, with where it listens."""
    (tmp_path / "lines.txt").write_text(LINES, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    opened = []
    monkeypatch.setattr("webbrowser.open", lambda address: opened.append(address) or True)

    def make(*arguments):
        found = []
        opened.clear()

        def instead(site, listening, host):
            with listening:
                yield "http://there/"
                found.append((site, listening.getsockname()[1], host))
            site.close()

        monkeypatch.setattr(running, "serve", instead)
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            wanted = free.getsockname()[1]
        words = [word.format(model=model, port=wanted) for word in arguments]
        usual = ("-m", model) if "-m" not in arguments else ()
        result = attncli("serve", *usual, *words, *(() if "-f" in words or "big cat" in " ".join(words) else (TEXT,)))
        assert result.code == 0 and result.out == "http://there/\n", result.err
        [(site, port, host)] = found
        for name, value in {"host": host, "port": port, "wanted": wanted, "opened": list(opened)}.items():
            object.__setattr__(site, name, value)
        return site

    return make


def test_every_option_is_tried():
    root = typer.main.get_command(app)
    command = root.get_command(typer.Context(root), "serve")
    assert {one.name for one in command.params} - {"help", "quiet", "debug"} == set(CHANGES)


@pytest.mark.parametrize("option", CHANGES)
def test_every_option_changes_something(made, option):
    given, is_so = CHANGES[option]
    assert is_so(made(*given)) and not (option != "text" and is_so(made()))


def test_no_browser_that_can_be_opened_is_told(attncli, model, monkeypatch):
    monkeypatch.setattr("webbrowser.open", lambda _: False)
    monkeypatch.setattr(running, "serve", lambda site, listening, host: ["http://there/"])
    assert "open the address yourself" in attncli("serve", "-m", model, "--open", TEXT).err
    assert attncli("serve", "-q", "-m", model, TEXT).err == ""
