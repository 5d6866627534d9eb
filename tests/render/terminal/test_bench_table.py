"""The table that `attncli bench` prints, of numbers made up here."""

import io

from rich.console import Console

from attncli.render.terminal.bench_table import bench_legend, bench_table

DOCUMENT = {
    "versions": {"attncli": "1", "torch": "2", "transformers": "5"},
    "device": "cpu",
    "threads": 2,
    "machine": {
        "processor": "ev\x1bil[bold] 9000",
        "instructions": ["avx2"],
        "bytes_per_second": {"read": 2e10, "write": 1e10},
    },
    "matrix_product": {"shape": [4096, 768, 3072], "flops_per_second": {"torch.mm": 1.5e11, "attncli": 3e11}},
    "rows": [
        {
            "model": model,
            "texts": 8,
            "tokens": 512,
            "shortest": 512,
            "dtype": "float32",
            "kept": kept,
            "seconds": {"attncli": 2.5, "eager": 10.0, "sdpa": 5.0},
            "ratio": {"eager": 0.25, "sdpa": 0.5},
            "peak_bytes": {"attncli": 1_200_000_000, "eager": None, "sdpa": 7_000_000},
            "floor": {"products": 2.0, "weights": 0.015, "maps": 0.5},
        }
        for model in ("bert-base", "ev\x1bil[bold]")
        for kept in ("all", "one, first layer")
    ],
}


def printed(width: int) -> list[str]:
    stream = io.StringIO()
    Console(file=stream, width=width, markup=False, force_terminal=True, color_system=None).print(
        bench_table(DOCUMENT), bench_legend(DOCUMENT)
    )
    return stream.getvalue().splitlines()


def test_a_line_for_a_shape_and_one_for_each_thing_kept_in_80_columns():
    lines = [line.strip() for line in printed(80)]
    first = lines.index("bert-base 8 x 512")
    numbers = ["2500", "10000", "5000", "0.25", "0.50", "1200", "2000", "15.0", "500"]
    assert lines[first + 1].split() == ["all", *numbers]
    assert lines[first + 2].split() == ["one,", "first", "layer", *numbers]


def test_it_says_what_it_was_measured_on():
    said = " ".join(map(str.strip, printed(200)))
    assert "GFLOP/s: torch.mm 150, attncli 300" in said
    assert "9000 (avx2), memory read at 20.0 GB/s and written at 10.0" in said


def test_a_name_can_not_command_the_terminal():
    out = "\n".join(printed(100))
    assert "\x1b" not in out
    assert "ev\\x1bil[bold] 8 x 512" in out
