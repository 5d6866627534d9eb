"""How fast the server of the page answers: python tests/serve_bench.py [--threads N]

minilm's published weights; each answer is of a text that it has not seen, asked for over one connection as a page
does, and read to its end. Median and worst of 50, in milliseconds, for texts of 16, 64, 128 and 512 tokens, with and
without q and k; of them how long the model takes, and describing what it made.
"""

import argparse
import asyncio
import http.client
import json
import statistics
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import torch

from attncli.checks.machine import processor
from attncli.live import Session
from attncli.live.newest import Watch
from attncli.live.server import answers
from attncli.live.server.asking import Wish
from attncli.live.server.guard import Lock
from attncli.live.server.running import bind, server_of
from attncli.live.server.site import Site
from attncli.models.opening import Opening
from attncli.record.request import Input

TOKENS = (16, 64, 128, 512)
WORDS = ("the", "cat", "sat", "on", "a", "mat", "and", "it", "was")
ROUNDS = 50
WARM = 3


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--threads", type=int, help="of torch", default=torch.get_num_threads())
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    asked = parser.parse_args()
    torch.set_num_threads(asked.threads)
    print(f"{processor()[0]}, {asked.threads} threads, median and worst of {asked.rounds}, ms")
    print(f"{'tokens':>6} {'q and k':>7} {'answer':>15} {'model':>15} {'described':>15} {'bytes':>10}")
    for tokens in TOKENS:
        for head in (None, (3, 1)):
            with served() as (site, lock):
                measure(site, lock, tokens, head, asked.rounds)


def measure(site: Site, lock: Lock, tokens: int, head: tuple[int, int] | None, rounds: int) -> None:
    client = http.client.HTTPConnection("127.0.0.1", lock.port, timeout=60)
    whole, model, described, size = [], [], [], 0
    for number in range(rounds + WARM):
        begun = time.perf_counter()
        size = len(look(client, lock, text_of(tokens, number), head))
        whole.append(since(begun))
        wish = Wish("", site.session.models[0], Input(text_of(tokens, number + rounds + WARM)), head, False)
        begun = time.perf_counter()
        answers.records_of(site, wish, Watch())
        model.append(since(begun))
        begun = time.perf_counter()
        answers.answer(site, wish, Watch())  # of records that are there
        described.append(since(begun))
    columns = [f"{statistics.median(one[WARM:]):6.1f} {max(one[WARM:]):8.1f}" for one in (whole, model, described)]
    print(f"{tokens:6} {'yes' if head else 'no':>7} {columns[0]} {columns[1]} {columns[2]} {size:10,}")


def text_of(tokens: int, number: int) -> str:
    """A text of so many tokens, unlike the others."""
    return " ".join([str(number), *(WORDS[place % len(WORDS)] for place in range(tokens - 3))])


def look(client: http.client.HTTPConnection, lock: Lock, text: str, head: tuple[int, int] | None) -> bytes:
    origin = f"http://127.0.0.1:{lock.port}"
    asked = {"whose": "bench", "model": "minilm", "text": text, "pair": None, "head": head, "fresh": False}
    headers = {"Origin": origin, "Cookie": f"{lock.cookie}={lock.key}"}
    client.request("POST", "/look", json.dumps(asked), headers)
    response = client.getresponse()
    assert response.status == 200
    return response.read()


def since(begun: float) -> float:
    """Milliseconds."""
    return 1000 * (time.perf_counter() - begun)


@contextmanager
def served(texts: tuple[Input, ...] = (Input("The cat sat on the mat."),)) -> Iterator[tuple[Site, Lock]]:
    """A server of the default model, in a thread of this process."""
    site = Site(Session([Opening("minilm", "cpu")]), texts)
    listening = bind("127.0.0.1", 0)
    lock = Lock("127.0.0.1", listening.getsockname()[1])
    server = server_of(site, lock)
    thread = threading.Thread(target=lambda: asyncio.run(server.serve([listening])), daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    yield site, lock
    server.should_exit = True
    thread.join()
    site.close()


if __name__ == "__main__":
    main()
