"""Whatever somebody's code does in its process, this one gets a right answer or one clear line, and nothing goes on."""

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

from attncli.base.errors import RequestError
from attncli.checks.theirs.subjects import process as processes
from attncli.checks.theirs.subjects import wire
from attncli.checks.theirs.subjects.apart import Apart
from attncli.checks.theirs.subjects.here import Here
from attncli.checks.theirs.subjects.process import Process
from attncli.checks.theirs.subjects.subject import Answer, Call, Description, Made, Parameter, Weight

slow = pytest.mark.slow
SEES_PROCESSES = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="processes are seen in /proc")
LIMITS = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="memory is limited by Linux")
QKV = torch.randn(3, 2, 5, 8, dtype=torch.float64, generator=torch.Generator().manual_seed(0)).unbind()
RIGHT = "return torch.softmax(q @ k.mT / q.shape[-1] ** 0.5, -1) @ v"
START = "import os, sys, time, threading\nimport numpy as np\nimport torch\n\n"


def attention_that(*acts: str) -> str:
    """A file: its line 5 is the function, line 6 the first act."""
    return f"{START}def attention(q, k, v):\n" + "".join(f"    {act}\n" for act in (*acts, RIGHT))


def is_right(answer: Answer) -> bool:
    expected = torch.nn.functional.scaled_dot_product_attention(*QKV)
    return answer.error is None and len(answer.outputs) == 1 and torch.allclose(answer.outputs[0], expected)


def outcome(folder: Path, text: str, seconds: float = 60.0, gigabytes: float = 1.0) -> Answer | str:
    """What a file gives, called twice, or the line that says why it gives nothing."""
    file = folder / "mine.py"
    file.write_text(text)
    with Apart(Process(f"{file}:attention", seconds, gigabytes)) as subject:
        try:
            subject.describe()
            made = subject.make({})
            subject.fill({name: torch.ones(weight.shape) for name, weight in made.weights.items()})
            answers = [subject.call(Call(QKV, {}, "float64")) for _ in range(2)]
        except RequestError as error:
            said = str(error)
            assert len(said) <= 300 and said.isprintable()
            if subject.process.ended:
                with pytest.raises(RequestError, match=f"^{re.escape(said)}$"):
                    subject.describe()  # says it again
            return said.replace(str(folder), "").replace(processes.shown(f"{file}:attention"), "it")
    return answers[-1]


def is_gone(number: int) -> bool:
    """Whether a process has ended, or ends within a minute."""
    for _ in range(1200):
        try:
            state = Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()[0]
        except (FileNotFoundError, ProcessLookupError):
            return True
        if state in "ZX":
            return True
        time.sleep(0.05)
    return False


def test_what_has_its_number_later_is_let_be(tmp_path, monkeypatch):
    killed = []
    monkeypatch.setattr(processes.os, "killpg", lambda *which: killed.append(which))
    file = tmp_path / "mine.py"
    file.write_text("")
    process = Process(str(file), 60, 1)
    process.close()
    process.close()
    assert killed == [(process.child.pid, signal.SIGKILL)]


# --- what works -----------------------------------------------------------------------------------------

MODULE = """
import torch
from torch import nn

print("read")

class Attention(nn.Module):
    def __init__(self, d_model, heads=2, *, fill=float("-inf"), note="é"):
        super().__init__()
        self.heads = heads
        self.out = nn.Linear(d_model, d_model, bias=False)

    def forward(self, x, mask=None):
        while x.shape[0] == 13:
            pass
        print("called " * 100_000)
        return self.out(x).masked_fill(~mask, 0), {"x": x}
"""


def test_it_is_asked_as_one_in_this_process_would_be_until_its_time_is_over(tmp_path, monkeypatch):
    file = tmp_path / "mine.py"
    file.write_text(MODULE)
    process = Process(str(file), 60, 1)
    with Apart(process) as subject:
        told = subject.describe()
        assert told._replace(source="") == Description(
            "Attention",
            "class",
            (Parameter("x", "positional", True), Parameter("mask", "positional", False)),
            (
                Parameter("d_model", "positional", True),
                Parameter("heads", "positional", False, 2),
                Parameter("fill", "keyword", False, -torch.inf),
                Parameter("note", "keyword", False, "é"),
            ),
            first=7,
            file=str(file),
        )
        assert told.source == MODULE[MODULE.index("class") :]
        numbers = {"heads": 2, "out.in_features": 4, "out.out_features": 4}
        assert subject.make({"d_model": 4}) == Made({"out.weight": Weight((4, 4), "linear")}, numbers)

        weight, x = torch.randn(4, 4), torch.randn(1, 3, 4, dtype=torch.float64)
        mask = torch.tensor([[True], [False], [True]])
        subject.fill({"out.weight": weight})
        answer = subject.call(Call((x,), {"mask": mask}, "float64", cotangent=torch.ones_like(x)))
        assert torch.allclose(answer.outputs[0], (x @ weight.double().T).masked_fill(~mask, 0))
        assert torch.equal(answer.outputs[1], x) and not answer.changed
        assert torch.allclose(answer.gradients[0], weight.double().sum(0).expand_as(x) * mask)

        answer = subject.call(Call((x,), {}, "float64"))
        assert answer.error == "TypeError: bad operand type for unary ~: 'NoneType'" and answer.at == 17

        monkeypatch.setattr(processes, "GRACE", 0.2)
        process.until = time.monotonic()
        with pytest.raises(
            RequestError, match=r"^\S+mine\.py is not done after 60 s \(.*while it is called\): .*--time-l"
        ):
            subject.call(Call((torch.randn(13, 3, 4),), {"mask": mask}, "float64"))
    assert process.child.returncode == -signal.SIGKILL


# --- what it may do -------------------------------------------------------------------------------------

HARMLESS = {
    "prints megabytes": ["print('x' * 10**7); sys.stderr.write('y' * 10**7); os.write(1, b'z' * 10**6)"],
    "closes what it prints to": ["sys.stdout.close(); sys.stderr.close()"],
    "forks": ["os.fork()"],
    "forks and waits": ["if os.fork() == 0: time.sleep(1000)"],
    "has threads that do not end": ["[threading.Thread(target=time.sleep, args=(1000,)).start() for _ in range(20)]"],
    "has a thread that works on": [
        "def work():",
        "    while True: pass",
        "threading.Thread(target=work).start()",
    ],
    "starts programs": ["import subprocess; subprocess.Popen(['sleep', '1000'])"],
    "ignores signals": ["import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN)"],
    "changes the folder": ["os.chdir('/')"],
    "changes the default": ["torch.set_default_dtype(torch.float16); torch.set_grad_enabled(False)"],
    "is no program": ["pass\n    if __name__ == '__main__': os._exit(3)"],
}


@slow
@pytest.mark.parametrize("acts", HARMLESS.values(), ids=HARMLESS)
def test_what_does_no_harm(tmp_path, acts):
    assert is_right(outcome(tmp_path, attention_that(*acts)))


@slow
def test_what_has_forked_answers_once(tmp_path):
    file = tmp_path / "mine.py"
    file.write_text("import os\n\ndef attention(x):\n    os.fork()\n    return x\n")
    with Apart(Process(str(file), 60, 1)) as subject:
        subject.make({})
        answers = [subject.call(Call((torch.full((1,), float(i)),), {}, "float64")) for i in range(9)]
    assert [answer.outputs[0].item() for answer in answers] == list(range(9))


# --- what ends it ---------------------------------------------------------------------------------------

CALLED = {
    "crashes": ("import ctypes; ctypes.string_at(0)", "it crashes by SIGSEGV (line 6, while it is called): that is to"),
    "aborts": ("os.abort()", "it crashes by SIGABRT (line 6, while it is called): that is to be mended first"),
    "is killed": ("os.kill(os.getpid(), 9)", "it is killed (while it is called): had the machine no more memory?"),
    "ends": (
        "print('good\\x1b[31mbye'); os._exit(3)",
        r"it ends its process (while it is called): what does that, os._exit(3)?, is to be taken out; its last words: "
        r"good\x1b[31mbye",
    ),
    "closes files": (
        "os.closerange(0, 4096)",
        "it closes pipes that are not its own (while it is called): without them it can't answer",
    ),
    "writes to our pipes": (
        "for n in range(3, 20):\n        try: os.write(n, b'\\xff' * 64)\n        except OSError: pass",
        "it answers what is no answer (while it is called): a message of 18446744073709551615 bytes. What writes to",
    ),
    "patches json": (
        "import json; json.dumps = lambda *a, **k: 'lie'",
        "it answers what is no answer (while it is called): Expecting value: line 1 column 1 (char 0). What writes",
    ),
    "patches torch": (
        "torch.Tensor.detach = lambda *a: 1 / 0",
        "attention can't be run: ZeroDivisionError: division by zero (line 6)",
    ),
    "raises what is no Exception": ("raise KeyboardInterrupt", "attention can't be run: KeyboardInterrupt (line 6)"),
    "leaves another behind that holds our pipes": (
        "os.fork() == 0 and (os.setsid(), time.sleep(8)); os._exit(4)",
        "it ends its process (while it is called): what does that, os._exit(4)?, is to be taken out",
    ),
}


@slow
@pytest.mark.parametrize(("act", "said"), CALLED.values(), ids=CALLED)
def test_what_ends_it_is_told(tmp_path, act, said):
    assert outcome(tmp_path, attention_that(act)).startswith(said)


OPENED = {
    "raises": ("raise ValueError('odd\\nand more')", "/mine.py can't be run: ValueError: odd (line 1)"),
    "is no Python": ("def f(:", "/mine.py can't be read: SyntaxError: invalid syntax (line 1)"),
    "exits": ("exit()", "/mine.py can't be run: it ends itself by sys.exit() (line 1)"),
    "ends": ("import os; os._exit(5)", "it ends its process (while it is opened): what does that, os._exit(5)?, is"),
    "crashes": ("\nimport ctypes; ctypes.string_at(0)", "it crashes by SIGSEGV (line 2, while it is opened): that is"),
    "has another name": ("def other(): pass", "/mine.py has no 'attention': it has other"),
    "has an int of that name": ("attention = 3", "it is no function, class or module, but of type int"),
    "cannot be made": (
        "class attention:\n    def __init__(self): raise ValueError('odd')\n    def __call__(self): pass",
        "attention can't be made: ValueError: odd (line 2)",
    ),
    "takes it all": (
        "import torch\nx = torch.ones(25 * 10**9)",
        "/mine.py can't be run: it takes more than 1 GB of memory: --memory-limit GB gives it more (line 2)",
    ),
}


@slow
@pytest.mark.parametrize(("text", "said"), OPENED.values(), ids=OPENED)
def test_what_cannot_be_opened_is_told(tmp_path, text, said):
    answer = outcome(tmp_path, text).replace("…", "")
    assert answer[answer.index("/mine.py") if said.startswith("/") else 0 :].startswith(said)


ERRORS = {
    "exits": ("sys.exit(3)", "it ends itself by sys.exit(3)"),
    "reads": ("input()", "EOFError: EOF when reading a line"),
    "calls itself for ever": ("attention(q, k, v)", "RecursionError: maximum recursion depth exceeded"),
}
LARGE = {
    "torch's": "torch.empty(25 * 10**9)",
    "numpy's": "np.ones(10**10)",
    "bit by bit": "[bytearray(10**6) for _ in range(10**5)]",
    "as an answer": "return torch.zeros(1).expand(10**12)",
}


@slow
@LIMITS
@pytest.mark.parametrize(("act", "said"), ERRORS.values(), ids=ERRORS)
def test_an_error_is_its_answer(tmp_path, act, said):
    assert outcome(tmp_path, attention_that(act)) == Answer(error=said, at=6)


@slow
@pytest.mark.parametrize("act", [pytest.param(act, id=name) for name, act in LARGE.items()])
def test_what_takes_100_gb_is_stopped(tmp_path, act):
    said = "it stops: it takes more than 1 GB of memory: --memory-limit GB gives it more"
    assert outcome(tmp_path, attention_that(act)) == said


@slow
def test_weights_that_it_deletes_are_missed_by_itself(tmp_path):
    text = f"""{START}class attention(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.w = torch.nn.Linear(8, 8)

    def forward(self, q, k, v):
        x = self.w(q)
        del self.w
        return x
"""
    assert outcome(tmp_path, text) == Answer(error="AttributeError: 'attention' object has no attribute 'w'", at=11)


@slow
def test_tensors_that_have_no_numbers_are_an_error(tmp_path):
    answer = outcome(tmp_path, f"{START}def attention(q, k, v):\n    return q.to('meta')\n")
    assert answer.error and answer.outputs == ()


@slow
def test_sparse_tensors_are_read(tmp_path):
    answer = outcome(tmp_path, f"{START}def attention(q, k, v):\n    return q.to_sparse()\n")
    assert answer.error is None and not answer.outputs[0].is_sparse


LOOPS = {
    "opened": ("while True: pass", 1, "opened"),
    "opened, a maker": ("def attention():\n    while True: pass", 2, "opened"),
    "made": ("class attention:\n    def __init__(self):\n        while True: pass\n    __call__ = print", 3, "made"),
    "called": (attention_that("while True: pass"), 6, "called"),
    "called, prints": (attention_that("while True: print('x' * 1000)"), 6, "called"),
    "called, in C": (attention_that("import re; re.match('(a+)+$', 'a' * 60 + 'b')"), 6, "called"),
    "called, sleeps": (attention_that("time.sleep(1000)"), 6, "called"),
}


@slow
@pytest.mark.parametrize(("text", "line", "doing"), LOOPS.values(), ids=LOOPS)
def test_what_has_no_end_is_ended(tmp_path, text, line, doing):
    for seconds in (6, 30, 120):  # a busy machine takes so long to import torch
        said = outcome(tmp_path, text, seconds)
        if f"(line {line}, while it is {doing})" in str(said):
            break
    assert said == (
        f"it is not done after {seconds} s (line {line}, while it is {doing}): is it a loop without end? "
        "--time-limit SECONDS gives it longer"
    )


@slow
@pytest.mark.parametrize(
    "act",
    [
        "import faulthandler; faulthandler.cancel_dump_traceback_later()\n    while True: pass",
        "import signal; os.kill(os.getpid(), signal.SIGSTOP)",
    ],
)
def test_what_will_not_be_ended_is_killed(tmp_path, act):
    for seconds in (5, 30, 120):  # as above
        said = outcome(tmp_path, attention_that(act), seconds)
        if "(while it is called)" in str(said):
            break
    assert said.startswith(f"it is not done after {seconds} s (while it is called): is it a loop")


# --- what is left ---------------------------------------------------------------------------------------


@slow
@SEES_PROCESSES
def test_nothing_that_it_started_goes_on(tmp_path):
    text = attention_that(
        "import subprocess; other = subprocess.Popen(['sleep', '1000'])",
        f"open({str(tmp_path / 'numbers')!r}, 'a').write(f'{{os.getpid()}} {{other.pid}} ')",
    )
    assert is_right(outcome(tmp_path, text))
    numbers = (tmp_path / "numbers").read_text().split()
    assert len(numbers) == 4 and all(is_gone(int(number)) for number in numbers)


ASKING = """
import sys
from attncli.checks.theirs.subjects.process import Process
process = Process(sys.argv[1], 60)
from attncli.checks.theirs.subjects.apart import Apart
with Apart(process) as subject:
    print(process.child.pid, flush=True)
    subject.describe()
"""


@slow
@SEES_PROCESSES
@pytest.mark.parametrize("by", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_it_ends_with_whoever_asks(tmp_path, by):
    file = tmp_path / "mine.py"
    file.write_text(f"open({str(tmp_path / 'begun')!r}, 'w')\nwhile True: pass\n")
    asking = subprocess.Popen(
        [sys.executable, "-c", ASKING, f"{file}:f"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    with asking:
        number = int(asking.stdout.readline())
        while not (tmp_path / "begun").exists():
            time.sleep(0.05)
        os.kill(asking.pid, by)
        _, said = asking.communicate(timeout=300)
    assert asking.returncode == -by and is_gone(number)
    assert ("KeyboardInterrupt" in said) == (by == signal.SIGINT)


@slow
def test_nothing_of_the_folder_that_one_is_in_is_run(tmp_path, monkeypatch):
    """It is asked for by nobody, though Python would look there first."""
    for name in ("torch", "json", "attncli", "queue", "sitecustomize"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('run')")
    (tmp_path / "mine").mkdir()
    monkeypatch.chdir(tmp_path)
    assert is_right(outcome(tmp_path / "mine", attention_that("pass")))


@slow
def test_no_accelerator_is_seen_and_one_thread_is_used(tmp_path, monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")
    monkeypatch.setenv("OMP_NUM_THREADS", "2")
    told = "torch.tensor([len(os.environ['CUDA_VISIBLE_DEVICES']), torch.get_num_threads()])"
    assert outcome(tmp_path, f"{START}def attention(q, k, v):\n    return {told}\n").outputs[0].tolist() == [0, 1]


# --- what it answers ------------------------------------------------------------------------------------


class Lying:
    """A process that answers this."""

    what = "mine.py"
    gigabytes = 4.0
    no_answer = Process.no_answer

    def __init__(self, answer: object) -> None:
        self.answer = answer if isinstance(answer, bytes) else wire.pack(answer)

    def ask(self, request: bytes, doing: str) -> bytes:
        return self.answer


ANSWER = Answer((QKV[0],))._asdict()
TOLD = Here(lambda q: q).describe()._asdict()
LIES = [
    ("call", b""),
    ("call", b"\xff" * 100),
    ("call", None),
    ("call", {}),
    ("call", {"answer": None}),
    ("call", {"answer": ANSWER, "refused": "no"}),
    ("call", {"answer": ANSWER | {"outputs": [3]}}),
    ("call", {"answer": ANSWER | {"outputs": QKV[0]}}),
    ("call", {"answer": ANSWER | {"changed": "yes"}}),
    ("call", {"answer": ANSWER | {"at": 0}}),
    ("call", {"answer": ANSWER | {"at": True}}),
    ("call", {"answer": ANSWER | {"error": 3}}),
    ("call", {"answer": ANSWER | {"more": 3}}),
    ("describe", {"answer": TOLD | {"kind": "trap"}}),
    ("describe", {"answer": TOLD | {"name": "\x1b[31m"}}),
    ("describe", {"answer": TOLD | {"source": "x" * 1_000_001}}),
    ("describe", {"answer": TOLD | {"call": [Parameter("x", "odd", True)]}}),
    ("describe", {"answer": TOLD | {"call": [Parameter("x", "many", True)] * 10_001}}),
    ("describe", {"answer": TOLD | {"call": [Parameter("x", "many", True, [])]}}),
    ("make", {"answer": {"weights": {"w": {"shape": [-1], "owner": ""}}, "numbers": {}}}),
    ("make", {"answer": {"weights": {"\n": {"shape": [1], "owner": ""}}, "numbers": {}}}),
    ("make", {"answer": {"weights": [], "numbers": {}}}),
    ("make", {"answer": {"weights": {}, "numbers": {"heads": True}}}),
    ("fill", {"answer": 3}),
]
KNOWN = {"call": [Call(QKV, {}, "float64")], "describe": [], "make": [{}], "fill": [{}]}


@pytest.mark.parametrize(("verb", "lie"), LIES)
def test_a_lie_is_one_clear_line(verb, lie):
    with pytest.raises(RequestError, match=r"^mine\.py answers what is no answer \(while it.*\): \S") as refused:
        getattr(Apart(Lying(lie)), verb)(*KNOWN[verb])
    assert len(str(refused.value)) <= 300 and str(refused.value).isprintable()


def test_what_it_says_is_cut_and_harmless():
    with pytest.raises(RequestError) as refused:
        Apart(Lying({"refused": "\x1b[31m\n" * 1000})).describe()
    assert len(str(refused.value)) == 300 and str(refused.value).isprintable()
    answer = Apart(Lying({"answer": ANSWER | {"error": "\x1b[31m\n" * 100}})).call(*KNOWN["call"])
    assert len(answer.error) == 200 and answer.error.isprintable()
