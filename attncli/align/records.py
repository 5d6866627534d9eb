"""Alignments as records, so that they are saved, analysed and drawn like any other attention; and as one document."""

import hashlib
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from attncli.align.characters import SOURCE, SPECIAL, START, TARGET, Alphabet
from attncli.align.checkpoint import About
from attncli.align.translate import Aligner, Alignment
from attncli.base.arrays import Bools, Floats
from attncli.base.untrusted import read_regular
from attncli.record import AttentionRecord, ModelInfo
from attncli.text.tokens import Tokens

SPACE = "␣"  # how a space is written where it is a token of its own


def records(aligner: Aligner, alignment: Alignment) -> list[AttentionRecord]:
    """The cross-attention; of a Transformer then the encoder's and the decoder's own.

    A token is a character. In the cross-attention query i is the character that came out there; in the decoder's own
    it is the one that went in: the character before, and [START] before the first.
    """
    model = model_info(aligner)
    read = tokens_of(alignment.characters, SOURCE)
    written = tokens_of(alignment.emitted, TARGET)
    fed = tokens_of([SPECIAL[START], *alignment.emitted[:-1]], TARGET)
    layers, heads = alignment.cross.shape[:2]

    def record(
        kind: str, weights: Floats, queries: Tokens, keys: Tokens | None, mask: Bools, mask_name: str
    ) -> AttentionRecord:
        return AttentionRecord(
            weights=weights,
            layers=list(range(layers)),
            heads=list(range(heads)),
            tokens=queries,
            masks=mask,
            mask_name=mask_name,
            model=model,
            key_tokens=keys,
            kind=kind,
        )

    everything = np.ones((len(read), len(read)), dtype=bool)
    found = [record("cross", alignment.cross, written, read, np.ones((len(written), len(read)), dtype=bool), "padding")]
    if alignment.encoder is not None:
        found.append(record("encoder", alignment.encoder, read, None, everything, "padding"))
    if alignment.decoder is not None:
        causal = np.tril(np.ones((len(fed), len(fed)), dtype=bool))
        found.append(record("decoder", alignment.decoder, fed, None, causal, "causal"))
    return found


def model_info(aligner: Aligner) -> ModelInfo:
    """Which network it is, as of any model."""
    about = aligner.about
    return ModelInfo(
        name=f"align-{about.attention}",
        path=str(aligner.path),
        sha256=hashlib.sha256(read_regular(aligner.path)).hexdigest(),
        layers=about.sizes.get("layers", 1),
        heads=about.sizes.get("heads", 1),
        hidden_size=hidden_size(about),
    )


def tokens_of(names: list[str], alphabet: Alphabet) -> Tokens:
    """Characters, and the names of special ones, as tokens; every character is a word of its own."""
    special = [name in SPECIAL for name in names]
    return Tokens(
        text=[SPACE if name == " " else name for name in names],
        ids=[SPECIAL.index(name) if name in SPECIAL else alphabet.encode(name)[0] for name in names],
        segments=[0] * len(names),
        words=[None if flag else place for place, flag in enumerate(special)],
        offsets=[(0, 0) if flag else (place, place + 1) for place, flag in enumerate(special)],
        special=special,
        padding=[False] * len(names),
    )


def hidden_size(about: About) -> int:
    """How many elements the vectors have that attention compares."""
    return int(about.sizes.get("d_hidden") or about.sizes["d_model"])


def document(aligner: Aligner, alignments: Sequence[Alignment]) -> dict[str, Any]:
    """What `align --json` prints: every text's maps, and once more as records, in the way of `run --json`."""
    about = aligner.about
    return {
        "model": {
            **model_info(aligner).document(),
            "attention": about.attention,
            "seed": about.seed,
            "steps": about.steps,
            "sizes": about.sizes,
        },
        "alignments": [
            {
                "text": alignment.text,
                "output": alignment.output,
                "date": alignment.date,
                "probability": alignment.probability,
                "doubt": alignment.doubt,
                "characters": alignment.characters,
                "emitted": alignment.emitted,
                "probabilities": alignment.probabilities,
                "attention": list(maps(alignment)),
            }
            for alignment in alignments
        ],
        "records": [record.document() for alignment in alignments for record in records(aligner, alignment)],
    }


def maps(alignment: Alignment) -> Iterator[dict[str, Any]]:
    """Every map of an alignment by kind, layer and head."""
    for kind, weights in (("cross", alignment.cross), ("encoder", alignment.encoder), ("decoder", alignment.decoder)):
        for layer, heads in enumerate([] if weights is None else weights):
            for head, weight in enumerate(heads):
                yield {"kind": kind, "layer": layer, "head": head, "weights": weight.tolist()}
