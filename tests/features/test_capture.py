"""attncli capture: a program of the user's own, whose attention is shown."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from shell import environment

import attncli
from attncli.models.hub import locate

PROGRAM = """
import sys
import torch
from transformers import AutoModel

print("reading", *sys.argv[1:], __name__)
network = AutoModel.from_pretrained({path!r}).eval()
with torch.no_grad():
    network(torch.tensor([[101, 1996, 4937, 2938, 1012, 102]]))
sys.exit(3)
"""


@pytest.fixture
def program(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = Path("own.py")
    path.write_text(PROGRAM.format(path=str(locate("minilm").path)))
    return path


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "attncli", "capture", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, env=environment())


@pytest.mark.slow
def test_a_program_runs_as_it_is_and_its_maps_are_those_of_attncli(program, minilm):
    done = run("-o", "maps.npz", "--tokenizer", "minilm", str(program), "-l", "--odd", "x")
    assert done.returncode == 3
    assert done.stdout == "reading -l --odd x __main__\nmaps.npz\n"
    record = attncli.load_record("maps.npz")
    expected = minilm.attend("The cat sat.")
    np.testing.assert_allclose(record.weights, expected.weights, atol=1e-5)
    assert record.tokens.text == expected.tokens.text


SMALL = """
import torch
layer = torch.nn.TransformerEncoderLayer(8, 2, 8)
print("reading")
torch.nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)(torch.randn(3, 1, 8))
"""


@pytest.fixture
def small(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("small.py").write_text(SMALL)
    return "small.py"


def test_a_document_stands_alone_on_stdout(small):
    done = run("--json", "-l", "1", "-H", "0", small)
    [found] = json.loads(done.stdout)["records"][0]["attention"]
    assert (found["layer"], found["head"], np.shape(found["weights"])) == (1, 0, (3, 3))
    assert done.stderr == "reading\n"


@pytest.mark.slow
def test_modules_are_listed_and_a_head_is_drawn(small):
    listed = run(small).stdout
    assert listed.startswith("reading\nsmall.py · 2 attentions · encoder: 2 layers, 2 heads, 3 x 3\n")
    assert "layers.1.self_attn" in listed
    assert "weight 0" in run("-l", "1", "-H", "0", small).stdout
    assert run("--measure", "norm", small).stdout.startswith("reading\nsmall.py · share of norm · ")


@pytest.mark.parametrize(
    ("text", "code", "expected"),
    [
        ("import torch\n1 / 0", 1, "ZeroDivisionError: division by zero"),
        ("raise SystemExit('enough')", 1, "enough"),
        ("print('nothing')", 0, ""),
    ],
)
@pytest.mark.slow
def test_a_program_that_ends_early_says_what_it_says_to_python(tmp_path, monkeypatch, text, code, expected):
    monkeypatch.chdir(tmp_path)
    Path("own.py").write_text(text)
    done = run("own.py")
    assert done.returncode == code
    assert expected in done.stderr
    assert "attncli" not in done.stderr and "no attention was seen" in done.stdout


@pytest.mark.slow
def test_a_module_runs_as_with_python_m(small):
    assert run("--module", "small").stdout.startswith("reading\nsmall")


def test_what_is_no_program_is_refused(attncli, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    done = attncli("capture", "lost.py")
    assert (done.code, done.out) == (2, "") and "there is no file lost.py" in done.err
