"""Ways in which numbers are made in a network that transformers runs, beside its own eager attention.

As `attncli.checks.ways` for attncli's own networks: each goes through the very call that the commands make.
"""

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor

from attncli.attention import MASKS
from attncli.base.errors import RequestError
from attncli.checks.agreement import Way, difference, worst
from attncli.checks.beside import NothingToCompare
from attncli.checks.eager import BesideEager, asked, cut, real_rows, real_tokens, without
from attncli.checks.passes import is_half
from attncli.checks.ways import Check, each_way
from attncli.checks.ways_of_gradients import Along
from attncli.effects.change import Edge, Head, Hide, Put, Unchanged
from attncli.effects.gradients import gate_gradients
from attncli.models.taken import Taken, as_record
from attncli.record import Request
from attncli.record.grouping import axes_of
from attncli.record.request import Grouping
from attncli.record.selection import Selection
from attncli.text.tokens import Fed, Read, Tokens

SOME = 4  # tokens of [PAD]


def taken(
    both: BesideEager, texts: list[Tokens], layers: Selection | None = None, heads: Selection = "all", **more: object
) -> list[tuple[Tokens, Taken]]:
    """Return what the model gives of each text, by default of the layers that are compared."""
    request = Request(both.layers if layers is None else layers, heads, mask=both.mask, **more)  # type: ignore[arg-type]
    return list(zip(texts, both.model.take([asked(one) for one in texts], request), strict=True))


def all_apart(both: BesideEager, found: list[tuple[Tokens, Taken]]) -> float:
    """Return how far the weights of several texts are from theirs."""
    return worst(both.apart(one, text) for text, one in found)


def together(both: BesideEager) -> float:
    """Texts of mixed lengths in one pass, several of each length; they come in their order."""
    lengths = [(one, length) for one in both.plain for length in (real_tokens(one) // 2 or 1, real_tokens(one))]
    mixed = [cut(one, length, fed) for one, length in lengths for fed in (len(one.spoken), len(one.spoken) // 2 or 1)]
    found = taken(both, mixed)
    strayed = sum(one.tokens.ids != text.ids for text, one in found)
    return worst([float(strayed), all_apart(both, found)])


def one_layer(both: BesideEager) -> float:
    """One layer alone: the pass ends there."""
    return worst(all_apart(both, taken(both, both.texts, [layer])) for layer in both.ends)


def some_heads(both: BesideEager) -> float:
    """Two heads of one layer alone, others in each, the later one first."""
    heads = both.model.heads
    pairs = [(layer, [(layer + 1) % heads, layer % heads] if heads > 1 else [0]) for layer in both.ends]
    return worst(all_apart(both, taken(both, both.texts, [layer], some)) for layer, some in pairs)


def some_heads_of_all(both: BesideEager) -> float:
    """Two heads of all layers, the later ones first. The others go through the fused kernel."""
    return all_apart(both, taken(both, both.texts, both.layers[::-1], both.outer_heads))


def padded(both: BesideEager) -> list[tuple[Tokens, Tokens]]:
    """Return each text, and the first half of it, without and with [PAD] on the right."""
    if both.model.tokenizer.pad_id is None:
        raise NothingToCompare("its tokenizer has no padding token")
    return [(part, pad(both, part)) for one in both.plain for part in (one, cut(one, real_tokens(one) // 2 or 1))]


def pad(both: BesideEager, tokens: Tokens) -> Tokens:
    """Return a text with [PAD] in what is read, as many as SOME where there is room."""
    tokenizer, count = both.model.tokenizer, real_tokens(tokens)
    length = min(count + SOME, tokenizer.max_tokens)
    if isinstance(tokens, Fed):
        return Fed(**tokens.lists, read=tokenizer.pad(tokens.read, length), goal=tokens.goal)
    made = tokenizer.pad(tokens.plain, length)
    return Read(**made.lists, fed=tokens.fed, goal=tokens.goal) if isinstance(tokens, Read) else made


def padding(both: BesideEager) -> float:
    """Texts with [PAD] give real tokens the weights of the texts without."""
    pairs, differences = padded(both), []
    request = Request(both.layers)
    for (plain, _), one in zip(pairs, both.model.take([asked(long) for _, long in pairs], request), strict=True):
        expected, rows = both.weights(plain, both.model.usual_mask(None)), real_rows(plain)
        differences.append(difference(one.weights[..., rows, : expected.shape[-1]], expected[..., rows, :]))
        differences.append(float(one.weights[..., rows, expected.shape[-1] :].abs().sum()))
    return worst(differences)


def under_mask(both: BesideEager, mask: str) -> float:
    """Texts under a mask, with [PAD] where there is one: weights, last vectors, and what the record's mask hides."""
    try:
        both.model.usual_mask(mask)
    except RequestError as error:
        raise NothingToCompare(str(error)) from error
    texts = both.plain if both.model.tokenizer.pad_id is None else [long for _, long in padded(both)]
    request, differences = Request(both.layers, mask=mask), []
    for text, one in zip(texts, both.model.take([asked(text) for text in texts], request), strict=True):
        theirs, rows = both.theirs(text, mask), real_rows(text)
        differences.append(both.apart(one, text, mask))
        spoken = real_rows(text.spoken)
        differences.append(difference(both.eager.ours(text, mask)[1][spoken], theirs.last[spoken]))
        with torch.inference_mode():
            shown = torch.cat(both.eager.shown(text, mask))[both.places(both.layers), 0][:, rows]
        made = torch.tensor(as_record(both.model, one, request).masks).to(shown.device)[:, rows]
        differences.append(float((made != shown).sum()))
        differences.append(float((one.weights[..., rows, :] * ~shown[:, None]).abs().sum()))
    return worst(differences)


def grouped(both: BesideEager, grouping: Grouping) -> float:
    """Words in place of their pieces, or some tokens alone: weights to pieces added up, and from pieces averaged."""
    differences = []
    for text, one in taken(both, both.plain, grouping=grouping):
        axes = axes_of(
            grouping, text.plain, text.read if both.model.part == "cross" and isinstance(text, Fed) else None
        )
        to_words = torch.stack([both.weights(text)[..., group].sum(dim=-1) for group in axes.keys.groups], dim=-1)
        expected = torch.stack([to_words[..., group, :].mean(dim=-2) for group in axes.queries.groups], dim=-2)
        differences.append(difference(one.weights, expected))
    return worst(differences)


def some_tokens(both: BesideEager) -> float:
    """The first token and the last one alone."""
    last = min(len(one) for one in both.plain) - 1
    return grouped(both, Grouping(tokens=sorted({0, last})))


def silenced(both: BesideEager) -> float:
    """One head of each layer silenced, another in each: weights, and last vectors."""
    check_projections(both)
    heads = both.model.heads
    gone = [(layer, layer % heads) for layer in both.eager.layers if (layer, layer % heads) not in both.model.silenced]
    model, text = both.model.without(gone), both.texts[0]

    def put(layer: int, joined: Tensor) -> Tensor:
        return without(joined, [both.eager.columns(joined, head) for its, head in gone if its == layer])

    with torch.inference_mode():
        theirs = both.eager.theirs(text, both.mask, put)
        [one] = model.take([asked(text)], Request(both.layers, mask=both.mask))
        [last] = model.last_hidden([text], both.mask)
    rows, spoken = real_rows(text), real_rows(text.spoken)
    return worst(
        [
            difference(one.weights[..., rows, :], theirs.weights[both.places(both.layers)][..., rows, :]),
            difference(last[spoken], theirs.last[spoken]),
        ]
    )


def check_projections(both: BesideEager) -> None:
    """Raises NothingToCompare where the heads go to no projection as they are."""
    if not both.eager.joining(both.plain[0]):
        raise NothingToCompare("something else than an output projection is done to its heads first")


def vectors(both: BesideEager) -> float:
    """softmax(scale · q·k + terms) of what a record keeps is the weights; without sinks, which no record keeps."""
    differences = []
    for text, one in taken(both, both.texts, vectors="all"):
        rows, count = real_rows(text), len(both.layers)
        query, key = (part.unflatten(0, (count, -1)).double() for part in one.vectors)
        scores = (
            query @ key.mT * torch.from_numpy(one.scales).to(query.device).unflatten(0, (count, -1))[..., None, None]
        )
        for term in one.terms.values():
            scores = scores + term.unflatten(0, (count, -1))
        made = scores.masked_fill(~one.masks[:, None], -torch.inf).softmax(dim=-1)
        theirs = both.weights(text).double()
        expected = theirs / theirs.sum(dim=-1, keepdim=True)
        differences.append(difference(made[..., rows, :], expected[..., rows, :]))
    return worst(differences)


# --- norms ----------------------------------------------------------------------------------------------


def norms(both: BesideEager) -> float:
    """`--measure norm`: ‖α v W_O‖ of all heads in one pass, and of two heads alone."""
    check_projections(both)
    text, differences = both.plain[0], []
    expected = both.weights(text).double() * torch.stack([lengths(both, text, one) for one in both.layers])[:, :, None]
    for heads in ("all", both.outer_heads):
        [(_, one)] = taken(both, [text], heads=heads, measure="norm")
        differences.append(difference(one.weights, expected[:, one.asked.heads]))
    return worst(differences)


def lengths(both: BesideEager, text: Tokens, layer: int) -> Tensor:
    """Return ‖v W_O‖ of the values in a layer, `[head, key]`: what their own projection makes of each alone.

    A query that sees one key only has that key's value in its joined heads, times its weight.
    """
    place = both.places([layer])[0]
    _, heads, queries, keys = both.theirs(text).weights.shape
    projection = both.eager.network.get_submodule(both.eager.joining(text)[layer])
    found = []
    for start in range(0, keys, queries):
        shown = torch.eye(keys, dtype=torch.bool, device=both.eager.device).roll(-start, dims=0)[:queries]
        shown = shown if queries <= keys else torch.cat([shown, shown[:1].expand(queries - keys, -1)])
        with torch.inference_mode():
            theirs = both.eager.theirs(text, both.mask, shown={layer: shown[None, None]})
            some = min(queries, keys - start)
            weights = theirs.weights[place, :, range(some), range(start, start + some)]
            values = theirs.joined[place][:some].unflatten(-1, (heads, -1)).transpose(0, 1) / weights[..., None]
            alone = torch.zeros(heads, some, heads, values.shape[-1], dtype=values.dtype, device=values.device)
            alone[range(heads), :, range(heads)] = values
            made = projection(alone.flatten(2)) - projection(torch.zeros_like(alone.flatten(2)))
        found.append(made.double().norm(dim=-1))
    return torch.cat(found, dim=1)


# --- what is changed ------------------------------------------------------------------------------------


def cuts(both: BesideEager) -> float:
    """`cut`: edges of one head hidden, in the first layer and in the last one, side by side."""
    text, heads = both.plain[0], both.model.heads
    unchanged, edges = Unchanged.of(both.model, text, both.mask), edges_to_cut(both, text)
    cut_heads = [(both.layers[0], heads - 1), (both.layers[-1], heads // 2)]
    made = unchanged.copies(0, [Hide([head], edges) for head in cut_heads])
    with torch.inference_mode():
        expected = [theirs_cut(both, text, head, edges) for head in cut_heads]
    return worst([difference(unchanged.last[0], both.theirs(text).last), *map(difference, made, expected)])


def ablations(both: BesideEager) -> float:
    """`ablate`, `patch`: another output put in place of a head's, in the first layer and in the last, side by side."""
    check_projections(both)
    text, heads = both.plain[0], both.model.heads
    put_heads = [(both.layers[0], heads - 1), (both.layers[-1], heads // 2)]
    size = both.theirs(text).joined[0].shape[-1] // heads
    vector = torch.linspace(-1, 1, size, dtype=both.model.dtype, device=both.model.device)
    made = Unchanged.of(both.model, text, both.mask).copies(0, [Put({head: vector}) for head in put_heads])
    with torch.inference_mode():
        expected = [theirs_put(both, text, head, vector) for head in put_heads]
    return worst(map(difference, made, expected))


def edges_to_cut(both: BesideEager, text: Tokens) -> list[Edge]:
    """Return edges that weight goes along: from the last query to all keys that it sees but one."""
    seen = (both.weights(text)[0].amax(dim=0)[-1] > 0).nonzero()[:, 0].tolist()
    return [(len(text) - 1, key) for key in seen[:-1]]


def theirs_cut(both: BesideEager, text: Tokens, head: Head, edges: list[Edge]) -> Tensor:
    """Return the last vectors of the eager attention where a mask of its own for each head hides edges of one."""
    if not edges:
        return both.theirs(text).last
    layer, number = head
    shown = both.eager.shown(text, both.mask)[both.places([layer])[0]].repeat(1, both.model.heads, 1, 1)
    queries, keys = zip(*edges, strict=True)
    shown[0, number, queries, keys] = False
    return both.eager.theirs(text, both.mask, shown={layer: shown}).last


def theirs_put(both: BesideEager, text: Tokens, head: Head, vector: Tensor) -> Tensor:
    """Return the last vectors where a vector stands in a head's columns of the joined heads."""

    def put(layer: int, joined: Tensor) -> Tensor:
        if layer == head[0]:
            joined = joined.clone()
            joined[..., both.eager.columns(joined, head[1])] = vector
        return joined

    return both.eager.theirs(text, both.mask, put).last


def gradients(both: BesideEager) -> float:
    """`trust`, `ablate`: the gradients of a number of the last vectors by gates of heads, as shares of the largest."""
    check_projections(both)
    text = Unchanged.of(both.model, both.texts[0], both.mask)
    question = Along(text, real_rows(both.texts[0].spoken))
    layers, heads = both.eager.layers, both.model.heads
    with torch.enable_grad():
        gates = torch.ones(both.model.layers, heads, dtype=both.model.dtype, device=both.model.device).requires_grad_()

        def put(layer: int, joined: Tensor) -> Tensor:
            return joined * gates[layer].repeat_interleave(joined.shape[-1] // heads)

        last = both.eager.theirs(both.texts[0], both.mask, put).last
        [wanted] = torch.autograd.grad(question([last[None]])[0], gates)
    made = gate_gradients(question)[layers]
    return difference(made, wanted[layers]) / (float(wanted.abs().max()) or 1.0)


# --- what comes out -------------------------------------------------------------------------------------


def logits(both: BesideEager) -> float:
    """What the head says of every token, or of the text; and of the last token alone."""
    found = [one for name, one in both.model.outputs().items() if name != "embedding"]
    if not found:
        raise NothingToCompare("it has no head that attncli reads")
    [output], differences = found, []
    for text in both.texts:
        wanted, rows = both.logits(text), real_rows(text.spoken)
        last = both.eager.ours(text, both.mask)[1]
        with torch.inference_mode():
            [made] = output([last], [text])
            if output.of_text:
                differences.append(difference(made, wanted))
                continue
            [of_last] = output([last], [text], [rows[-1:]])
        differences += [difference(made[rows], wanted[rows]), difference(of_last, wanted[rows[-1:]])]
    return worst(differences)


def hidden_states(both: BesideEager) -> float:
    """The vectors after the embeddings and after every layer of what reads the text (`probe`, `explain`)."""
    if both.model.part not in ("encoder", both.model.parts[0]):
        raise NothingToCompare("those of an encoder-decoder are its encoder's: --which encoder")
    differences = []
    for text in both.texts:
        rows, ours = real_rows(text), both.model.hidden_states(text.plain, both.mask)
        differences += [difference(one[rows], two[rows]) for one, two in zip(ours, both.states(text), strict=True)]
    return worst(differences)


def records(both: BesideEager) -> float:
    """What is printed, drawn and saved is what was computed, in float32."""
    request = Request(both.layers, mask=both.mask, which=both.model.part if both.model.paired else None)
    texts = [asked(one) for one in both.texts]
    pairs = zip(both.model.attend_tokens(texts, request), both.model.take(texts, request), strict=True)
    return worst(difference(torch.from_numpy(record.weights), one.weights.float()) for record, one in pairs)


WAYS: dict[str, Check[BesideEager]] = {
    "together": Check("texts of mixed lengths, all layers", together),
    "one layer": Check("-l N", one_layer),
    "some heads": Check("-l N -H 3,1", some_heads),
    "some heads of all": Check("-H 3,1, the last layer first", some_heads_of_all),
    "[PAD]": Check("--pad-to: as without [PAD]", padding),
    **{f"mask {name}": Check(f"--mask {name}, with [PAD]", partial(under_mask, mask=name), "last") for name in MASKS},
    "words": Check("--words", partial(grouped, grouping=Grouping(words=True))),
    "some tokens": Check("--tokens", some_tokens),
    "without": Check("--without", silenced, "last"),
    "vectors": Check("--vectors, --terms: softmax(scale q·k + terms)", vectors),
    "norms": Check("--measure norm", norms, "norms"),
    "cuts": Check("cut", cuts, "last"),
    "ablations": Check("ablate, patch", ablations, "last"),
    "gradients": Check("ablate, trust: by gates of heads", gradients, "shares"),
    "logits": Check("what its head says, --at", logits, "logits"),
    "hidden states": Check("probe", hidden_states, "hidden"),
    "records": Check("what is printed is what was computed", records, "exact"),
}


def by_every_way_of_eager(both: BesideEager, done: Callable[[], None] = lambda: None) -> list[Way]:
    """Go all of WAYS, in their order; `done` is called after each. In half precision nothing is compared."""
    if not is_half(both.model.dtype):
        return each_way(WAYS, both, done)
    note = f"in {both.model.dtype_name} differences are mostly rounding: --dtype float32 compares them"
    return [Way(name, check.of, None, 0.0, note) for name, check in WAYS.items()]
