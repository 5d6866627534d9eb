"""A cluster that is not there: what is waited for is said first, and it is not waited for long."""

import socket
import subprocess
import sys
import threading
import warnings

import pytest
from shell import environment

from attncli import Notice, RequestError
from attncli.corpus import on_ray
from attncli.corpus.running import Where


@pytest.fixture(autouse=True)
def nothing_known(monkeypatch):
    """No cluster was found before, and none is named by the surroundings."""
    on_ray.check_cluster.cache_clear()
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    monkeypatch.delitem(sys.modules, "ray", raising=False)


@pytest.fixture
def closed():
    """A port of this machine at which nothing listens."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    return port


def test_a_cluster_that_is_not_there_is_named(closed):
    with (
        pytest.warns(Notice, match=f"^waiting for Ray at ray://127.0.0.1:{closed}$"),
        pytest.raises(RequestError, match=f"can't reach Ray at ray://127.0.0.1:{closed}: Connection refused: start"),
    ):
        Where(on=f"ray://127.0.0.1:{closed}").check([])


def test_a_cluster_that_the_surroundings_name_is_one(closed, monkeypatch):
    monkeypatch.setenv("RAY_ADDRESS", f"127.0.0.1:{closed}")
    with (
        pytest.warns(Notice, match="waiting for Ray"),
        pytest.raises(RequestError, match=f"can't reach Ray at 127.0.0.1:{closed}"),
    ):
        Where(on="ray").check([])


@pytest.mark.parametrize("step", ["getaddrinfo", "create_connection"])
def test_a_host_that_does_not_answer_is_given_up(step, monkeypatch):
    """Looking its name up, and connecting to it, may take for ever."""
    over = threading.Event()

    def wait(*_, **__):
        over.wait()
        raise OSError("too late")

    monkeypatch.setattr(socket, step, wait)
    monkeypatch.setattr(on_ray, "REACHED", 0.1)
    try:
        with (
            pytest.warns(Notice, match="waiting for Ray at ray://nope:1"),
            pytest.raises(RequestError, match=r"can't reach Ray at ray://nope:1: it does not answer within 0\.1 s"),
        ):
            Where(on="ray://nope:1").check([])
    finally:
        over.set()


def test_a_cluster_that_answers_is_asked_once():
    with socket.create_server(("127.0.0.1", 0)) as server:
        where = Where(on=f"ray://127.0.0.1:{server.getsockname()[1]}")
        with pytest.warns(Notice, match="waiting for Ray"):
            where.check_cluster()
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            where.check([])


@pytest.mark.parametrize(
    "address",
    [
        "ray://",
        "ray://[x",
        "ray://host:99999",
        "ray://:5",
        "ray://a:b:c",
        "ray://a..b:10001",
        "ray://.:4",
        "ray://ü..x",
        f"ray://{'a' * 64}:1",
        f"ray://b.{'ü' * 60}.c:1",
    ],
)
def test_what_is_no_address_is_refused(address):
    with pytest.raises(RequestError, match="is no address of a Ray cluster: give ray://HOST:PORT"):
        Where(on=address).check([])


@pytest.mark.slow
def test_what_is_no_cluster_and_takes_connections_is_given_up(tmp_path):
    """Ray's client would wait for 35 s. What is waited for is said before."""
    pytest.importorskip("ray")
    (tmp_path / "a.txt").write_text("the cat\n")
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"ray://127.0.0.1:{silent.getsockname()[1]}"
        command = [sys.executable, "-m", "attncli", "stats", "--on", address, "a.txt"]
        done = subprocess.run(command, cwd=tmp_path, env=environment(), capture_output=True, text=True, check=False)
    first, last = done.stderr.splitlines()
    assert (done.returncode, done.stdout, first) == (2, "", f"attncli: waiting for Ray at {address}")
    assert last.startswith(f"attncli: error: can't reach Ray at {address}: ")
