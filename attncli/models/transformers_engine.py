"""Run networks of transformers, with our attention function in them where queries meet keys.

Encoder-decoders (T5, BART, Marian), mixtures of experts, and any other. The families in `families/` have attncli's
own network in `network.py`; this file is for the rest. `transformers_network.py` loads the network, and
`transformers_place.py` replaces its attention. A checkpoint's own code is never run.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby
from typing import Any

import torch
from torch import Tensor

from attncli.attention import self_mask
from attncli.base import choices
from attncli.base.errors import RequestError
from attncli.models.block import Tap
from attncli.models.checkpoint_files import Place
from attncli.models.devices import InTorch, pick_device, pick_dtype
from attncli.models.hashes import check_sha256
from attncli.models.output import AvailableOutputs
from attncli.models.parts import A_PART, error_of_one_part
from attncli.models.rows import RowRun, Rows, every_text
from attncli.models.taps import Gates
from attncli.models.transformers_network import Backend, on_text_alone, pieces, read_network, takes
from attncli.models.transformers_outputs import find_outputs
from attncli.models.transformers_peer import peer_tokenizer, positions_after_padding
from attncli.models.transformers_place import (
    AttentionModules,
    TappedPass,
    find_attention,
    for_all_queries,
    general_masks,
    passing,
)
from attncli.models.walk import Beginning, Ending
from attncli.record import ModelInfo, Request
from attncli.record.selection import Selection, heads_list, number_list, select
from attncli.text.tokenizer import Tokenizer, choose_padding
from attncli.text.tokens import DecoderInput, EncoderInput, Tokens, followed, tokens_of

LONGEST_ANSWER = 64  # maximum tokens that a decoder generates
TRIED = {"encoder": [1, 2, 3, 4], "decoder": [1, 2, 3]}  # tokens of the trial pass that finds the calls of our function


def load_with_transformers(place: Place, device: str, dtype: str) -> "TransformersModel":
    """Load any model that transformers supports.

    device, dtype: as for `attncli.load_model`. Raises RequestError if transformers can't load the files.
    """
    chosen, number = pick_device(device), pick_dtype(dtype)
    sha256 = check_sha256(place)
    network = read_network(place, number)
    tokenizer = peer_tokenizer(place.path)
    if getattr(tokenizer, "separate_vocabs", False):
        raise RequestError(f"{place.path} has two vocabularies, but transformers names the tokens of only one")
    return TransformersModel(place, sha256, network.to(chosen).eval().requires_grad_(False), tokenizer)


@dataclass(frozen=True)
class _TheirRows(Rows):
    """A batch for a network of transformers.

    inputs: its arguments for each run, `[text, token]` each. mask: a name of MASKS. real: False at [PAD], bool
    `[text, key]`, for each run. output_tokens: for each run, the number of tokens with vectors after the last layer.
    """

    inputs: list[dict[str, Tensor]]
    mask: str
    real: list[Tensor]
    output_tokens: list[int]

    def last(self, rows: Tensor) -> list[Tensor]:
        sizes = [len(run.texts) * length for run, length in zip(self.runs, self.output_tokens, strict=True)]
        parts = zip(self.runs, rows.split(sizes), strict=True)
        return self.in_order(part.unflatten(0, (len(run.texts), -1)) for run, part in parts)


class TransformersModel(InTorch):
    """A network of transformers with its tokenizer, ready to compute the attention of texts.

    theirs: transformers' own tokenizer. part: the tapped attention.
    """

    name = "transformers"
    resumes = False
    mask_bytes = 5  # transformers' own, and those that `requested_mask` derives from it

    def __init__(self, place: Place, sha256: str, network: Any, theirs: Any) -> None:
        self.place = place
        self.sha256 = sha256
        self.network = network
        self.device = network.device
        self.dtype = network.dtype
        self.theirs = theirs
        self.paired: bool = network.config.is_encoder_decoder
        self.gone: list[tuple[int, int]] = []
        self.infos: dict[str, ModelInfo] = {}
        self.tokenizer = self.cutter("encoder")
        self.places = self.find_places()
        self.part = self.parts[-1]
        side = self.theirs.init_kwargs.get("padding_side")
        self.tokenizer.pads_left = self.part == "decoder" if side is None else side == "left"

    # --- the model's properties -------------------------------------------------------------------------------

    def find_places(self) -> AttentionModules:
        """Find the modules of attention. Raises RequestError if there are none, and if the network can't run."""
        read, fed = (tokens_of(pieces(self.theirs, TRIED[half])) for half in ("encoder", "decoder"))
        inputs = self.inputs([read], "padding")
        if self.paired:
            inputs["decoder_input_ids"] = torch.tensor([fed.ids], device=self.device)
        with self.running():
            places = find_attention(self.network, self.stack("encoder"), self.stack("decoder"), inputs)
        if places is None:
            raise RequestError(f"{self.place.name} has no attention in transformers with one map per head")
        return places

    @property
    def parts(self) -> tuple[str, ...]:
        return self.places.parts

    def select_part(self, which: str | None) -> str:
        """Return the selected part. Raises RequestError for a part that the model does not have."""
        if which is None or which in self.parts:
            return which or self.part
        if self.paired:
            use = " or ".join(self.parts)
            raise RequestError(f"{self.place.name} has no {which} attention of one map per head: use --which {use}")
        raise RequestError(
            f"{self.place.name} has no {which} attention, since it is only {A_PART[self.parts[0]]}: omit --which"
        )

    def of_part(self, which: str | None) -> "TransformersModel":
        part = self.select_part(which)
        if part == self.part:
            return self
        made = copy(self)
        made.part = part
        return made

    def silencing(self, heads: Sequence[tuple[int, int]]) -> "TransformersModel":
        made = copy(self)
        made.gone, made.infos = list(heads), {}
        return made

    @property
    def silenced_heads(self) -> list[tuple[int, int]]:
        return self.gone

    @property
    def layers(self) -> int:
        return max(self.places.numbers(self.part)) + 1

    @property
    def depth(self) -> int:
        halves = [part for part in self.parts if part != "cross"]
        return sum(max(self.places.numbers(half)) + 1 for half in halves)

    @property
    def heads(self) -> int:
        return len(self.places.blocks[self.part].numbers)

    @property
    def has_sinks(self) -> bool:  # type: ignore[override]
        return self.part in self.places.sinks

    @property
    def head_dim(self) -> int:
        return int(self.places.blocks[self.part].query.shape[-1])

    def term_names(self, layer: int) -> Sequence[str]:
        return list(self.places.blocks[self.part].all_terms())

    def term_numbers(self, layer: int, tokens: Tokens) -> int:
        keys = tokens.encoder_input if isinstance(tokens, DecoderInput) else tokens
        return len(self.term_names(layer)) * len(tokens) * len(keys)

    def select_layers(self, layers: Selection) -> list[int]:
        """Select layers that have attention. Layers without it, such as linear attention, keep their numbers."""
        there = self.places.numbers(self.part)
        chosen = there if layers == "all" else select(layers, self.layers, "layer")
        if absent := [layer for layer in chosen if layer not in there]:
            raise RequestError(
                f"layer {absent[0]} of {self.place.name} has no attention: select from {number_list(there)}"
            )
        return chosen

    @property
    def info(self) -> ModelInfo:
        part = self.part
        if part not in self.infos:
            sizes, shared = (self.layers, self.heads), self.places.blocks[part].shared
            size = getattr(self.stack(part).config.get_text_config(), "hidden_size", 0)
            changes = f"without {heads_list(self.gone)}" if self.gone else ""
            key_heads = sizes[1] // shared if shared > 1 else None
            place = self.place
            self.infos[part] = ModelInfo(place.name, str(place.path), self.sha256, *sizes, size, changes, key_heads)
        return self.infos[part]

    @property
    def writes(self) -> bool:  # type: ignore[override]
        return self.paired and self.part != "encoder"

    def stack(self, part: str) -> Any:
        """Return the half of the network that contains a part, without a head."""
        if not self.paired:
            return self.network.base_model
        half = self.network.get_encoder() if part == "encoder" else self.network.get_decoder()
        return half.base_model

    def usual_mask(self, mask: str | None) -> str:
        if mask is None:
            return "causal" if self.part == "decoder" else "padding"
        choices.check("mask", mask, choices.MaskName)
        if self.part == "cross" and mask not in general_masks():
            raise RequestError(f"cross-attention has no future to hide: use --mask {' or '.join(general_masks())}")
        return mask

    def find_outputs(self) -> AvailableOutputs:
        stack = self.stack("decoder")
        if self.part == "decoder":  # OPT's head reads from inside the headless network
            inner = self.network.get_decoder()
            stack = inner if any(inner is module for module in stack.modules()) else stack
        return find_outputs(self, stack)

    # --- tokens -------------------------------------------------------------------------------------------

    def cutter(self, part: str) -> Tokenizer:
        """Wrap transformers' tokenizer for the input of one part of the model."""
        stack = self.stack(part)
        positions = getattr(stack.config.get_text_config(), "max_position_embeddings", None)
        limits = [self.theirs.model_max_length]
        if positions and positions > 0:  # T5 has no maximum position
            table = next((one for name, one in stack.named_modules() if name.endswith("position_embeddings")), None)
            first = getattr(table, "padding_idx", None)  # RoBERTa's and MPNet's positions start after that of [PAD]
            limits.append(positions if first is None else positions - first - 1)
        backend: Any = Backend(self.theirs, target=part != "encoder")
        with on_text_alone("transformers does not say how many tokens it has for", self.place, self.network.config):
            vocab_size = stack.get_input_embeddings().num_embeddings
        generation = getattr(self.network, "generation_config", None)
        places = [
            ("the tokenizer", self.theirs.pad_token_id),
            ("generation_config.json", getattr(generation, "pad_token_id", None)),
            ("config.json", getattr(self.network.config, "pad_token_id", None)),
        ]
        pad_id, note = choose_padding(places, backend, vocab_size)
        return Tokenizer(backend, min(limits), vocab_size, pad_id, backend.notation, pad_note=note)

    @cached_property
    def fed(self) -> Tokenizer:
        """Return the tokenizer for the decoder's input."""
        return self.cutter("decoder")

    def ready(self, tokens: Tokens, target: str | None = None, answer: bool = False) -> Tokens:
        needs_answer = answer and self.paired and not isinstance(tokens, EncoderInput)
        if isinstance(tokens, DecoderInput) or not (self.writes or needs_answer):
            return tokens
        fed, goal = self.decoder_input(tokens, target)
        if self.writes:
            return DecoderInput(**fed.lists, encoder_input=tokens, labels=goal)
        return EncoderInput(**tokens.lists, decoder_input=fed, labels=goal)

    def decoder_input(self, read: Tokens, target: str | None) -> tuple[Tokens, list[int]]:
        """Return the decoder's input for writing a target or its own greedy output, and the ids that it writes.

        The input is the start token, and all written tokens except the last.
        """
        if target is not None:
            wanted = self.fed.encode(target)
            return self.start_token().joined(wanted.take(range(len(wanted) - 1))), wanted.ids
        inputs, longest = self.inputs([read], "padding"), min(LONGEST_ANSWER, self.fed.max_tokens)
        with self.running(), torch.inference_mode():
            ids = self.network.generate(
                **inputs,
                do_sample=False,
                num_beams=1,
                num_return_sequences=1,
                max_new_tokens=longest,
                return_dict_in_generate=False,
            )
        return tokens_of(pieces(self.theirs, ids[0, :-1].tolist()), self.fed.notation), ids[0, 1:].tolist()

    def start_token(self) -> Tokens:
        """Return the token that a decoder's input begins with."""
        if hasattr(self.network, "prepare_decoder_input_ids_from_labels"):
            labels = torch.zeros(1, 1, dtype=torch.long, device=self.device)
            with self.running():
                start = int(self.network.prepare_decoder_input_ids_from_labels(labels)[0, 0])
        else:
            start = self.network.config.decoder_start_token_id
        return tokens_of(pieces(self.theirs, [start]), self.fed.notation)

    def extend(self, tokens: Tokens, ids: Sequence[int]) -> Tokens:
        """Return a text's tokens followed by written ones; for an encoder-decoder, the decoder's with its input."""
        new = pieces(self.theirs, list(ids))
        if not self.paired:
            return followed(tokens, new, self.tokenizer.notation, self.tokenizer.backend)
        fed = followed(self.start_token(), new, self.fed.notation, self.fed.backend)
        return DecoderInput(**fed.lists, encoder_input=tokens, labels=list(ids))

    # --- running ------------------------------------------------------------------------------------------

    def inputs(self, texts: Sequence[Tokens], mask: str) -> dict[str, Tensor]:
        """Return the network's arguments, `[text, token]` each. Decoders add the causal mask themselves."""
        real = torch.tensor([[not padding for padding in tokens.padding] for tokens in texts])
        seen = self_mask(real, *for_all_queries(mask))[:, 0, 0].expand(real.shape).int()
        inputs = {"input_ids": torch.tensor([tokens.ids for tokens in texts]), "attention_mask": seen}
        if self.returns_segments:
            inputs["token_type_ids"] = torch.tensor([tokens.segments for tokens in texts])
        if any(tokens.first for tokens in texts) and takes(self.network, "position_ids"):
            inputs["position_ids"] = positions_after_padding(texts)
        return {name: values.to(self.device) for name, values in inputs.items()}

    @cached_property
    def returns_segments(self) -> bool:
        """Return True if the tokenizer returns segments, and the network accepts them and has several kinds.

        A network with an unknown number of kinds has segments if its tokenizer returns them.
        """
        reads = self.stack("encoder")
        given = "token_type_ids" in self.theirs.model_input_names and takes(reads, "token_type_ids")
        return given and getattr(reads.config, "type_vocab_size", 2) > 1

    @contextmanager
    def running(self) -> Iterator[None]:
        """Suppress output inside the block, and convert errors of transformers to a RequestError of one line."""
        with on_text_alone("transformers can't run", self.place, self.network.config):
            yield

    def need(self, layers: int) -> None:
        """Do nothing: the network is already loaded."""

    def rows(
        self,
        batch: Sequence[Tokens],
        mask: str | None,
        positions: bool = True,
        together: Callable[[int], int] = every_text,
    ) -> _TheirRows:
        if not positions:
            raise RequestError("transformers can't omit the positions")
        mask = self.usual_mask(mask)
        order = sorted(range(len(batch)), key=lambda number: batch[number].sizes)
        rows = _TheirRows([], [], mask, [], [])
        row = 0  # of the batch: the next free one
        for (length, _), same in groupby(order, key=lambda number: batch[number].sizes):
            alike, most = list(same), max(1, together(length))
            for numbers in (alike[start : start + most] for start in range(0, len(alike), most)):
                texts = [batch[number] for number in numbers]
                read = [one.encoder_input if isinstance(one, DecoderInput) else one for one in texts]
                inputs = self.inputs(read, mask)
                real = ~torch.tensor([one.padding for one in read], device=self.device)
                if isinstance(texts[0], EncoderInput | DecoderInput):
                    inputs["decoder_input_ids"] = torch.tensor(
                        [one.output_tokens.ids for one in texts], device=self.device
                    )
                if self.part == "decoder" and self.paired:
                    real = real.new_ones(len(texts), length)
                keys = real.shape[1] if self.part == "cross" else length
                where = slice(row, row + len(texts) * length)
                rows.runs.append(RowRun(len(rows.runs), numbers, where, length, [None] * self.layers, None, True, keys))
                rows.inputs.append(inputs)
                rows.real.append(real)
                rows.output_tokens.append(len(texts[0].output_tokens))
                row = where.stop
        return rows

    def walk(
        self, rows: Rows, taps: Sequence[Tap] = (), ending: Ending | None = None, beginning: Beginning | None = None
    ) -> Iterator[Tensor]:
        """Walk through the network run by run. Yields the input embeddings and, without an ending, the last layer's
        output.

        For an encoder-decoder these are the vectors of the half that contains the part. With a decoder input, the last
        are the decoder's.
        """
        assert isinstance(rows, _TheirRows)
        if self.gone:
            taps = [*taps, Gates(dict.fromkeys(self.gone, 0.0))]
        first, last = [], []
        for run, inputs, real in zip(rows.runs, rows.inputs, rows.real, strict=True):
            current = TappedPass(self.places, self.part, run, taps, rows.mask, real)
            if ending is not None:
                current.last, current.values = ending.layer, ending.values
            if beginning is not None:
                current.beginning = run.tokens(beginning.x)
            fed = "decoder_input_ids" in inputs
            with self.running(), passing(current):
                made = self.network(**inputs) if fed else self.stack("encoder")(**inputs)
                current.decoded = made.last_hidden_state
            assert current.x is not None
            first.append(current.x.flatten(0, 1))
            if ending is None:
                assert current.decoded is not None
                last.append(current.decoded.flatten(0, 1))
        yield torch.cat(first)
        if last:
            yield torch.cat(last)

    def hidden_states(self, tokens: Tokens, mask: str | None = None, positions: bool = True) -> list[Tensor]:
        if not positions:
            raise RequestError("transformers can't omit the positions")
        part = "encoder" if self.paired else self.select_part(None)
        rows = self.of_part(part).rows([tokens], mask)
        silencing = [Gates(dict.fromkeys(self.gone, 0.0))] if part == self.part else []
        current = TappedPass(self.places, part, rows.runs[0], silencing, rows.mask, rows.real[0])
        with self.running(), torch.inference_mode(), passing(current):
            made = self.stack(part)(**rows.inputs[0], output_hidden_states=True)
        return [states[0] for states in made.hidden_states]

    # --- requests --------------------------------------------------------------------------------------

    def check(self, request: Request) -> None:
        part = self.select_part(request.which)
        if request.target is not None and not self.paired:
            raise error_of_one_part(self, "--target")
        if request.target is not None and part == "encoder":
            raise RequestError(
                "--target is the decoder's output, which the encoder does not read: omit it, or use --which decoder"
            )
        self.of_part(part).usual_mask(request.mask)
        super().check(request)
