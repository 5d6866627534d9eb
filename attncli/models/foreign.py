"""Models from elsewhere: whatever transformers can give attentions for, run by transformers.

Decoders (GPT-2, Llama), encoder-decoders (T5, BART, Marian), and any encoder. Models of the BERT family have
attncli's own encoder in `encoder.py`; this file is for the rest. With `reference.py` it is the only one that
imports transformers, and no code that a checkpoint brings is run.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields
from functools import cached_property
from itertools import repeat
from typing import Any

import torch
from torch import Tensor

from attncli.errors import RequestError
from attncli.models.hub import Place, check_sha256, locate, weights_sha256
from attncli.models.layout import weight_files
from attncli.models.model import check_mask_name, pick_device, pick_dtype
from attncli.models.reference import quiet, refusals
from attncli.record import KINDS, AttentionRecord, ModelInfo
from attncli.selection import Selection, select
from attncli.text import Tokenizer, Tokens, tokens_of

LONGEST_ANSWER = 64  # tokens that a decoder writes by itself
WORD_MARKS = ("▁", "Ġ")


def load_foreign(name: str, device: str = "auto", dtype: str = "float32") -> "ForeignModel":
    """Load any model that transformers has, by alias, Hub repository id, or directory.

    device, dtype: as for `attncli.load_model`.

    Raises RequestError when the name means nothing, the files can't be had, or transformers can't load them.
    """
    chosen, number = pick_device(device), pick_dtype(dtype)
    place = locate(name)
    sha256 = weights_sha256(weight_files(place.path))
    check_sha256(place, sha256)
    network, tokenizer = load_network(place, number)
    return ForeignModel(place, sha256, network.to(chosen).eval(), tokenizer)


def load_network(place: Place, dtype: torch.dtype) -> tuple[Any, Any]:
    """transformers' network, with eager attention, and its tokenizer.

    Raises RequestError when it can't load them, or doesn't find all of the network in the weights.
    """
    from transformers import AutoConfig, AutoModel, AutoModelForSeq2SeqLM, AutoTokenizer

    safely = {"trust_remote_code": False, "local_files_only": True}
    with quiet(), refusals(f"transformers can't load {place.path}"):
        config = AutoConfig.from_pretrained(str(place.path), **safely)
        kind = AutoModelForSeq2SeqLM if config.is_encoder_decoder else AutoModel
        network, found = kind.from_pretrained(
            str(place.path),
            config=config,
            dtype=dtype,
            attn_implementation="eager",
            output_loading_info=True,
            **safely,
        )
        tokenizer = AutoTokenizer.from_pretrained(str(place.path), **safely)
    # What is not found is drawn at random. The pooler takes no part in attention, and is often not published.
    missing = sorted(name for name in found["missing_keys"] if not name.startswith("pooler."))
    if missing:
        raise RequestError(f"transformers does not find {missing[0]} in {place.path}: the weights are not whole")
    if getattr(tokenizer, "separate_vocabs", False):
        raise RequestError(f"{place.path} has two vocabularies, and transformers names the tokens of one only")
    return network, tokenizer


class ForeignModel:
    """A network of transformers with its tokenizer, ready to be asked for the attention of texts."""

    def __init__(self, place: Place, sha256: str, network: Any, tokenizer: Any) -> None:
        self.place = place
        self.sha256 = sha256
        self.network = network
        self.tokenizer = tokenizer
        self.paired: bool = network.config.is_encoder_decoder

    def attend_many(
        self,
        texts: Iterable[str],
        pairs: Iterable[str | None] | None = None,
        layers: Selection = "all",
        heads: Selection = "all",
        target: str | None = None,
        which: str | None = None,
        pad_to: int | None = None,
        mask: str = "padding",
    ) -> Iterator[AttentionRecord]:
        """The attention of many texts, in their order, one after the other.

        pairs, layers, heads, pad_to: as for `Model.attend`; layers and heads are counted in the part asked for.
        which: of an encoder-decoder "encoder", "decoder" or "cross" (the default); of another model what it is.
        target: what an encoder-decoder's decoder is made to write (teacher forcing: it is fed the start token and
        the target's tokens but the last); by default its own greedy output of at most LONGEST_ANSWER tokens.
        mask: "padding" hides [PAD], "none" doesn't; "causal" is for a decoder, which hides the future anyway.

        A record's mask is where any head of any layer gives any weight: transformers does not say what it hides
        (the future, what lies outside a window, [PAD]), and what is hidden has no weight anywhere.

        Raises RequestError for an empty text, for what is out of range, for a part or a mask that this model does
        not have, and when transformers gives no attention.
        """
        part = self.part(which, target)
        check_mask(mask, part)
        for text, pair in zip(texts, repeat(None) if pairs is None else pairs, strict=pairs is not None):
            read = self.read(text, pair, pad_to)
            tokens, keys, maps = self.run(read, part, target, mask)
            yield self.record(tokens, keys, maps, layers, heads, part, mask)

    # --- what the model has -------------------------------------------------------------------------------

    @property
    def parts(self) -> tuple[str, ...]:
        """The attentions that it has, in the words of `AttentionRecord.kind`."""
        if self.paired:
            return KINDS
        return ("encoder",) if self.looks_ahead else ("decoder",)

    @cached_property
    def looks_ahead(self) -> bool:
        """Whether a token attends to those after it. Found by trying: no configuration says so for all models."""
        ids = torch.arange(1, 5, device=self.network.device)[None]
        maps = self.called(self.network, "attentions", {"input_ids": ids, "attention_mask": torch.ones_like(ids)})
        return bool(allowed(maps).triu(1).any())

    def part(self, which: str | None, target: str | None) -> str:
        """The part that is meant. Raises RequestError for one that the model does not have."""
        if which is not None and which not in KINDS:
            raise RequestError(f"no part {which!r}: --which is one of {', '.join(KINDS)}")
        if self.paired:
            return which or "cross"
        [only] = self.parts
        if which not in (None, only):
            raise RequestError(f"{self.place.name} has no {which} attention: it is one {only}; leave --which out")
        if target is not None:
            raise RequestError(f"{self.place.name} is one {only}, which writes nothing: leave --target out")
        return only

    def stack(self, part: str) -> Any:
        """The half of the network that a part is in."""
        if not self.paired:
            return self.network
        return self.network.get_encoder() if part == "encoder" else self.network.get_decoder()

    @property
    def segments(self) -> int:
        """Kinds of segment; what does not say how many has them if its tokenizer gives them."""
        return getattr(self.stack("encoder").config, "type_vocab_size", 2)

    # --- tokens -------------------------------------------------------------------------------------------

    def read(self, text: str, pair: str | None, pad_to: int | None) -> Tokens:
        """What the model is given to read. Raises RequestError as `Tokenizer.encode` does."""
        if pad_to is not None and self.tokenizer.pad_token_id is None:
            raise RequestError(f"the tokenizer of {self.place.name} has no padding token: leave --pad-to out")
        return self.cutter("encoder").encode(text, pair, pad_to)

    def cutter(self, part: str) -> Tokenizer:
        """attncli's tokenizer, around transformers' own, for what a part of the model is given."""
        stack = self.stack(part)
        positions = getattr(stack.config.get_text_config(), "max_position_embeddings", None)
        limits = [self.tokenizer.model_max_length]
        limits += [positions] if positions and positions > 0 else []  # T5 has no positions to run out of
        backend: Any = Backend(self.tokenizer, target=part != "encoder")
        return Tokenizer(
            backend,
            max_tokens=min(limits),
            vocab_size=stack.get_input_embeddings().num_embeddings,
            pad_id=self.tokenizer.pad_token_id or 0,  # never used where there is none
        )

    def taught(self, target: str) -> Tokens:
        """What the decoder is fed to write the target: the start token, and the target's tokens but the last."""
        wanted = self.cutter("decoder").encode(target)
        if hasattr(self.network, "prepare_decoder_input_ids_from_labels"):
            labels = torch.tensor([wanted.ids], device=self.network.device)
            with self.running():
                start = int(self.network.prepare_decoder_input_ids_from_labels(labels)[0, 0])
        else:
            start = self.network.config.decoder_start_token_id
        first = tokens_of(pieces(self.tokenizer, [start]))
        return Tokens(**{name: [*values, *getattr(wanted, name)[:-1]] for name, values in vars(first).items()})

    def answer(self, inputs: dict[str, Tensor]) -> Tokens:
        """What the decoder is fed to write its own greedy output: the start token, and its tokens but the last.

        The same every time.
        """
        longest = min(LONGEST_ANSWER, self.cutter("decoder").max_tokens)
        with self.running():
            ids = self.network.generate(
                **inputs,
                do_sample=False,
                num_beams=1,
                num_return_sequences=1,
                max_new_tokens=longest,
                return_dict_in_generate=False,
            )
        return tokens_of(pieces(self.tokenizer, ids[0, :-1].tolist()))

    # --- running ------------------------------------------------------------------------------------------

    def run(self, read: Tokens, part: str, target: str | None, mask: str) -> tuple[Tokens, Tokens | None, list[Tensor]]:
        """The queries' tokens, the keys' where they are others, and every layer's weights `[head, query, key]`."""
        inputs = self.inputs(read, mask)
        if not self.paired:
            return read, None, self.called(self.network, "attentions", inputs)
        if part == "encoder":
            return read, None, self.called(self.stack(part), "attentions", inputs)
        fed = self.answer(inputs) if target is None else self.taught(target)
        inputs["decoder_input_ids"] = torch.tensor([fed.ids], device=self.network.device)
        return fed, read if part == "cross" else None, self.called(self.network, f"{part}_attentions", inputs)

    def inputs(self, tokens: Tokens, mask: str) -> dict[str, Tensor]:
        """What the network is called with, `[1, token]` each."""
        seen = [int(mask == "none" or not padding) for padding in tokens.padding]
        inputs = {"input_ids": tokens.ids, "attention_mask": seen}
        if "token_type_ids" in self.tokenizer.model_input_names and self.segments > 1:
            inputs["token_type_ids"] = tokens.segments
        return {name: torch.tensor([values], device=self.network.device) for name, values in inputs.items()}

    def called(self, module: Any, name: str, inputs: dict[str, Tensor]) -> list[Tensor]:
        """Every layer's weights `[head, query, key]`, by their name in what a module gives.

        Raises RequestError when there are none, or they are not one map a head.
        """
        with self.running():
            maps = getattr(module(**inputs, output_attentions=True), name, None)
        if not maps or any(layer is None for layer in maps):
            raise RequestError(f"transformers gives no attention of {self.place.name}: not all its layers have any")
        keys = inputs["input_ids"].shape[1]
        queries = inputs["decoder_input_ids"].shape[1] if "decoder_input_ids" in inputs else keys
        shape = (1, maps[0].shape[1], queries, queries if name == "decoder_attentions" else keys)
        if any(layer.shape != shape for layer in maps):
            raise RequestError(f"the attention of {self.place.name} has another shape than a map of tokens a head")
        return [layer[0] for layer in maps]

    @contextmanager
    def running(self) -> Iterator[None]:
        """Without gradients and without a word, and with what transformers refuses as one line."""
        with quiet(), refusals(f"transformers can't run {self.place.name}"), torch.inference_mode():
            yield

    def record(
        self,
        tokens: Tokens,
        keys: Tokens | None,
        maps: list[Tensor],
        layers: Selection,
        heads: Selection,
        part: str,
        mask: str,
    ) -> AttentionRecord:
        """What was asked for of the maps. Raises RequestError for a layer or head out of range, and for NaN."""
        count = len(maps), len(maps[0])
        chosen = select(layers, count[0], "layer"), select(heads, count[1], "head")
        weights = torch.stack([maps[layer][chosen[1]] for layer in chosen[0]]).to(device="cpu", dtype=torch.float32)
        if not weights.isfinite().all():
            raise RequestError(f"a weight of {self.place.name} is no number: another --dtype has more room")
        config = self.stack(part).config.get_text_config()
        return AttentionRecord(
            weights=weights.numpy(),
            layers=chosen[0],
            heads=chosen[1],
            tokens=tokens,
            mask=allowed(maps).cpu().numpy(),
            mask_name="causal" if part == "decoder" else mask,
            model=ModelInfo(
                self.place.name, str(self.place.path), self.sha256, *count, getattr(config, "hidden_size", 0)
            ),
            key_tokens=keys,
            kind=part,
        )


def allowed(maps: Sequence[Tensor]) -> Tensor:
    """Where any head of any layer gives any weight at all: bool `[query, key]`."""
    return torch.stack([(layer > 0).any(dim=0) for layer in maps]).any(dim=0)


def check_mask(name: str, part: str) -> None:
    """Raises RequestError for a mask that transformers has no way to put on a part."""
    check_mask_name(name)
    if name == "causal" and part != "decoder":
        what = "a cross-attention" if part == "cross" else "an encoder"
        raise RequestError(f"transformers does not hide the future from {what}: --mask padding or none")


# --- tokens ---------------------------------------------------------------------------------------------


class Backend:
    """A tokenizer of transformers in the place of one of `tokenizers`, as far as attncli's own uses that.

    target: cut what a decoder is to write, for which some have another vocabulary or other special tokens.
    """

    def __init__(self, tokenizer: Any, target: bool) -> None:
        self.tokenizer = tokenizer
        self.target = target
        self.longest: int | None = None

    def no_padding(self) -> None:
        """transformers never pads unasked."""

    def no_truncation(self) -> None:
        self.longest = None

    def enable_truncation(self, longest: int) -> None:
        self.longest = longest

    def id_to_token(self, number: int) -> str:
        return self.tokenizer.convert_ids_to_tokens(number)

    def encode(self, text: str, pair: str | None = None) -> Any:
        texts = {"text_target": text} if self.target else {"text": text, "text_pair": pair}
        with quiet():
            cut = self.tokenizer(**texts, truncation=self.longest is not None, max_length=self.longest)
        if cut.encodings is None:
            if pair is not None:
                raise RequestError("this model's tokenizer does not say what belongs to which text: leave --pair out")
            return pieces(self.tokenizer, cut.input_ids)
        return with_words(cut.encodings[0])


@dataclass(frozen=True)
class Pieces:
    """What an `Encoding` of `tokenizers` says, in its words, where there is none or it does not say all."""

    tokens: list[str]
    ids: list[int]
    type_ids: list[int]
    sequence_ids: list[int | None]
    special_tokens_mask: list[int]
    word_ids: list[int | None]
    offsets: list[tuple[int, int]]

    def __len__(self) -> int:
        return len(self.tokens)


def pieces(tokenizer: Any, ids: list[int]) -> Any:
    """Of numbers alone, as from a decoder, or from a tokenizer that gives no more. Offsets are not known: (0, 0)."""
    special = [number in tokenizer.all_special_ids and number != tokenizer.unk_token_id for number in ids]
    tokens = [  # a network may have more numbers than its tokenizer has names for
        name or f"<{number}>" for name, number in zip(tokenizer.convert_ids_to_tokens(ids), ids, strict=True)
    ]
    texts = [None if flag else 0 for flag in special]
    return Pieces(
        tokens=tokens,
        ids=ids,
        type_ids=[0] * len(ids),
        sequence_ids=texts,
        special_tokens_mask=[int(flag) for flag in special],
        word_ids=word_numbers(tokens, texts),
        offsets=[(0, 0)] * len(ids),
    )


def with_words(encoding: Any) -> Any:
    """The same, with words where the tokenizer cuts a text into none but marks them in its pieces (Llama)."""
    if len(set(encoding.word_ids) - {None}) > 1 or not any(token.startswith("▁") for token in encoding.tokens):
        return encoding
    said = {field.name: getattr(encoding, field.name) for field in fields(Pieces)}
    return Pieces(**{**said, "word_ids": word_numbers(encoding.tokens, encoding.sequence_ids)})


def word_numbers(tokens: Sequence[str], texts: Sequence[int | None]) -> list[int | None]:
    """Which word of its text a token is a piece of, by the marks in the pieces; None where `texts` says none.

    "▁" (sentencepiece) and "Ġ" (byte-level) begin a word; where neither is, all begin one but "##" (WordPiece).
    """
    marked = any(token.startswith(WORD_MARKS) for token in tokens)
    last: dict[int, int] = {}
    numbers: list[int | None] = []
    for token, text in zip(tokens, texts, strict=True):
        if text is not None:
            begins = token.startswith(WORD_MARKS) if marked else not token.startswith("##")
            last[text] = last.get(text, -1) + (begins or text not in last)
        numbers.append(None if text is None else last[text])
    return numbers
