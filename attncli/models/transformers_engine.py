"""Models from elsewhere: whatever transformers can give attentions for, run by transformers.

Decoders (GPT-2, Llama), encoder-decoders (T5, BART, Marian), and any encoder. Models of the BERT family have
attncli's own network in `network.py`; this file is for the rest. With `transformers_peer.py` it is the only one that
imports transformers, and no code that a checkpoint brings is run.
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import cached_property
from typing import Any, NamedTuple

import torch
from torch import Tensor

from attncli.attention import MASKS, self_mask
from attncli.attention.masks import Rule
from attncli.base import choices
from attncli.base.errors import RequestError
from attncli.models.checkpoint_files import weight_files
from attncli.models.devices import pick_device, pick_dtype
from attncli.models.engine import Engine
from attncli.models.hub import Place, check_sha256, locate, weights_sha256
from attncli.models.transformers_masks import allowed, layer_kinds, masks_of
from attncli.models.transformers_peer import quiet, refusals
from attncli.models.transformers_tokens import Backend, pieces
from attncli.record import AttentionRecord, Input, ModelInfo, Request
from attncli.record.selection import select
from attncli.text.tokenizer import Tokenizer
from attncli.text.tokens import Tokens, tokens_of

LONGEST_ANSWER = 64  # tokens that a decoder writes by itself


def load_with_transformers(name: str, device: str = "auto", dtype: str = "float32") -> "TransformersModel":
    """Load any model that transformers has, by alias, Hub repository id, or directory.

    device, dtype: as for `attncli.load_model`.

    Raises RequestError when the name means nothing, the files can't be had, or transformers can't load them.
    """
    chosen, number = pick_device(device), pick_dtype(dtype)
    place = locate(name)
    sha256 = weights_sha256(weight_files(place.path))
    check_sha256(place, sha256)
    network, tokenizer = load_network(place, number)
    return TransformersModel(place, sha256, network.to(chosen).eval(), tokenizer)


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


def for_all_queries(mask: str) -> list[Rule]:
    """Of a mask's rules those that are the same for all queries, which transformers can be told for any network."""
    two = torch.ones(1, 2, dtype=torch.bool)
    return [rule for rule in MASKS[mask] if self_mask(two, rule).shape[2] == 1]


def on_any() -> list[str]:
    """The masks that transformers puts on any network: they have no other rules."""
    return [name for name, rules in MASKS.items() if len(for_all_queries(name)) == len(rules)]


class Maps(NamedTuple):
    """What one forward pass gives: which part of the network, the queries' tokens, the keys' where they are others, and
    every layer's weights `[head, query, key]`.
    """

    part: str
    tokens: Tokens
    key_tokens: Tokens | None
    weights: list[Tensor]


class TransformersModel(Engine):
    """A network of transformers with its tokenizer, ready to be asked for the attention of texts."""

    name = "transformers"

    def __init__(self, place: Place, sha256: str, network: Any, tokenizer: Any) -> None:
        self.place = place
        self.sha256 = sha256
        self.network = network
        self.tokenizer = tokenizer
        self.paired: bool = network.config.is_encoder_decoder

    def answer(self, inputs: Iterable[Input], request: Request) -> Iterator[AttentionRecord]:
        """One text after the other; layers and heads are counted in the part asked for.

        A decoder that writes its own output writes at most LONGEST_ANSWER tokens, greedily; a target is fed to it as
        the start token and the target's tokens but the last. Every layer's mask is found by where its weights are
        (`attncli.models.transformers_masks`).
        """
        self.check(request)
        for text, pair in inputs:
            yield self.record(self.run(self.read(text, pair, request.pad_to), request), request)

    def check(self, request: Request) -> None:
        if request.measure == "norm":
            raise RequestError("transformers does not give values: leave --measure norm out")
        if request.vectors not in (None, "none"):
            raise RequestError("transformers does not give q and k: leave --vectors out")
        part = self.part(request)
        if request.mask not in on_any() and not (request.mask == "causal" and part == "decoder"):
            what = "a cross-attention" if part == "cross" else f"a{'n' if part == 'encoder' else ''} {part}"
            hides = "hide the future from" if request.mask == "causal" else f"put the mask {request.mask} on"
            raise RequestError(f"transformers does not {hides} {what}: --mask {' or '.join(on_any())}")

    # --- what the model has -------------------------------------------------------------------------------

    @property
    def parts(self) -> tuple[str, ...]:
        """The attentions that it has, in the words of `AttentionRecord.kind`."""
        if self.paired:
            return choices.names(choices.Kind)
        return ("encoder",) if self.looks_ahead else ("decoder",)

    @cached_property
    def looks_ahead(self) -> bool:
        """Whether a token attends to those after it. Found by trying: no configuration says so for all models."""
        ids = torch.arange(1, 5, device=self.network.device)[None]
        maps = self.called(self.network, "attentions", {"input_ids": ids, "attention_mask": torch.ones_like(ids)})
        return bool(allowed(maps).triu(1).any())

    def part(self, request: Request) -> str:
        """The part that is meant. Raises RequestError for one that the model does not have."""
        if self.paired:
            return request.which or "cross"
        [only] = self.parts
        if request.which not in (None, only):
            raise RequestError(
                f"{self.place.name} has no {request.which} attention: it is one {only}; leave --which out"
            )
        if request.target is not None:
            raise RequestError(f"{self.place.name} is one {only}, which writes nothing: leave --target out")
        return only

    def writes(self, request: Request) -> bool:
        return self.paired and self.part(request) != "encoder"

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
            notation=backend.notation,
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
        first = tokens_of(pieces(self.tokenizer, [start]), self.cutter("decoder").notation)
        return Tokens(**{name: [*values, *getattr(wanted, name)[:-1]] for name, values in vars(first).items()})

    def answer_of(self, inputs: dict[str, Tensor]) -> Tokens:
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
        return tokens_of(pieces(self.tokenizer, ids[0, :-1].tolist()), self.cutter("decoder").notation)

    # --- running ------------------------------------------------------------------------------------------

    def run(self, read: Tokens, request: Request) -> Maps:
        """All maps of one text."""
        part, inputs = self.part(request), self.inputs(read, request.mask)
        if not self.paired:
            return Maps(part, read, None, self.called(self.network, "attentions", inputs))
        if part == "encoder":
            return Maps(part, read, None, self.called(self.stack(part), "attentions", inputs))
        fed = self.answer_of(inputs) if request.target is None else self.taught(request.target)
        inputs["decoder_input_ids"] = torch.tensor([fed.ids], device=self.network.device)
        weights = self.called(self.network, f"{part}_attentions", inputs)
        return Maps(part, fed, read if part == "cross" else None, weights)

    def inputs(self, tokens: Tokens, mask: str) -> dict[str, Tensor]:
        """What the network is called with, `[1, token]` each; a decoder hides the future by itself."""
        real = torch.tensor([[not padding for padding in tokens.padding]])
        seen = self_mask(real, *for_all_queries(mask))[0, 0, 0].int().tolist()
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

    def record(self, maps: Maps, request: Request) -> AttentionRecord:
        """What was asked for of the maps. Raises RequestError for a layer or head out of range, and for NaN."""
        count = len(maps.weights), len(maps.weights[0])
        layers, heads = select(request.layers, count[0], "layer"), select(request.heads, count[1], "head")
        weights = torch.stack([maps.weights[layer][heads] for layer in layers]).to(device="cpu", dtype=torch.float32)
        if not weights.isfinite().all():
            raise RequestError(f"a weight of {self.place.name} is no number: another --dtype has more room")
        config = self.stack(maps.part).config.get_text_config()
        kinds = ["cross"] * count[0] if maps.part == "cross" else layer_kinds(config, count[0])
        masks = masks_of(maps.weights, kinds)
        return AttentionRecord(
            weights=weights.numpy(),
            layers=layers,
            heads=heads,
            tokens=maps.tokens,
            masks=torch.stack([masks[layer] for layer in layers]).cpu().numpy(),
            mask_name="causal" if maps.part == "decoder" else request.mask,
            model=ModelInfo(
                self.place.name, str(self.place.path), self.sha256, *count, getattr(config, "hidden_size", 0)
            ),
            key_tokens=maps.key_tokens,
            kind=maps.part,
        )
