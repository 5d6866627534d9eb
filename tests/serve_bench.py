"""Measure how fast the server of the page answers: python tests/serve_bench.py [--threads N]

minilm's published weights; each answer is of a text that it has not seen, asked for over one connection as a page
does, and read to its end. Median and worst of 50, in milliseconds, for texts of 16, 64, 128 and 512 tokens, with and
without q and k; of them how long the model takes, and describing what it made.
"""

import argparse
import http.client
import json
import statistics
import time

import torch
from measuring import processor
from serving import LOOK, TEXT, Served, serving

from attncli.live import Session
from attncli.live.server import app as answers
from attncli.live.server.app import Site, Wish
from attncli.live.session import Watch
from attncli.models.opening import Opening
from attncli.record.selection import Input

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
    print(f"{processor()}, {asked.threads} threads, median and worst of {asked.rounds}, ms")
    print(f"{'tokens':>6} {'q and k':>7} {'answer':>15} {'model':>15} {'described':>15} {'bytes':>10}")
    for tokens in TOKENS:
        for head in (None, (3, 1)):
            with serving(Site(Session([Opening("minilm", "cpu")]), (Input(TEXT),))) as server:
                measure(server, tokens, head, asked.rounds)


def measure(server: Served, tokens: int, head: tuple[int, int] | None, rounds: int) -> None:
    client, site = http.client.HTTPConnection(server.host, timeout=60), server.site
    whole, model, described, size = [], [], [], 0
    for number in range(rounds + WARM):
        begun = time.perf_counter()
        size = len(look(client, server, text_of(tokens, number), head))
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


def look(client: http.client.HTTPConnection, server: Served, text: str, head: tuple[int, int] | None) -> bytes:
    headers = {"Origin": server.origin, "Cookie": server.cookie}
    client.request("POST", "/look", json.dumps({**LOOK, "text": text, "head": head}), headers)
    response = client.getresponse()
    assert response.status == 200
    return response.read()


def since(begun: float) -> float:
    """Milliseconds."""
    return 1000 * (time.perf_counter() - begun)


if __name__ == "__main__":
    main()
