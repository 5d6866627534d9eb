"""Count statistics over a corpus in a process of its own: python tests/bench/corpus_peak.py MODEL FILE DEVICE

Prints JSON: how many tokens were counted, the seconds that took, and the process's peak of resident memory in bytes
(null where the system does not tell).
"""

import json
import sys
import time

from attncli.checks.memory import process_peak
from attncli.corpus.files import whole_files
from attncli.corpus.finding import find_inputs
from attncli.corpus.reducer import Reducer
from attncli.corpus.texts import Reading
from attncli.models.loading import load_model


def main(name: str, path: str, device: str) -> None:
    model = load_model(name, device)
    reducer = Reducer(model)
    begun = time.perf_counter()
    sums = reducer.reduce(Reading().windows(whole_files(find_inputs([path])), model.tokenizer))
    seconds = time.perf_counter() - begun
    json.dump({"tokens": sums.queries, "seconds": seconds, "peak_bytes": process_peak()}, sys.stdout)


if __name__ == "__main__":
    main(*sys.argv[1:])
