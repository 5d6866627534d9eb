"""Measure how long a large corpus takes, by who counts it.

    python tests/corpus_bench.py --lines 1000000            one process, 1 and 2 workers, Ray: seconds, tokens, memory
    python tests/corpus_bench.py --empty 2000               what an engine itself takes, for each shard

Every run goes through `attncli stats`, and what they print is compared byte for byte.
"""

import argparse
import hashlib
import json
import random
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

from measuring import processor

ENGINES = {
    "this process": (),
    "1 worker": ("--workers", "1"),
    "2 workers": ("--workers", "2"),
    "Ray, 2 workers": ("--on", "ray", "--workers", "2"),
}
SAMPLES = Path(__file__).parents[1] / "sample_inputs"


def corpus(path: Path, lines: int, longest: int) -> None:
    """Lines of words of the sample texts, drawn by chance; their lengths are those of short sentences."""
    words = sorted({word for file in SAMPLES.glob("*.txt") for word in file.read_text("utf-8").split()})
    draw = random.Random(0)
    with path.open("w", encoding="utf-8") as file:
        for _ in range(lines):
            file.write(" ".join(draw.choices(words, k=draw.randint(2, longest))) + "\n")


def timed(command: list[str]) -> tuple[float, bytes, int, int]:
    """Seconds, what it printed, and the most memory in MB of itself and of the largest process that it started."""
    most = {"driver": 0, "worker": 0}
    began = time.perf_counter()
    child = subprocess.Popen(command, stdout=subprocess.PIPE)
    over = threading.Event()

    def watch() -> None:
        while not over.wait(0.25):
            rows = [
                line.split()
                for line in subprocess.run(
                    ["ps", "-eo", "pid,ppid,rss"], capture_output=True, text=True, check=True
                ).stdout.splitlines()[1:]
            ]
            sizes = {int(pid): int(rss) // 1024 for pid, _, rss in rows}
            family = {child.pid}
            for _ in range(6):
                family |= {int(pid) for pid, parent, _ in rows if int(parent) in family}
            most["driver"] = max(most["driver"], sizes.get(child.pid, 0))
            most["worker"] = max([most["worker"], *(sizes[pid] for pid in family - {child.pid} if pid in sizes)])

    watching = threading.Thread(target=watch)
    watching.start()
    out, _ = child.communicate()
    took = time.perf_counter() - began
    over.set()
    watching.join()
    if child.returncode:
        raise SystemExit(f"{' '.join(command)} ended with {child.returncode}")
    return took, out, most["driver"], most["worker"]


def engines(lines: int, longest: int, shard_mb: float, model: str, names: list[str]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "corpus.txt"
        corpus(path, lines, longest)
        print(f"{lines:,} lines, {path.stat().st_size / 2**20:.1f} MB, shards of {shard_mb:g} MB, {model}", processor())
        print(f"{'':16} {'seconds':>8} {'tokens/s':>9} {'driver MB':>10} {'worker MB':>10}  printed")
        for name in names:
            command = [
                sys.executable,
                "-m",
                "attncli",
                "stats",
                "-m",
                model,
                "--json",
                "--shard-mb",
                str(shard_mb),
                *ENGINES[name],
                str(path),
            ]
            took, out, driver, worker = timed(command)
            tokens = json.loads(out)["tokens"]
            digest = hashlib.sha256(out).hexdigest()[:12]
            print(f"{name:16} {took:8.1f} {tokens / took:9,.0f} {driver:10,} {worker or '':>10}  {digest}", flush=True)


def empty(shards: int) -> None:
    """Print the overhead of each engine: shards with next to nothing in them; workers start during the first one."""
    from counted_words import ListedWords

    from attncli.corpus.running import Where, go_through
    from attncli.corpus.texts import TextFormat

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "corpus.txt"
        path.write_text("one\n" * shards)
        wheres = {"this process": {}, "2 workers": {"workers": 2}, "Ray, 2 workers": {"on": "ray", "workers": 2}}
        print(f"{shards:,} shards of a word; {processor()}")
        for name, where in wheres.items():
            times: list[float] = []
            began = time.perf_counter()
            for keep in (None, str(Path(folder) / name)):
                place = Where(**where, state=keep, shard_bytes=4)
                work, texts = ListedWords(), TextFormat().texts([str(path)])
                times = []
                began = time.perf_counter()
                go_through(work, texts, place, lambda now: times.append(time.perf_counter()))  # noqa: B023
                each = (times[-1] - times[0]) / (shards - 1) * 1e3
                kept = "kept" if keep else "not kept"
                print(
                    f"{name:16} {kept:9} begins in {times[0] - began:5.1f} s, then {each:6.2f} ms a shard", flush=True
                )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lines", type=int)
    parser.add_argument("--longest", type=int, default=40, help="words of a line at the most")
    parser.add_argument("--empty", type=int)
    parser.add_argument("--shard-mb", type=float, default=1.0)
    parser.add_argument("-m", "--model", default="minilm")
    parser.add_argument("--engines", nargs="*", default=list(ENGINES))
    options = parser.parse_args()
    if options.lines:
        engines(options.lines, options.longest, options.shard_mb, options.model, options.engines)
    if options.empty:
        empty(options.empty)
