"""Paths that are no regular files, and a guard against waiting for one."""

import os
import signal
import stat
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

# What can be made, and how messages call it.
KINDS = {"pipe": "a pipe", "socket": "a socket", "device": "a device", "directory": "a directory"}
# The files of checkpoints, of all families, that attncli or transformers opens.
NAMED = (
    "config.json", "tokenizer.json", "vocab.txt", "vocab.json", "merges.txt", "tokenizer_config.json",
    "special_tokens_map.json", "added_tokens.json", "sentencepiece.bpe.model", "spiece.model", "spm.model",
    "tokenizer.model", "source.spm", "target.spm", "generation_config.json", "model.safetensors",
    "model.safetensors.index.json", "pytorch_model.bin", "pytorch_model.bin.index.json", "modules.json",
    "config_sentence_transformers.json", "sentence_bert_config.json",
)  # fmt: skip
# Others, which some version of transformers or another library looks for.
OTHERS = (
    "1_Pooling/config.json", "2_Dense/model.safetensors", "2_Dense/pytorch_model.bin", "chat_template.jinja",
    "additional_chat_templates/a.jinja", "preprocessor_config.json", "processor_config.json", "adapter_config.json",
    "tf_model.h5", "flax_model.msgpack", "pytorch_model-00001-of-00002.bin", "model-00001-of-00002.safetensors",
    "modeling_own.py",
)  # fmt: skip
LONG = 60  # seconds after which whoever waits for a pipe is hanging


def make_irregular(path: Path, kind: str) -> None:
    """Put one of KINDS in the place of a file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "socket":
        os.mknod(path, stat.S_IFSOCK | 0o600)
    elif kind == "device":
        path.symlink_to("/dev/zero")
    else:
        path.mkdir()


@contextmanager
def guarded(pipe: Path) -> Iterator[None]:
    """Whoever waits for a pipe gets its end after LONG, so that a test fails and does not hang.

    Another process opens it: libraries wait for a file with Python's lock held.
    """
    if not pipe.is_fifo():
        yield
        return
    line = f'sleep {LONG}; while true; do : <>"$0"; sleep 1; done'
    guard = subprocess.Popen(["sh", "-c", line, str(pipe)], start_new_session=True)
    try:
        yield
    finally:
        os.killpg(guard.pid, signal.SIGKILL)
        guard.wait()


class TouchedByPickle:
    """An object whose unpickling creates a file."""

    def __init__(self, witness: Path) -> None:
        self.witness = witness

    def __reduce__(self):
        return Path.touch, (self.witness,)
