"""Networks of many libraries, what they are called with, and the attention maps that they themselves give.

`python tests/networks.py` writes the table of what `attncli.capture` sees of each into attncli/models/README.md.
"""

import copy
import importlib.util
import math
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from own_networks import D2L, HEADS, WIDTH, Annotated, Fairseq, FusedGPT, Lucidrains, NanoGPT, OfAnImage, Stack
from torch import Tensor, nn

README = Path(__file__).parents[1] / "attncli" / "models" / "README.md"
MARKERS = "<!-- table of networks -->", "<!-- end of the table of networks -->"
TEXTS, TOKENS = 2, 6


class Case(NamedTuple):
    """A network, its inputs, and what gives its own maps `[text, head, query, key]`, in order."""

    network: nn.Module
    inputs: dict[str, Any]
    theirs: Callable[[nn.Module, dict[str, Any]], list[Tensor]] | None = None  # None: of a formula in torch's place

    def call(self, network: nn.Module | None = None) -> Any:
        inputs = dict(self.inputs)
        return (network or self.network)(*inputs.pop("", ()), **inputs)

    def to(self, dtype: torch.dtype) -> "Case":
        def cast(value: Any) -> Any:
            if isinstance(value, tuple):
                return tuple(map(cast, value))
            return value.to(dtype) if isinstance(value, Tensor) and value.is_floating_point() else value

        return self._replace(network=self.network.to(dtype), inputs={name: cast(x) for name, x in self.inputs.items()})


class Row(NamedTuple):
    """A network of the table. make: makes its case."""

    name: str
    library: str
    make: Callable[[], Case]

    def case(self, dropout: bool = False) -> Case:
        torch.manual_seed(0)
        case = self.make()
        if not dropout:
            without_dropout(case.network)
        case.network.eval()
        return case


def without_dropout(network: nn.Module) -> None:
    for one in network.modules():
        for name in ("p",) if isinstance(one, nn.Dropout) else ("dropout", "attention_dropout", "layerdrop"):
            if isinstance(getattr(one, name, None), float):
                setattr(one, name, 0.0)


ROWS: list[Row] = []


def row(library: str, name: str) -> Callable[[Callable[[], Case]], Callable[[], Case]]:
    def added(make: Callable[[], Case]) -> Callable[[], Case]:
        ROWS.append(Row(name, library, make))
        return make

    return added


def is_here(library: str) -> bool:
    """Return whether a library is installed, or needs no installing."""
    name = {"by hand": "torch", "fair-esm": "esm"}.get(library, library.replace("-", "_"))
    return importlib.util.find_spec(name.partition(".")[0]) is not None


# --- maps that networks give themselves --------------------------------------------------------------------


def by_heads(case_network: nn.Module, inputs: dict[str, Any]) -> list[Tensor]:
    """Return what each nn.MultiheadAttention gives when it is asked for its weights."""
    found: list[Tensor] = []

    def ask(module: nn.Module, args: Any, options: dict[str, Any]) -> Any:
        return args, {**options, "need_weights": True, "average_attn_weights": False}

    hooks = [
        hook
        for one in case_network.modules()
        if isinstance(one, nn.MultiheadAttention)
        for hook in (
            one.register_forward_pre_hook(ask, with_kwargs=True),
            one.register_forward_hook(lambda module, args, output: found.append(output[1].detach())),
        )
    ]
    before = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        Case(case_network, inputs).call()
    finally:
        torch.backends.mha.set_fastpath_enabled(before)
        for hook in hooks:
            hook.remove()
    return found


def by_dropout(*names: str) -> Callable[[nn.Module, dict[str, Any]], list[Tensor]]:
    """Return what goes into modules of these names: weights, before a dropout. Fused kernels are switched off."""

    def theirs(network: nn.Module, inputs: dict[str, Any]) -> list[Tensor]:
        found: list[Tensor] = []
        plain = copy.deepcopy(network)
        for name, one in plain.named_modules():
            if getattr(one, "fused_attn", False):
                one.fused_attn = False
            if name.rpartition(".")[2] in names:
                one.register_forward_hook(lambda module, args, output: found.append(args[0].detach()))
        Case(plain, inputs).call()
        return found

    return theirs


def by_seen(network: nn.Module, inputs: dict[str, Any]) -> list[Tensor]:
    """Return the weights that networks of ours keep."""
    Case(network, inputs).call()
    return [one.seen.detach() for one in network.modules() if hasattr(one, "seen")]


def by_eager(network: Any, inputs: dict[str, Any]) -> list[Tensor]:
    """Return the attentions of a network of transformers, of its encoder, then layer by layer of its decoder."""
    config, dtype = copy.deepcopy(network.config), next(network.parameters()).dtype
    plain = type(network)._from_config(config, attn_implementation="eager").to(dtype)
    plain.load_state_dict(network.state_dict())
    without_dropout(plain.train(network.training))
    softmax = F.softmax
    if network.config._attn_implementation != "eager":  # which rounds float64 to float32, where fused kernels do not
        F.softmax = lambda x, dim=None, **more: softmax(x, dim)
    try:
        with torch.no_grad():
            found = plain(**inputs, output_attentions=True)
    finally:
        F.softmax = softmax
    if getattr(found, "encoder_attentions", None) is None:
        return list(found.attentions)
    layers = zip(found.decoder_attentions, found.cross_attentions, strict=True)
    return [*found.encoder_attentions, *(one for layer in layers for one in layer)]


@contextmanager
def formula_in_place() -> Iterator[list[Tensor]]:
    """Put the formula in the place of torch's fused attention. Yield the weights that it computes."""
    found: list[Tensor] = []

    def attention(
        query: Tensor,
        key: Tensor,
        value: Tensor,
        attn_mask: Tensor | None = None,
        dropout_p: float = 0.0,
        is_causal: bool = False,
        scale: float | None = None,
        enable_gqa: bool = False,
    ) -> Tensor:
        if enable_gqa:
            key, value = (one.repeat_interleave(query.shape[1] // one.shape[1], 1) for one in (key, value))
        scores = query @ key.mT * (query.shape[-1] ** -0.5 if scale is None else scale)
        if is_causal:
            attn_mask = torch.ones(scores.shape[-2:], dtype=torch.bool).tril()
        if attn_mask is not None:
            masked = attn_mask.dtype == torch.bool
            scores = scores.masked_fill(~attn_mask, -math.inf) if masked else scores + attn_mask
        weights = scores.softmax(-1).nan_to_num(0.0)
        found.append(weights.detach())
        return weights @ value

    real = F.scaled_dot_product_attention
    F.scaled_dot_product_attention = attention
    try:
        yield found
    finally:
        F.scaled_dot_product_attention = real


def expected_maps(case: Case) -> list[Tensor]:
    """Return the maps of a case by the library's own means, or by the formula."""
    if case.theirs is not None:
        return case.theirs(case.network, case.inputs)
    with formula_in_place() as found:
        case.call()
    return found


# --- torch.nn ----------------------------------------------------------------------------------------------

PADDING = torch.tensor([[False] * 6, [False] * 4 + [True] * 2])


def vectors(*shape: int) -> Tensor:
    return torch.randn(*(shape or (TEXTS, TOKENS, WIDTH)))


def layer(kind: Any = nn.TransformerEncoderLayer, **options: Any) -> nn.Module:
    return kind(WIDTH, HEADS, 64, batch_first=True, **options)


@row("torch.nn", "TransformerEncoder")
def encoder() -> Case:
    network = nn.TransformerEncoder(layer(), 2)
    return Case(network, {"": (vectors(),), "src_key_padding_mask": PADDING}, by_heads)


@row("torch.nn", "TransformerEncoder, norm first, causal")
def causal_encoder() -> Case:
    mask = nn.Transformer.generate_square_subsequent_mask(TOKENS)
    network = nn.TransformerEncoder(layer(norm_first=True), 2, enable_nested_tensor=False)
    return Case(network, {"": (vectors(), mask), "is_causal": True}, by_heads)


@row("torch.nn", "TransformerDecoder")
def decoder() -> Case:
    network = nn.TransformerDecoder(layer(nn.TransformerDecoderLayer), 2)
    hidden = torch.ones(3, 3, dtype=torch.bool).triu(1)
    inputs = {"": (vectors(TEXTS, 3, WIDTH), vectors()), "tgt_mask": hidden, "memory_key_padding_mask": PADDING}
    return Case(network, inputs, by_heads)


@row("torch.nn", "Transformer")
def transformer() -> Case:
    network = nn.Transformer(WIDTH, HEADS, 2, 2, 64, batch_first=True)
    hidden = {"src_key_padding_mask": PADDING, "memory_key_padding_mask": PADDING}
    return Case(network, {"": (vectors(), vectors(TEXTS, 4, WIDTH)), **hidden}, by_heads)


@row("torch.nn", "MultiheadAttention, bias_k and zeros")
def with_bias() -> Case:
    network = nn.MultiheadAttention(WIDTH, HEADS, add_bias_kv=True, add_zero_attn=True)
    x, mask = vectors(TOKENS, TEXTS, WIDTH), torch.randn(TEXTS * HEADS, TOKENS, TOKENS)
    return Case(network, {"": (x, x, x), "attn_mask": mask}, by_heads)


@row("torch.nn", "MultiheadAttention, own widths of keys and values")
def with_widths() -> Case:
    network = nn.MultiheadAttention(WIDTH, HEADS, kdim=12, vdim=20, batch_first=True)
    inputs = {"": (vectors(TEXTS, 3, WIDTH), vectors(TEXTS, TOKENS, 12), vectors(TEXTS, TOKENS, 20))}
    return Case(network, {**inputs, "key_padding_mask": PADDING}, by_heads)


# --- transformers ------------------------------------------------------------------------------------------

SMALL = {"vocab_size": 50, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 40}
OLD = {"vocab_size": 50, "n_embd": 32, "n_layer": 2, "n_head": 4, "bos_token_id": 1, "eos_token_id": 1}
SHARED = {**SMALL, "num_key_value_heads": 2, "head_dim": 8, "pad_token_id": 0}
WINDOWS = {"layer_types": ["sliding_attention", "full_attention"], "sliding_window": 3}
PICTURES = {"image_size": 32, "patch_size": 8}
OF_TEXT = {
    "bert": SMALL,
    "distilbert": {"vocab_size": 50, "dim": 32, "n_layers": 2, "n_heads": 4, "hidden_dim": 40},
    "mpnet": SMALL,
    "deberta-v2": {**SMALL, "relative_attention": True, "pos_att_type": ["c2p", "p2c"]},
    "roformer": SMALL,
    "xlnet": {"vocab_size": 50, "d_model": 32, "n_layer": 2, "n_head": 4, "d_inner": 40},
    "gpt2": OLD,
    "gptj": {**OLD, "rotary_dim": 8},
    "llama": SHARED,
    "qwen2": SHARED,
    "mistral": {**SHARED, "sliding_window": 3},
    "gemma2": {**SHARED, **WINDOWS},
    "gpt_oss": {**SHARED, **WINDOWS, "num_local_experts": 2, "num_experts_per_tok": 1},
    "falcon": SMALL,
    "bloom": {"vocab_size": 50, "hidden_size": 32, "n_layer": 2, "n_head": 4},
}


def of_transformers(kind: str, sizes: dict[str, Any], inputs: dict[str, Any]) -> Case:
    import transformers

    config = transformers.AutoConfig.for_model(kind, **sizes)
    config._experts_implementation = "eager"
    return Case(transformers.AutoModel.from_config(config), inputs, by_eager)


def ids(tokens: int = TOKENS) -> Tensor:
    return torch.randint(3, 50, (TEXTS, tokens))


for kind, sizes in OF_TEXT.items():

    def of_text(kind: str = kind, sizes: dict[str, Any] = sizes) -> Case:
        case = of_transformers(kind, sizes, {"input_ids": ids(), "attention_mask": (~PADDING).long()})
        return case._replace(theirs=None) if kind == "gptj" else case  # whose own eager attention is of float32

    ROWS.append(Row(kind, "transformers", of_text))


@row("transformers", "t5")
def t5() -> Case:
    sizes = {"vocab_size": 50, "d_model": 32, "d_kv": 8, "d_ff": 40, "num_layers": 2, "num_heads": 4}
    inputs = {"input_ids": ids(), "attention_mask": (~PADDING).long(), "decoder_input_ids": ids(4)}
    return of_transformers("t5", sizes, inputs)


@row("transformers", "bart")
def bart() -> Case:
    sizes = {"encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 4, "decoder_attention_heads": 4}
    wide = {"vocab_size": 50, "d_model": 32, "encoder_ffn_dim": 40, "decoder_ffn_dim": 40}
    inputs = {"input_ids": ids(), "attention_mask": (~PADDING).long(), "decoder_input_ids": ids(4)}
    return of_transformers("bart", {**sizes, **wide}, inputs)


@row("transformers", "whisper")
def whisper() -> Case:
    sizes = {"encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 4, "decoder_attention_heads": 4}
    wide = {"vocab_size": 50, "d_model": 32, "encoder_ffn_dim": 40, "decoder_ffn_dim": 40, "num_mel_bins": 8}
    more = {"max_source_positions": 10, "max_target_positions": 20, "decoder_start_token_id": 3, "pad_token_id": 0}
    inputs = {"input_features": vectors(TEXTS, 8, 20), "decoder_input_ids": ids(5)}
    return of_transformers("whisper", {**sizes, **wide, **more}, inputs)


@row("transformers", "vit")
def vit() -> Case:
    return of_transformers("vit", {**SMALL, **PICTURES}, {"pixel_values": vectors(TEXTS, 3, 32, 32)})


@row("transformers", "perceiver")
def perceiver() -> Case:
    sizes = {"num_latents": 5, "d_latents": 16, "d_model": 16, "num_self_attends_per_block": 2}
    heads = {"num_cross_attention_heads": 2, "num_self_attention_heads": 2}
    case = of_transformers("perceiver", {**sizes, **heads}, {"inputs": vectors(TEXTS, TOKENS, 16)})

    def theirs(network: Any, inputs: dict[str, Any]) -> list[Tensor]:
        found = network(**inputs, output_attentions=True)
        return [one.detach() for one in (*found.cross_attentions, *found.attentions)]

    return case._replace(theirs=theirs)


# --- pictures: timm, torchvision, open_clip, diffusers -----------------------------------------------------

OF_TIMM = {
    "vit_tiny_patch16_224": {"depth": 2},
    "deit3_small_patch16_224": {"depth": 1},
    "eva02_tiny_patch14_224": {"depth": 2, "img_size": 28},
    "beit_base_patch16_224": {"depth": 1},
    "swin_tiny_patch4_window7_224": {"depths": (1, 1), "window_size": 4},
}

for name, sizes in OF_TIMM.items():

    def of_timm(name: str = name, sizes: dict[str, Any] = sizes) -> Case:
        import timm

        network = timm.create_model(name, pretrained=False, **{"img_size": 32, **sizes})
        size = sizes.get("img_size", 32)
        return Case(network, {"": (vectors(TEXTS, 3, size, size),)}, by_dropout("attn_drop"))

    ROWS.append(Row(name, "timm", of_timm))


@row("torchvision", "VisionTransformer")
def of_torchvision() -> Case:
    from torchvision.models import VisionTransformer

    return Case(VisionTransformer(32, 8, 2, HEADS, WIDTH, 64), {"": (vectors(TEXTS, 3, 32, 32),)}, by_heads)


@row("open_clip", "CLIP")
def clip() -> Case:
    import open_clip

    seeing = open_clip.CLIPVisionCfg(layers=2, width=32, head_width=8, **PICTURES)
    reading = open_clip.CLIPTextCfg(context_length=9, vocab_size=60, width=32, heads=4, layers=2)
    network = open_clip.CLIP(32, seeing, reading)
    return Case(network, {"": (vectors(TEXTS, 3, 32, 32), torch.randint(1, 60, (TEXTS, 9)))}, by_heads)


def diffusion() -> Case:
    from diffusers import UNet2DConditionModel

    network = UNet2DConditionModel(
        sample_size=8, block_out_channels=(16, 32), layers_per_block=1, cross_attention_dim=16, norm_num_groups=8,
        down_block_types=("CrossAttnDownBlock2D", "DownBlock2D"), attention_head_dim=8,
        up_block_types=("UpBlock2D", "CrossAttnUpBlock2D"),
    )  # fmt: skip
    steps = torch.tensor([3, 3])
    return Case(network, {"": (vectors(TEXTS, 4, 8, 8), steps, vectors(TEXTS, 7, 16)), "return_dict": False})


@row("diffusers", "UNet2DConditionModel")
def fused_diffusion() -> Case:
    def theirs(network: Any, inputs: dict[str, Any]) -> list[Tensor]:
        return [one.unflatten(0, (TEXTS, -1)) for one in of_scores(plain_processors(network), inputs)]

    return diffusion()._replace(theirs=theirs)


@row("diffusers", "UNet2DConditionModel, without the fused kernel")
def plain_diffusion() -> Case:
    def theirs(network: Any, inputs: dict[str, Any]) -> list[Tensor]:
        return [one[None] for one in of_scores(network, inputs)]  # heads of all texts: a batch is not to be told

    case = diffusion()
    return case._replace(network=plain_processors(case.network), theirs=theirs)


def plain_processors(network: Any) -> Any:
    from diffusers.models.attention_processor import AttnProcessor

    network = copy.deepcopy(network)
    network.set_attn_processor(AttnProcessor())
    return network


def of_scores(network: Any, inputs: dict[str, Any]) -> list[Tensor]:
    """Return what diffusers' own `get_attention_scores` gives."""
    from diffusers.models.attention_processor import Attention

    found, real = [], Attention.get_attention_scores

    def kept(self: Any, *args: Any) -> Tensor:
        found.append(real(self, *args))
        return found[-1]

    Attention.get_attention_scores = kept
    try:
        Case(network, inputs).call()
    finally:
        Attention.get_attention_scores = real
    return [one.detach() for one in found]


@row("diffusers", "DiTTransformer2DModel")
def dit() -> Case:
    from diffusers import DiTTransformer2DModel

    network = DiTTransformer2DModel(
        num_attention_heads=4, attention_head_dim=8, in_channels=4, num_layers=2, sample_size=8, norm_num_groups=8
    )
    numbers = torch.tensor([3, 3]), torch.tensor([1, 2])
    return Case(network, {"": (vectors(TEXTS, 4, 8, 8), *numbers), "return_dict": False})


@row("diffusers", "AutoencoderKL")
def autoencoder() -> Case:
    from diffusers import AutoencoderKL

    network = AutoencoderKL(block_out_channels=(16,), norm_num_groups=8)
    return Case(network, {"": (vectors(TEXTS, 3, 8, 8),), "return_dict": False})


# --- x-transformers, vit-pytorch, fair-esm, sentence-transformers ------------------------------------------

OF_X: dict[str, dict[str, Any]] = {
    "Decoder": {},
    "Decoder, fused": {"attn_flash": True},
    "Decoder, ALiBi and shared keys": {"alibi_pos_bias": True, "attn_kv_heads": 2},
    "Decoder, memory keys": {"attn_num_mem_kv": 3},
    "Decoder, heads that talk before the softmax": {"attn_pre_talking_heads": True},
}


def of_x_intermediates(network: Any, inputs: dict[str, Any]) -> list[Tensor]:
    """Return the post-softmax attention that x-transformers gives with return_attn."""
    found = network(*inputs[""], return_attn=True, **{name: x for name, x in inputs.items() if name})[1]
    return [one.detach() for one in found]


for name, more in OF_X.items():

    def of_x(more: dict[str, Any] = more) -> Case:
        from x_transformers import Decoder, TransformerWrapper

        layers = Decoder(dim=32, depth=2, heads=HEADS, attn_dim_head=8, **more)
        network = TransformerWrapper(num_tokens=50, max_seq_len=16, attn_layers=layers)
        theirs = None if more.get("attn_flash") else of_x_intermediates
        return Case(network, {"": (ids(),), "mask": ~PADDING}, theirs)

    ROWS.append(Row(name, "x-transformers", of_x))


@row("x-transformers", "XTransformer")
def x_pair() -> Case:
    from x_transformers import XTransformer

    sizes = {"num_tokens": 50, "depth": 2, "heads": HEADS, "max_seq_len": 16, "attn_flash": True, "attn_dim_head": 8}
    both = {f"{side}_{name}": value for side in ("enc", "dec") for name, value in sizes.items()}
    return Case(XTransformer(dim=32, **both), {"": (ids(), ids(5))})


@row("vit-pytorch", "ViT")
def lucid_vit() -> Case:
    from vit_pytorch import ViT

    network = ViT(image_size=32, patch_size=8, num_classes=5, dim=32, depth=2, heads=HEADS, mlp_dim=32, dim_head=8)

    def theirs(network: nn.Module, inputs: dict[str, Any]) -> list[Tensor]:
        found: list[Tensor] = []
        plain = copy.deepcopy(network)
        for one in plain.modules():
            if isinstance(one, nn.Softmax):
                one.register_forward_hook(lambda module, args, output: found.append(output.detach()))
        Case(plain, inputs).call()
        return found

    return Case(network, {"": (vectors(TEXTS, 3, 32, 32),)}, theirs)


@row("fair-esm", "ESM2")
def esm2() -> Case:
    import esm

    def theirs(network: Any, inputs: dict[str, Any]) -> list[Tensor]:
        return list(network(*inputs[""], need_head_weights=True)["attentions"].detach().unbind(1))

    network = esm.ESM2(num_layers=2, embed_dim=WIDTH, attention_heads=HEADS)
    return Case(network, {"": (torch.randint(4, 20, (TEXTS, TOKENS)),)}, theirs)


@row("sentence-transformers", "SentenceTransformer")
def sentences() -> Case:
    from sentence_transformers import SentenceTransformer

    from attncli.models.hub import locate

    network = SentenceTransformer(str(locate("minilm").path), device="cpu")
    features = network.tokenize(["The cat sat on the mat.", "It slept."])

    def theirs(network: Any, inputs: dict[str, Any]) -> list[Tensor]:
        return by_eager(network[0].auto_model, {name: inputs[""][0][name] for name in ("input_ids", "attention_mask")})

    return Case(network, {"": (dict(features),)}, theirs)


# --- by hand: tests/own_networks.py ------------------------------------------------------------------------


@row("by hand", "nanoGPT")
def nano() -> Case:
    return Case(Stack(NanoGPT), {"": (ids(),)}, by_seen)


@row("by hand", "nanoGPT, fused")
def fused_nano() -> Case:
    return Case(Stack(FusedGPT), {"": (ids(),)})


@row("by hand", "the Annotated Transformer")
def annotated() -> Case:
    seen = torch.ones(TOKENS, TOKENS, dtype=torch.bool).tril() & ~PADDING[:, None]
    return Case(Stack(Annotated), {"": (ids(), seen)}, by_seen)


@row("by hand", "after fairseq")
def fairseq() -> Case:
    class Pair(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embedding = nn.Embedding(50, WIDTH)
            self.self_attn, self.encoder_attn = Fairseq(), Fairseq()

        def forward(self, target: Tensor, source: Tensor, padding: Tensor) -> Tensor:
            x, memory = (self.embedding(one).transpose(0, 1) for one in (target, source))
            x = x + self.self_attn(x, x)
            return x + self.encoder_attn(x, memory, padding)

    return Case(Pair(), {"": (ids(4), ids(), PADDING)}, by_seen)


@row("by hand", "after d2l")
def d2l() -> Case:
    return Case(Stack(D2L), {"": (ids(), (~PADDING).sum(1))}, by_seen)


@row("by hand", "after lucidrains")
def lucidrains() -> Case:
    return Case(Stack(Lucidrains), {"": (ids(), ~PADDING)}, by_seen)


@row("by hand", "after CompVis' autoencoder")
def of_an_image() -> Case:
    network = nn.Sequential(nn.Conv2d(3, WIDTH, 4, 4), OfAnImage(), OfAnImage())

    def theirs(network: nn.Module, inputs: dict[str, Any]) -> list[Tensor]:
        return [one.transpose(0, 1) for one in by_seen(network, inputs)]  # a batch without heads is not to be told

    return Case(network, {"": (vectors(TEXTS, 3, 12, 12),)}, theirs)


# --- the table in the README -------------------------------------------------------------------------------


def kinds_of(seen: Any) -> str:
    """Return how many attentions of each kind ran, as "2 encoder, 2 cross"."""
    return ", ".join(f"{count} {kind}" for kind, count in Counter(call.kind for call in seen.calls).items())


def main() -> None:
    """Write a row for networks of one library that are seen alike."""
    import attncli

    found: dict[tuple[str, str], list[str]] = {}
    for row in ROWS:
        case = row.case()
        with torch.no_grad(), attncli.capture(case.network, heads=[]) as seen:
            case.call()
        found.setdefault((row.library, kinds_of(seen)), []).append(row.name)
    lines = [f"| {library} | {'; '.join(names)} | {seen} |" for (library, seen), names in found.items()]
    made = "\n".join(["| library | networks | attentions seen |", "| --- | --- | --- |", *lines])
    text = README.read_text(encoding="utf-8")
    before, after = text.split(MARKERS[0])[0], text.split(MARKERS[1])[1]
    README.write_text(f"{before}{MARKERS[0]}\n\n{made}\n\n{MARKERS[1]}{after}", encoding="utf-8")


if __name__ == "__main__":
    main()
