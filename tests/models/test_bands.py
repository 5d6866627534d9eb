"""A layer with a window is computed as a band: equal to the square, without the square's memory."""

import sys
from dataclasses import replace
from itertools import chain
from types import SimpleNamespace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from made_up_family import FAMILY, made_up_tensors
from measuring import peak_added
from walks import CPU, loaded, made_up

from attncli.attention import MASKS, Window
from attncli.corpus.batch_sums import BatchSums, Memory, Units
from attncli.corpus.sums import Counting
from attncli.models import block
from attncli.models.config import ModelConfig
from attncli.models.families import FAMILIES
from attncli.models.model import as_rows
from attncli.models.rows import LayerMask
from attncli.models.taps import KeptMaps, Lengths, QueriesAndKeys
from attncli.models.walk import walk
from attncli.text.windows import TextWindow as Stretch

MIB = 2**20


@pytest.fixture(scope="module")
def network():
    """A small network of which every second layer has a window."""
    from made_up_family import CONFIG

    with pytest.MonkeyPatch.context() as patched:
        patched.setitem(FAMILIES, "made-up", FAMILY)
        return loaded(ModelConfig.from_dict(CONFIG), made_up_tensors(), torch.float64)


def with_reach(network, reach):
    return replace(network.config, reach=tuple(reach if number % 2 else None for number in range(4)))


def everything_kept(network, config, texts, mask):
    """Maps, vectors, lengths and sums of a walk, and what is after every layer."""
    rows, like = as_rows(texts, config, mask, CPU), torch.empty(0, dtype=torch.float64)
    with torch.inference_mode():
        batch = [Stretch.uncut(one) for one in texts]
        model = SimpleNamespace(device=CPU, layers=config.layers, heads=config.heads)
        sums = BatchSums(model, Counting(mask), Memory(60, like, 2), batch, rows)
        heads = [(1, 2), (3, 0), (0, 1)]
        vectors = QueriesAndKeys(rows.runs, heads, config.head_dim, like.new_empty)
        lengths = Lengths(rows.runs, [3, 0], [2, 1], like.new_empty)
        maps = KeptMaps(rows.runs, [1, 0, 3], [3, 1], like.new_empty)
        states = list(walk(network, rows, [maps, lengths, vectors, sums]))
        alone = KeptMaps(rows.runs, [3], [0, 1, 2, 3], like.new_empty)
        states += list(walk(network, rows, [alone]))
        limits = [torch.from_numpy(one) for one in sums.uniform_sums()]
    return [
        *states,
        *maps.kept,
        *alone.kept,
        *chain(*vectors.kept),
        *lengths.kept,
        torch.from_numpy(sums.totals),
        *limits,
    ]


@pytest.mark.slow
@given(data=st.data(), reach=st.integers(1, 9), mask=st.sampled_from(list(MASKS)), together=st.integers(1, 8))
def test_bands_are_squares(network, data, reach, mask, together):
    """Whatever is kept of several texts, with [PAD] anywhere, under every mask: of a band as of all scores."""
    lengths = data.draw(st.lists(st.integers(1, 20), min_size=1, max_size=3))
    texts = []
    for length in lengths:
        ids = data.draw(st.lists(st.integers(0, 119), min_size=length, max_size=length))
        texts.append(made_up(ids, data.draw(st.lists(st.booleans(), min_size=length, max_size=length))))
    config = with_reach(network, reach)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(block, "LEAST_QUERIES", together)
        bands = everything_kept(network, config, texts, mask)
        query_blocks = Units.query_blocks
        patched.setattr(Units, "query_blocks", lambda self, reach: query_blocks(self, None))
        patched.setattr(block, "_by_window", lambda part: [part])
        squares = everything_kept(network, config, texts, mask)
    *bands, alike, repeats = bands
    *squares, alike_in_squares, repeats_in_squares = squares
    for band, square in zip([*bands, repeats], [*squares, repeats_in_squares], strict=True):
        torch.testing.assert_close(band, square, rtol=0, atol=1e-12)
    torch.testing.assert_close(alike, alike_in_squares, rtol=1e-6, atol=1e-6)  # its factors are float32


@given(st.integers(1, 6), st.data())
def test_a_part_of_a_mask_is_that_part_of_it(reach, data):
    length = data.draw(st.integers(1, 12))
    begin, end, first, last = (data.draw(st.integers(0, length)) for _ in range(4))
    queries, keys = slice(min(begin, end), max(begin, end)), slice(min(first, last), max(first, last))
    every = slice(0, length)
    for shown in (None, torch.ones(length, length, dtype=torch.bool).tril()[None, None]):
        mask = LayerMask(shown, Window(reach))
        assert torch.equal(mask.of(queries, keys), mask.of(every, every)[:, :, queries, keys])
    whole = Window(reach)(torch.ones(1, length, dtype=torch.bool))
    seen = Window(reach).visible_keys(queries, keys)
    outside = whole[queries, keys].clone()
    outside[:, seen] = False
    assert not outside.any()


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="measured on Linux only")
def test_no_square_is_made_for_a_layer_with_a_window(network):
    """8,192 tokens: a mask of all of them alone has 64 MiB, the scores of a head 512."""
    config = replace(network.config, reach=(64,) * 4, position_rows=8192)
    wide = loaded(config, made_up_tensors() | {"places.weight": torch.randn(8192, 12)}, torch.float64)
    text = [made_up([number % 120 for number in range(8192)])]

    def through():
        with torch.inference_mode():
            for _ in walk(wide, as_rows(text, config, "padding", CPU)):
                pass

    through()
    assert peak_added(through, CPU) < 48 * MIB
