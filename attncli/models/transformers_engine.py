"""Models from elsewhere: whatever transformers can give attentions for, run by transformers.

Decoders (GPT-2, Llama), encoder-decoders (T5, BART, Marian), and any encoder. Models of the BERT family have
attncli's own network in `network.py`; this file is for the rest. The network is loaded in `transformers_network.py`;
that and `transformers_peer.py` are all that import transformers, and no code that a checkpoint brings is run.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from typing import Any, NamedTuple

import torch
from torch import Tensor

from attncli.attention import self_mask
from attncli.base import choices
from attncli.base.errors import RequestError
from attncli.models.checkpoint_files import weight_files
from attncli.models.devices import pick_device, pick_dtype
from attncli.models.engine import Engine
from attncli.models.hub import Place, check_sha256, weights_sha256
from attncli.models.kernels import map_dtype
from attncli.models.own_only import not_given, why_no_encoder
from attncli.models.rows import Run
from attncli.models.storage import STORAGE
from attncli.models.taps import Maps
from attncli.models.transformers_masks import allowed, for_all_queries, layer_kinds, masks_of, on_any
from attncli.models.transformers_network import load_network, on_text_alone, takes
from attncli.models.transformers_place import NAME, Pass, Places, Trial, passing, register
from attncli.models.transformers_tokens import Backend, pieces
from attncli.record import AttentionRecord, ModelInfo, Request
from attncli.record.grouping import grouped
from attncli.record.selection import select
from attncli.text.tokenizer import Tokenizer
from attncli.text.tokens import Tokens, tokens_of

LONGEST_ANSWER = 64  # tokens that a decoder writes by itself


def load_with_transformers(place: Place, device: str, dtype: str) -> "TransformersModel":
    """Load any model that transformers has.

    device, dtype: as for `attncli.load_model`. Raises RequestError when transformers can't load the files.
    """
    chosen, number = pick_device(device), pick_dtype(dtype)
    sha256 = weights_sha256(weight_files(place.path))
    check_sha256(place, sha256)
    network, tokenizer = load_network(place, number)
    return TransformersModel(place, sha256, network.to(chosen).eval(), tokenizer)


class Given(NamedTuple):
    """What a part of a network is given: what it reads and, where an encoder-decoder's decoder takes part in it, what
    that is fed.
    """

    part: str
    read: Tokens
    fed: Tokens | None = None

    @property
    def queries(self) -> Tokens:
        return self.read if self.fed is None else self.fed


class TransformersModel(Engine):
    """A network of transformers with its tokenizer, ready to be asked for the attention of texts.

    theirs: transformers' own tokenizer.
    """

    name = "transformers"

    def __init__(self, place: Place, sha256: str, network: Any, theirs: Any) -> None:
        self.place = place
        self.sha256 = sha256
        self.network = network
        self.device = network.device
        self.theirs = theirs
        self.paired: bool = network.config.is_encoder_decoder
        self.infos: dict[str, ModelInfo] = {}
        self.tokenizer = self.cutter("encoder")

    def attend_tokens(self, texts: Iterable[Tokens], request: Request) -> Iterator[AttentionRecord]:
        """One text after the other; layers and heads are counted in the part asked for.

        A decoder that writes its own output writes at most LONGEST_ANSWER tokens, greedily; a target is fed to it as
        the start token and the target's tokens but the last. A network that calls our attention function is asked for
        these layers and heads alone (`attncli.models.transformers_place`). Of another one all maps are made, and every
        layer's mask is found by where its weights are (`attncli.models.transformers_masks`).
        """
        for read in texts:
            given = self.given(read, request)
            made = (
                self.record(given, self.maps(given, request.mask), request)
                if self.places is None
                else self.taken(given, request)
            )
            yield grouped(made, request.grouping)

    def check(self, request: Request) -> None:
        if request.measure == "norm":
            raise not_given("norms need values and the output projection", "the measure norm", self.place)
        if request.vectors not in (None, "none"):
            raise not_given("vectors are queries and keys", "--vectors or --terms", self.place)
        why = self.why_not(request.mask, self.part(request))
        if why is not None:
            own = ", or leave --engine transformers out" if why_no_encoder(self.place) is None else ""
            raise RequestError(f"{why}: --mask {' or '.join(on_any())}{own}")

    def why_not(self, mask: str, kind: str) -> str | None:
        if mask in on_any() or (mask == "causal" and kind == "decoder"):
            return None
        what = {"encoder": "an encoder", "decoder": "a decoder", "cross": "a cross-attention"}[kind]
        hides = "hide the future from" if mask == "causal" else f"put the mask {mask} on"
        return f"transformers does not {hides} {what}"

    # --- what the model has -------------------------------------------------------------------------------

    @property
    def parts(self) -> tuple[str, ...]:
        if self.paired:
            return choices.names(choices.Kind)
        return ("encoder",) if self.looks_ahead else ("decoder",)

    @cached_property
    def looks_ahead(self) -> bool:
        """Whether a token attends to those after it. Found by trying: no configuration says so for all models."""
        given = Given("encoder", self.four)
        if self.places is None:
            return bool(allowed(self.maps(given, "padding")).triu(1).any())
        current = Pass(self.places, "encoder", ())
        with passing(current):
            self.passed(given, "padding")
        return any(mask is None or bool(mask.triu(1).any()) for mask in current.masks.values())

    @property
    def four(self) -> Tokens:
        """Four tokens, to try what the network does."""
        return tokens_of(pieces(self.theirs, [1, 2, 3, 4]))

    @property
    def dtype_name(self) -> str:
        return str(self.network.dtype).removeprefix("torch.")

    def info_of(self, which: str | None) -> ModelInfo:
        """Found by trying, once: configurations have many words for it."""
        part = self.part(Request(which=which))
        if part not in self.infos and self.places is not None:
            of = part if self.paired else "encoder"
            self.infos[part] = self.info_with(part, max(self.places.numbers(of)) + 1, self.places.heads[of])
        if part not in self.infos:
            given = Given(part, self.four, self.four if self.paired and part != "encoder" else None)
            self.infos[part] = self.info_by(part, self.maps(given, "padding"))
        return self.infos[part]

    def info_by(self, part: str, maps: Sequence[Tensor]) -> ModelInfo:
        """By the maps that a part gives."""
        return self.info_with(part, len(maps), len(maps[0]))

    def info_with(self, part: str, layers: int, heads: int) -> ModelInfo:
        """Name the model, with so many layers and heads of a part."""
        size = getattr(self.stack(part).config.get_text_config(), "hidden_size", 0)
        return ModelInfo(self.place.name, str(self.place.path), self.sha256, layers, heads, size)

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

    # --- tokens -------------------------------------------------------------------------------------------

    def cutter(self, part: str) -> Tokenizer:
        """attncli's tokenizer, around transformers' own, for what a part of the model is given."""
        stack = self.stack(part)
        positions = getattr(stack.config.get_text_config(), "max_position_embeddings", None)
        limits = [self.theirs.model_max_length]
        limits += [positions] if positions and positions > 0 else []  # T5 has no positions to run out of
        backend: Any = Backend(self.theirs, target=part != "encoder")
        with on_text_alone("transformers does not say how many tokens it has for", self.place, self.network.config):
            vocab_size = stack.get_input_embeddings().num_embeddings
        return Tokenizer(backend, min(limits), vocab_size, self.theirs.pad_token_id, backend.notation)

    @cached_property
    def fed(self) -> Tokenizer:
        """The one for what the decoder is fed."""
        return self.cutter("decoder")

    def taught(self, target: str) -> Tokens:
        """What the decoder is fed to write the target: the start token, and the target's tokens but the last."""
        wanted = self.fed.encode(target)
        if hasattr(self.network, "prepare_decoder_input_ids_from_labels"):
            labels = torch.tensor([wanted.ids], device=self.device)
            with self.running():
                start = int(self.network.prepare_decoder_input_ids_from_labels(labels)[0, 0])
        else:
            start = self.network.config.decoder_start_token_id
        first = tokens_of(pieces(self.theirs, [start]), self.fed.notation)
        return Tokens(**{name: [*values, *getattr(wanted, name)[:-1]] for name, values in vars(first).items()})

    def answer_of(self, inputs: dict[str, Tensor]) -> Tokens:
        """What the decoder is fed to write its own greedy output: the start token, and its tokens but the last.

        The same every time.
        """
        longest = min(LONGEST_ANSWER, self.fed.max_tokens)
        with self.running():
            ids = self.network.generate(
                **inputs,
                do_sample=False,
                num_beams=1,
                num_return_sequences=1,
                max_new_tokens=longest,
                return_dict_in_generate=False,
            )
        return tokens_of(pieces(self.theirs, ids[0, :-1].tolist()), self.fed.notation)

    # --- running ------------------------------------------------------------------------------------------

    def given(self, read: Tokens, request: Request) -> Given:
        """What a request's part is given of a text. Raises RequestError as `part` does."""
        part = self.part(request)
        if not self.paired or part == "encoder":
            return Given(part, read)
        if request.target is None:
            return Given(part, read, self.answer_of(self.inputs(read, request.mask)))
        return Given(part, read, self.taught(request.target))

    def inputs(self, tokens: Tokens, mask: str) -> dict[str, Tensor]:
        """What the network is called with, `[1, token]` each; a decoder hides the future by itself."""
        real = torch.tensor([[not padding for padding in tokens.padding]])
        seen = self_mask(real, *for_all_queries(mask))[0, 0, 0].int().tolist()
        inputs = {"input_ids": tokens.ids, "attention_mask": seen}
        if self.tells_segments:
            inputs["token_type_ids"] = tokens.segments
        return {name: torch.tensor([values], device=self.device) for name, values in inputs.items()}

    @cached_property
    def tells_segments(self) -> bool:
        """Whether the network is told of segments: its tokenizer gives them, and it takes them, and has several kinds.

        A network that does not say how many kinds it has has them if its tokenizer gives them.
        """
        reads = self.stack("encoder")
        given = "token_type_ids" in self.theirs.model_input_names and takes(reads, "token_type_ids")
        return given and getattr(reads.config, "type_vocab_size", 2) > 1

    @cached_property
    def places(self) -> Places | None:
        """The modules that call our attention function; None where the network does not call one."""
        given = Given("encoder", self.four)
        if self.paired:
            given = Given("cross", self.four, tokens_of(pieces(self.theirs, [1, 2, 3])))
        trial = Trial()
        register()
        try:
            with self.running(), passing(trial):
                self.network.set_attn_implementation(NAME)
                self.passed(given, "padding")
        except RequestError:
            trial.calls.clear()
        if not trial.calls:
            self.network.set_attn_implementation("eager")
            return None
        encoder = self.network.get_encoder() if self.paired else None
        return Places.of(self.network, trial, encoder, 3)

    def taken(self, given: Given, request: Request) -> AttentionRecord:
        """Make the record of what a request asks of a text, from a pass through our place."""
        places, part = self.places, given.part if self.paired else "encoder"
        assert places is not None
        info, there = self.info_of(given.part), places.numbers(part)
        layers = there if request.layers == "all" else select(request.layers, info.layers, "layer")
        if absent := [layer for layer in layers if layer not in there]:
            raise RequestError(f"layer {absent[0]} of {self.place.name} has no attention: ask for some of {there}")
        heads = select(request.heads, info.heads, "head")
        queries, keys = len(given.queries), len(given.queries if given.part == "decoder" else given.read)
        run = Run(0, [0], slice(0, queries), queries, [], None, True, keys)
        like = torch.empty(0, dtype=self.network.dtype, device=self.device)
        like = like.to(map_dtype(like))
        maps = Maps([run], layers, heads, lambda shape: STORAGE.empty(shape, like))
        current = Pass(places, part, [maps], max(layers))
        with passing(current):
            self.passed(given, request.mask)
        weights = maps.kept[0][0].to(device="cpu", dtype=torch.float32)
        if not weights.isfinite().all():
            raise RequestError(f"a weight of {self.place.name} is no number: another --dtype has more room")
        everything = torch.ones(queries, keys, dtype=torch.bool)
        masks = [everything if one is None else one[0, 0].cpu() for one in map(current.masks.__getitem__, layers)]
        return AttentionRecord(
            weights=weights.numpy(),
            layers=layers,
            heads=heads,
            tokens=given.queries,
            masks=torch.stack([one.expand(queries, keys) for one in masks]).numpy(),
            mask_name="causal" if given.part == "decoder" else request.mask,
            model=info,
            key_tokens=given.read if given.part == "cross" else None,
            kind=given.part,
            dtype=self.dtype_name,
        )

    def passed(self, given: Given, mask: str, **asked: bool) -> Any:
        """What one forward pass gives."""
        inputs = self.inputs(given.read, mask)
        if given.fed is None:
            module = self.stack(given.part)
        else:
            module = self.network
            inputs["decoder_input_ids"] = torch.tensor([given.fed.ids], device=self.device)
        with self.running():
            return module(**inputs, **asked)

    def maps(self, given: Given, mask: str) -> list[Tensor]:
        """Every layer's weights `[head, query, key]`. Raises RequestError when there is not one map a head."""
        name = "attentions" if given.fed is None else f"{given.part}_attentions"
        maps = getattr(self.passed(given, mask, output_attentions=True), name, None)
        if not maps or any(layer is None for layer in maps):
            raise RequestError(f"transformers gives no attention of {self.place.name}: not all its layers have any")
        keys = len(given.queries if given.part == "decoder" else given.read)
        if any(layer.shape != (1, maps[0].shape[1], len(given.queries), keys) for layer in maps):
            raise RequestError(f"the attention of {self.place.name} has another shape than a map of tokens a head")
        return [layer[0] for layer in maps]

    def hidden_states(self, tokens: Tokens, mask: str = "padding", positions: bool = True) -> list[Tensor]:
        if not positions:
            raise RequestError("transformers does not leave the positions out")
        part = self.parts[0]
        if (why := self.why_not(mask, part)) is not None:
            raise RequestError(why)
        return [states[0] for states in self.passed(Given(part, tokens), mask, output_hidden_states=True).hidden_states]

    @contextmanager
    def running(self) -> Iterator[None]:
        """Without gradients and without a word, and with what transformers refuses as one line."""
        with on_text_alone("transformers can't run", self.place, self.network.config), torch.inference_mode():
            yield

    def record(self, given: Given, maps: Sequence[Tensor], request: Request) -> AttentionRecord:
        """What was asked for of the maps. Raises RequestError for a layer or head out of range, and for NaN."""
        part, info = given.part, self.info_by(given.part, maps)
        layers, heads = select(request.layers, info.layers, "layer"), select(request.heads, info.heads, "head")
        weights = torch.stack([maps[layer][heads] for layer in layers]).to(device="cpu", dtype=torch.float32)
        if not weights.isfinite().all():
            raise RequestError(f"a weight of {self.place.name} is no number: another --dtype has more room")
        kinds = layer_kinds(self.stack(part).config.get_text_config(), info.layers)
        masks = masks_of(maps, ["cross"] * info.layers if part == "cross" else kinds)
        return AttentionRecord(
            weights=weights.numpy(),
            layers=layers,
            heads=heads,
            tokens=given.queries,
            masks=torch.stack([masks[layer] for layer in layers]).cpu().numpy(),
            mask_name="causal" if part == "decoder" else request.mask,
            model=info,
            key_tokens=given.read if part == "cross" else None,
            kind=part,
            dtype=self.dtype_name,
        )
