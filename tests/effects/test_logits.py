"""What heads add to a logit, beside networks made by hand and hooks on transformers' modules; the logit lens."""

import numpy as np
import pytest
import torch
from by_hand import MODULES, ByHand
from checkpoints import DECODERS, language_head, make_checkpoint
from slow import slow_except
from small_networks import make_small
from torch import nn
from transformers import AutoModelForCausalLM, AutoModelForMaskedLM

from attncli import cut, explain, load_model
from attncli.base.errors import RequestError
from attncli.effects.asking import Asking
from attncli.effects.change import silence
from attncli.effects.logits import _frozen_norm, direct_paths, lens, logit_question, token_output

TEXT = "the cat sat on the big cat"
NEAR = 1e-5


@pytest.fixture(scope="module")
def opened(tmp_path_factory):
    """`opened("gpt2")` -> the model of a small random checkpoint that predicts tokens, in float64, made once."""
    made = {}

    def open_one(name, engine="auto", **changes):
        key = name, engine, *changes.items()
        if key not in made:
            folder = tmp_path_factory.mktemp(name)
            if name in ("opt", "t5", "bart", "gpt_oss"):
                make_small(folder, name)
            else:
                make_checkpoint(folder, name, language_head(name), **changes)
            dtype = "float32" if name == "gpt_oss" else "float64"
            made[key] = load_model(str(folder), device="cpu", dtype=dtype, engine=engine)
        return made[key]

    return open_one


def adds(question):
    """What each head adds, `[layer, head]`."""
    return np.array([way.adds for _, way in sorted(direct_paths(question).items())])


def effects(question):
    model = question.texts[0].model
    every = [(layer, head) for layer in range(model.layers) for head in range(model.heads)]
    return question.effects([silence([one]) for one in every]).reshape(model.layers, model.heads)


# --- networks made by hand ------------------------------------------------------------------------------


@pytest.fixture
def without_norms(tmp_path):
    """`without_norms(layers)` -> a decoder whose norms are the identity and whose feed-forward networks give 0."""

    def make(layers, **changes):
        folder = make_checkpoint(tmp_path / "one", "gpt2", "LMHeadModel", num_hidden_layers=layers, **changes)
        model = load_model(str(folder), device="cpu", dtype="float64")
        model.need(layers)
        with torch.no_grad():
            for layer in model.network.layers:
                layer.attention_norm = layer.feed_forward_norm = nn.Identity()
                layer.feed_forward.down.weight.zero_()
                layer.feed_forward.down.bias.zero_()
        model.network.final_norm = nn.Identity()
        return model

    return make


def test_a_network_that_copies_adds_the_share_of_the_token(without_norms):
    """One-hot embeddings, uniform weights, W_V and W_O the identity: a head copies the tokens that its numbers name."""
    model = without_norms(1, hidden_size=288)
    table, attention = model.network.embeddings.tokens.weight, model.network.layer(0).attention
    assert len(table) <= 288
    with torch.no_grad():
        table.copy_(torch.eye(*table.shape))
        model.network.embeddings.positions.table.weight.zero_()
        for part in (attention.query, attention.key, attention.value, attention.output):
            part.weight.zero_()
            part.bias.zero_()
        attention.value.weight.copy_(torch.eye(288))
        attention.output.weight.copy_(torch.eye(288))
    tokens = model.tokenizer.encode(TEXT)
    for name in ("cat", "the", "er"):
        question = logit_question(model, TEXT, Asking(target=name))
        share = np.mean([one == question.label for one in tokens.ids])
        expected = np.zeros((1, 4))
        expected[0, question.label // 72] = share
        assert share > 0 or name == "er"
        assert question.value == pytest.approx(share + (tokens.ids[-1] == question.label), abs=1e-12)
        assert adds(question) == pytest.approx(expected, abs=1e-12)
        assert effects(question) == pytest.approx(-expected, abs=1e-12)


def test_without_norms_it_is_the_difference_of_the_logits(without_norms):
    """Exactly, for a head that no later head reads: the later ones are silenced."""
    model = without_norms(3)
    for last in range(3):
        later = [f"{layer}.all" for layer in range(last + 1, 3)]
        some = model.without(",".join(later)) if later else model
        for asking in (Asking(), Asking(target="cat"), Asking(at="2")):
            question = logit_question(some, TEXT, asking)
            found = adds(question)
            assert found[last] == pytest.approx(-effects(question)[last], rel=1e-9, abs=1e-12)
            assert np.abs(found[last]).min() > 1e-4 and not found[last + 1 :].any()


def test_without_norms_it_is_the_difference_of_transformers_logits(without_norms):
    """Their network of the same checkpoint, its norms taken out, and the rows of W_O of one head set to 0."""
    model = without_norms(2)
    network = AutoModelForCausalLM.from_pretrained(model.place.path, dtype=torch.float64).eval()
    for block in network.transformer.h:
        block.ln_1 = block.ln_2 = nn.Identity()
        block.mlp.c_proj.weight.data.zero_()
        block.mlp.c_proj.bias.data.zero_()
    network.transformer.ln_f = nn.Identity()
    question = logit_question(model, TEXT, Asking(target="cat"))
    ids, weight = torch.tensor([question.texts[0].tokens.ids]), network.transformer.h[-1].attn.c_proj.weight.data
    with torch.no_grad():
        before = network(ids).logits[0, -1, question.label]
        assert question.value == pytest.approx(float(before), rel=1e-9)
        for head, found in enumerate(adds(question)[-1]):
            rows = weight[head * model.head_dim : (head + 1) * model.head_dim]
            kept = rows.clone()
            rows.zero_()
            assert found == pytest.approx(float(before - network(ids).logits[0, -1, question.label]), rel=1e-8)
            rows.copy_(kept)


def test_without_norms_a_key_adds_what_the_logit_loses_without_its_edge(without_norms):
    """Cut with its row's other weights kept, in the last layer, which no other reads."""
    model = without_norms(2)
    asked = {"layer": 1, "head": 2, "target": "cat"}
    question = logit_question(model, TEXT, Asking(target="cat"))
    [last] = question.places
    found = cut(model, TEXT, out_of=str(last), keep_rest=True, ask="logit", **asked)
    row = explain(model, TEXT, logit=True, **asked).document()
    assert row["query"]["index"] == last and len(found.keys) == len(row["keys"])
    assert [key["adds"] for key in row["keys"]] == pytest.approx(-found.effects[0], rel=1e-6, abs=1e-9)


def test_the_parts_of_a_logit_sum_to_it(without_norms):
    """Heads, and what is left of the logit where all heads are silenced."""
    model = without_norms(3)
    question = logit_question(model, TEXT, Asking(target="cat"))
    rest = logit_question(model.without("all"), TEXT, Asking(target="cat"))
    assert adds(question).sum() + rest.value == pytest.approx(question.value, rel=1e-9)


# --- hooks on transformers' modules ---------------------------------------------------------------------


def through_norm(norm, x, part):
    """Send a part of x through a LayerNorm or RMSNorm with the scale that x gives it."""
    if isinstance(norm, nn.LayerNorm):
        scale = (x.var(unbiased=False) + norm.eps).rsqrt()
        return (part - part.mean(dim=-1, keepdim=True)) * scale * norm.weight
    scale = (x.square().mean() + norm.variance_epsilon).rsqrt()
    return part * scale * norm.weight


def run_watched(network, ids, *watched):
    """Run a network; return its logits and the inputs of these modules, `[token, size]` each."""
    seen = {}
    hooks = [
        one.register_forward_pre_hook(lambda _, inputs, number=number: seen.update({number: inputs[0][0]}))
        for number, one in enumerate(watched)
    ]
    with torch.no_grad():
        logits = network(torch.tensor([ids])).logits[0]
    for hook in hooks:
        hook.remove()
    return logits, [seen[number] for number in range(len(watched))]


def heads_through(joined, projection, heads):
    """What each head gives through W_O, `[head, hidden_size]`. joined: `[head * head_dim]`."""
    weight = projection.weight if isinstance(projection, nn.Linear) else projection.weight.T
    return torch.einsum("hd,nhd->hn", joined.unflatten(0, (heads, -1)), weight.unflatten(1, (heads, -1)))


def decoder_by_hooks(network, kind, ids, place, label, heads):
    """Return the logit, and what each head adds to it, `[layer, head]`."""
    modules = dict(network.named_modules())
    name = MODULES[kind]["decoder"][1]
    projections = [modules[name.format(layer)] for layer in range(network.config.num_hidden_layers)]
    norm = modules[{"gpt2": "transformer.ln_f", "opt": "model.decoder.final_layer_norm"}.get(kind, "model.norm")]
    logits, (x, *joined) = run_watched(network, ids, norm, *projections)
    row = network.get_output_embeddings().weight[label]
    found = [
        through_norm(norm, x[place], heads_through(one[place], projection, heads)) @ row
        for one, projection in zip(joined, projections, strict=True)
    ]
    return float(logits[place, label]), torch.stack(found).detach().numpy()


def check_decoder(model, network, asking=Asking(), near=NEAR):
    question = logit_question(model, TEXT, asking)
    [place], tokens = question.places, question.texts[0].tokens
    kind = network.config.model_type
    logit, expected = decoder_by_hooks(network, kind, tokens.ids, place, question.label, model.heads)
    assert question.value == pytest.approx(logit, rel=near, abs=near)
    assert adds(question) == pytest.approx(expected, rel=near, abs=near)
    assert np.abs(expected).max() > 100 * near


@pytest.mark.parametrize("name", ["gpt2", "llama", "opt"])
@pytest.mark.parametrize("asking", [Asking(), Asking(target="cat", at="2")], ids=["likeliest", "at"])
def test_a_decoder_with_norms_is_as_by_hooks(opened, name, asking):
    model = opened(name)
    theirs = AutoModelForCausalLM.from_pretrained(model.place.path, dtype=torch.float64).eval()
    check_decoder(model, theirs, asking)


@pytest.mark.slow
def test_smollm2_is_as_by_hooks(smollm2, smollm2_by_transformers):
    for asking in (Asking(), Asking(target="mat", at="4")):
        check_decoder(smollm2, smollm2_by_transformers, asking)


def test_words_at_mask_go_through_the_dense_layer_and_its_frozen_gate(opened):
    """BERT's norms stand on the way: each later one scales what the head gave."""
    model = opened("bert")
    network = AutoModelForMaskedLM.from_pretrained(model.place.path, dtype=torch.float64).eval()
    question = logit_question(model, "the cat [MASK] on it", Asking())
    [place] = question.places
    assert question.label == int(model.predict("the cat [MASK] on it", output="words").values[place].argmax())
    layers, transform = network.bert.encoder.layer, network.cls.predictions.transform
    norms = [norm for one in layers for norm in (one.attention.output.LayerNorm, one.output.LayerNorm)]
    watched = [*norms, transform.LayerNorm, transform.dense, *(one.attention.output.dense for one in layers)]
    ids = question.texts[0].tokens.ids
    logits, seen = run_watched(network, ids, *watched)
    seen = [one[place] for one in seen]
    last, dense, *joined = seen[len(norms) :]
    found = []
    for number, one in enumerate(layers):
        part = heads_through(joined[number], one.attention.output.dense, model.heads)
        for norm, x in list(zip(norms, seen, strict=False))[2 * number :]:
            part = through_norm(norm, x, part)
        z = transform.dense(dense)
        part = part @ transform.dense.weight.T * (transform.transform_act_fn(z) / z)
        found.append(
            through_norm(transform.LayerNorm, last, part) @ network.cls.predictions.decoder.weight[question.label]
        )
    assert question.value == pytest.approx(float(logits[place, question.label]))
    assert adds(question) == pytest.approx(torch.stack(found).detach().numpy(), rel=NEAR, abs=1e-9)
    assert np.abs(adds(question)[-1]).max() > 0.01


def test_a_softcap_is_a_frozen_factor_and_output_norms_are_on_the_way(opened):
    model = opened("gemma2")
    network = AutoModelForCausalLM.from_pretrained(
        model.place.path, dtype=torch.float64, attn_implementation="eager"
    ).eval()
    question = logit_question(model, TEXT, Asking())
    [place], layers = question.places, network.model.layers
    watched = [
        network.model.norm,
        *(one.post_attention_layernorm for one in layers),
        *(one.self_attn.o_proj for one in layers),
    ]
    logits, (last, *seen) = run_watched(network, question.texts[0].tokens.ids, *watched)

    def scaled(norm, x, part):
        return part * (x.square().mean() + norm.eps).rsqrt() * (1 + norm.weight)

    logit, found = float(logits[place, question.label]), []
    cap = network.config.final_logit_softcapping
    raw = cap * np.arctanh(logit / cap)
    for number, one in enumerate(layers):
        part = heads_through(seen[len(layers) + number][place], one.self_attn.o_proj, model.heads)
        part = scaled(one.post_attention_layernorm, seen[number][place], part)
        part = scaled(network.model.norm, last[place], part)
        found.append(part @ network.lm_head.weight[question.label] * (logit / raw))
    assert question.value == pytest.approx(logit, rel=1e-5) and abs(logit / raw) < 0.9
    assert adds(question) == pytest.approx(torch.stack(found).detach().numpy(), rel=1e-4, abs=NEAR)


@pytest.mark.parametrize("name", slow_except([one for one in DECODERS if one != "gemma2"], ("llama", "olmo2")))
def test_both_engines_find_the_same(opened, name):
    found = [adds(logit_question(opened(name, engine), TEXT, Asking(at="3"))) for engine in ("attncli", "transformers")]
    assert found[0] == pytest.approx(found[1], rel=1e-4, abs=1e-5)


@pytest.mark.parametrize("part", ["decoder", "cross"])
def test_an_encoder_decoder_is_as_by_hooks(opened, part):
    """T5 divides its last vectors by the root of their size; its RMSNorm has no bias."""
    model = opened("t5").of_part(part)
    theirs = ByHand(model.place.path, part, torch.float64)
    question = logit_question(model, "the cat sat", Asking(at="1"))
    fed = question.texts[0].tokens
    seen, norm = {}, theirs.network.decoder.final_layer_norm
    norm.register_forward_pre_hook(lambda _, inputs: seen.update(x=inputs[0][0].clone()))
    said = theirs.run(fed.encoder_input.ids, fed.ids)
    with torch.inference_mode():
        parts = [
            heads_through(theirs.seen[layer][1].flatten(), one, theirs.heads)
            for layer, one in enumerate(theirs.projections)
        ]
        found = [through_norm(norm, seen["x"][1], one) for one in parts]
        row = theirs.network.lm_head.weight[question.label] * theirs.network.config.d_model**-0.5
        expected = (torch.stack(found) @ row).numpy()
    assert question.value == pytest.approx(float(said.logits[1, question.label]), rel=1e-4)
    assert adds(question) == pytest.approx(expected, rel=1e-4, abs=1e-6) and np.abs(expected).max() > 1e-3


@pytest.mark.parametrize("centred", [True, False])
@pytest.mark.parametrize("size", [12, 15])
def test_a_frozen_norm_is_the_norm_and_has_a_linear_slope(centred, size):
    draw = torch.Generator().manual_seed(size)
    norm = nn.LayerNorm(size, dtype=torch.float64) if centred else nn.RMSNorm(size, eps=1e-6, dtype=torch.float64)
    with torch.no_grad():
        for one in norm.parameters():
            one.copy_(torch.randn(size, generator=draw))
    x = torch.randn(3, size, generator=draw, dtype=torch.float64, requires_grad=True)
    made = _frozen_norm(norm, (x,), norm(x))
    assert made.detach().numpy() == pytest.approx(norm(x).detach().numpy(), abs=1e-6)
    [slope] = torch.autograd.grad(made[1, 4], x)
    scale = (x[1].var(unbiased=False) + 1e-5 if centred else x[1].square().mean() + 1e-6).rsqrt()
    expected = torch.zeros(3, size, dtype=torch.float64)
    expected[1, 4] = 1
    expected[1] -= 1 / size if centred else 0
    assert slope.numpy() == pytest.approx((expected * scale * norm.weight[4]).detach().numpy(), abs=1e-6)


# --- what is refused ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name, engine, text, asking, said",
    [
        ("bert", "auto", TEXT, Asking(), "predicts the word at \\[MASK\\], and this text has 0"),
        ("bert", "auto", "[MASK] [MASK]", Asking(), "this text has 2: write one, or name a token with --at"),
        ("bert", "transformers", "a [MASK]", Asking(), "its output head is not linear"),
        ("gemma2", "transformers", TEXT, Asking(), "its output head is not linear"),
        ("gpt_oss", "auto", TEXT, Asking(), "transformers computes its GptOss\\w+ in an unknown way"),
        (
            "t5",
            "auto",
            TEXT,
            Asking(at="0", which="encoder"),
            "the path from layer 0 to a logit is more than the residual",
        ),
    ],
)
def test_what_is_unknown_is_refused(opened, name, engine, text, asking, said):
    model = opened(name, engine).of_part(asking.which)
    with pytest.raises(RequestError, match=said):
        direct_paths(logit_question(model, text, asking))


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("name, text", [("gemma2", TEXT), ("bert", "a [MASK]"), ("llama", TEXT)])
def test_a_head_of_transformers_is_found_not_to_be_linear_in_any_dtype(opened, name, text, dtype):
    model = load_model(str(opened(name).place.path), device="cpu", dtype=dtype, engine="transformers")
    question = logit_question(model, text, Asking())
    if name == "llama":
        assert len(direct_paths(question)) == 4
        return
    with pytest.raises(RequestError, match="its output head is not linear"):
        direct_paths(question)


def test_a_model_that_predicts_no_tokens_is_refused(minilm):
    with pytest.raises(RequestError, match=r"minilm predicts no tokens .*: use a decoder"):
        logit_question(minilm, TEXT, Asking())


def test_a_norm_of_another_form_is_refused():
    class PowerNorm(nn.Module):
        def forward(self, x):
            return x**3

    x = torch.randn(2, 8, requires_grad=True)
    with pytest.raises(RequestError, match="PowerNorm is neither a LayerNorm nor an RMSNorm"):
        _frozen_norm(PowerNorm(), (x,), PowerNorm()(x))


def test_no_hook_stays(opened):
    model = opened("llama", "transformers")
    question = logit_question(model, TEXT, Asking())
    model.hidden_states(question.texts[0].tokens)  # in which transformers leaves hooks of its own
    before = [len(one._forward_hooks) for one in model.network.modules()]
    direct_paths(question)
    list(lens(model, token_output(model)[1], question.texts[0].tokens, [2]))
    assert [len(one._forward_hooks) for one in model.network.modules()] == before


# --- the logit lens -------------------------------------------------------------------------------------


@pytest.mark.parametrize("engine", ["attncli", "transformers"])
@pytest.mark.parametrize(
    "name", slow_except([*DECODERS, "bert", "modernbert"], ("gpt2", "llama", "gemma2", "bert", "modernbert"))
)
def test_a_lens_is_transformers_own_head_on_each_hidden_state(opened, name, engine):
    model = opened(name, engine)
    auto = AutoModelForMaskedLM if name in ("bert", "modernbert") else AutoModelForCausalLM
    network = auto.from_pretrained(model.place.path, dtype=torch.float64, attn_implementation="eager").eval()
    _, output = token_output(model)
    tokens = model.tokenizer.encode("the [MASK] sat on it" if auto is AutoModelForMaskedLM else TEXT)
    [found] = lens(model, output, tokens, [2])
    final = {
        "gpt2": "transformer.ln_f", "gpt_neox": "gpt_neox.final_layer_norm", "bert": None,
        "modernbert": "model.final_norm",
    }.get(name, "model.norm")  # fmt: skip
    norm = nn.Identity() if final is None else network.get_submodule(final)
    head = {
        "bert": lambda x: network.cls(x), "modernbert": lambda x: network.decoder(network.head(x)),
    }.get(name, network.get_output_embeddings())  # fmt: skip
    with torch.no_grad():
        made = network(torch.tensor([tokens.ids]), output_hidden_states=True)
        logits = torch.stack([head(norm(x[0, 2])) for x in made.hidden_states[:-1]])
        if name == "gemma2":
            cap = network.config.final_logit_softcapping
            logits = cap * torch.tanh(logits / cap)
        expected = torch.cat([logits, made.logits[0, 2][None]]).log_softmax(dim=-1)
    assert found.shape == (model.layers + 1, model.tokenizer.vocab_size)
    assert found.numpy() == pytest.approx(expected.numpy(), abs=1e-4)
    assert (found.exp().sum(dim=-1) - 1).abs().max() < 1e-9


@pytest.mark.slow
def test_the_lens_of_smollm2_is_transformers_own_head_on_each_hidden_state(smollm2, smollm2_by_transformers):
    theirs, tokens = smollm2_by_transformers, smollm2.tokenizer.encode("The capital of France is")
    [found] = lens(smollm2, token_output(smollm2)[1], tokens, [4])
    with torch.no_grad():
        made = theirs(torch.tensor([tokens.ids]), output_hidden_states=True)
        logits = [theirs.lm_head(theirs.model.norm(x[0, 4])) for x in made.hidden_states[:-1]]
        expected = torch.stack([*logits, made.logits[0, 4]]).double().log_softmax(dim=-1)
    assert (found.exp() - expected.exp()).abs().max() < 1e-3
    assert smollm2.tokenizer.encode(" Paris").ids == [int(found[-1].argmax())]
