"""The processor, read from a file as Linux has it."""

import pytest

from attncli.checks import machine
from attncli.checks.machine import processor

INTEL = "processor\t: 0\nmodel name\t: Some Xeon @ 2.50GHz\nflags\t\t: fpu avx avx2 avx512f amx_bf16\n"
ARM = "processor\t: 0\nFeatures\t: fp asimd sve bf16\n"


@pytest.mark.parametrize(
    ("content", "instructions"), [(INTEL, ["avx2", "avx512f", "amx_bf16"]), (ARM, ["asimd", "bf16", "sve"]), ("", [])]
)
def test_a_processor_is_what_the_system_says_it_is(content, instructions, tmp_path, monkeypatch):
    (tmp_path / "cpuinfo").write_text(content)
    monkeypatch.setattr(machine, "CPUINFO", tmp_path / "cpuinfo")
    name, found = processor()
    assert found == instructions and name
    assert (name == "Some Xeon @ 2.50GHz") == (content == INTEL)


def test_where_nothing_tells_there_is_a_name_still(tmp_path, monkeypatch):
    monkeypatch.setattr(machine, "CPUINFO", tmp_path / "none")
    name, found = processor()
    assert name and found == []
