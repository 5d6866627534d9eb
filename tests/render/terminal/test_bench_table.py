"""The table that `attncli bench` prints, of numbers made up here."""

import io

from rich.console import Console

from attncli.render.terminal.bench_table import bench_legend, bench_table

DOCUMENT = {
    "versions": {"attncli": "1", "torch": "2", "transformers": "5"},
    "device": "cpu",
    "threads": 2,
    "matrix_product": {"shape": [4096, 768, 3072], "flops_per_second": {"torch.mm": 1.5e11, "attncli": 3e11}},
    "rows": [
        {
            "model": model,
            "texts": 8,
            "tokens": 512,
            "kept": kept,
            "seconds": {"attncli": 2.5, "eager": 10.0, "sdpa": 5.0},
            "ratio": {"eager": 0.25, "sdpa": 0.5},
            "peak_bytes": {"attncli": 1_200_000_000, "eager": None, "sdpa": 7_000_000},
            "matrix_product_share": 0.87,
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
    numbers = ["2500", "10000", "5000", "0.25", "0.50", "1200", "?", "7", "87%"]
    assert lines[first + 1].split() == ["all", *numbers]
    assert lines[first + 2].split() == ["one,", "first", "layer", *numbers]


def test_the_rate_is_that_of_the_better_way():
    assert "300 GFLOP/s" in " ".join(map(str.strip, printed(200)))


def test_a_name_can_not_command_the_terminal():
    out = "\n".join(printed(100))
    assert "\x1b" not in out
    assert "ev\\x1bil[bold] 8 x 512" in out
