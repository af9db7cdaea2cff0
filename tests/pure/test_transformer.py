"""The reference transformer."""

import copy
import hashlib
import os
import subprocess
import sys
from typing import Any

import pytest
import torch
from torch import Tensor
from torch._dynamo.testing import CompileCounter

from speedtronic.pure.gradient import Engine, gradient
from speedtronic.pure.loss import IGNORED, cross_entropy_sum
from speedtronic.pure.module import ModuleLoss, split
from speedtronic.pure.random import fold_in, key_from_seed, uniform
from speedtronic.pure.random import split as split_key
from speedtronic.pure.transformer import (
    Transformer,
    feed_forward_width,
)
from speedtronic.pure.types import Params

SHAPE = {
    "vocab_size": 50,
    "max_seq_len": 16,
    "n_layer": 2,
    "n_head": 4,
    "n_kv_head": 2,
    "d_model": 32,
}


def build(**changes: Any) -> Transformer:
    return Transformer(**{**SHAPE, **changes})


def ids(rows: int = 3, length: int = 12) -> Tensor:
    return torch.randint(50, (rows, length), generator=torch.Generator().manual_seed(1))


def slope(engine: Engine = "autograd", **changes: Any) -> tuple[Tensor, ...]:
    """Loss sum and gradients of a model in training mode."""
    model = build(**changes)
    loss = ModuleLoss(model, train=True)
    params, frozen, buffers = split(model)
    labels = ids().roll(-1, -1)
    labels[0, 4:] = IGNORED
    batch = {"input_ids": ids(), "labels": labels}
    key = key_from_seed(5)
    grads, out = gradient(loss, engine)(params, frozen, buffers, batch, key, None)
    return (out.loss_sum, *grads.values())


def test_names_and_shapes_are_those_of_2_0() -> None:
    """A model file of Speedtronic 2.0 fits; its names are fixed by what it wrote."""
    expected = {
        "transformer.wte.weight": [50, 32],
        "transformer.h.0.ln1.weight": [32],
        "transformer.h.0.attn.q_proj.weight": [32, 32],
        "transformer.h.0.attn.k_proj.weight": [16, 32],
        "transformer.h.0.attn.v_proj.weight": [16, 32],
        "transformer.h.0.attn.out_proj.weight": [32, 32],
        "transformer.h.0.ln2.weight": [32],
        "transformer.h.0.mlp.gate_proj.weight": [88, 32],
        "transformer.h.0.mlp.up_proj.weight": [88, 32],
        "transformer.h.0.mlp.down_proj.weight": [32, 88],
        "transformer.ln_f.weight": [32],
        "lm_head.weight": [50, 32],
    }
    state = build(n_layer=1).state_dict()
    assert expected == {name: list(x.shape) for name, x in state.items()}


def test_logits_are_those_of_2_0() -> None:
    """The numbers were printed by speedtronic 2.0.0 for the same weights."""
    model = build()
    with torch.no_grad():
        for index, p in enumerate(model.parameters()):
            noise = uniform(fold_in(key_from_seed(7), index), tuple(p.shape))
            p.copy_(noise - 0.5 + (p.ndim == 1))
    logits = model(4 * torch.arange(12)[None])["logits"][0]

    last = [1.17229, 0.98271, 1.55879, 0.87599, 1.77604, -0.73627, 1.9407, 1.51237]
    first = [-0.39504, -2.60789, 2.83163, 1.5573, 1.50391, -3.65601]
    torch.testing.assert_close(logits[-1, :8], torch.tensor(last), rtol=0, atol=2e-5)
    torch.testing.assert_close(logits[:6, 0], torch.tensor(first), rtol=0, atol=2e-5)


@pytest.mark.parametrize(
    ("d_model", "d_ff", "n_head", "width"),
    [(256, None, 8, 688), (32, 97, 4, 64), (32, 98, 4, 68), (32, 96, 4, 64)],
)
def test_feed_forward_width(
    d_model: int, d_ff: int | None, n_head: int, width: int
) -> None:
    """Two thirds rounded down, then up to a multiple of the heads, as 2.0 does."""
    assert width == feed_forward_width(d_model, d_ff, n_head)


def test_tied_weights_are_one_parameter() -> None:
    """Embedding and head are the same entry, under the embedding's name."""
    assert "lm_head.weight" not in dict(build().named_parameters())
    assert "lm_head.weight" in dict(build(tie_weights=False).named_parameters())


def test_initial_weights() -> None:
    """Normal with standard deviation 0.02, gains of one, all from the seed alone."""
    before = torch.get_rng_state()
    model, same, other = build(), build(), build(seed=1)

    assert torch.equal(before, torch.get_rng_state())
    state = model.state_dict()
    assert all(torch.equal(x, same.state_dict()[n]) for n, x in state.items())
    assert not torch.equal(model.lm_head.weight, other.lm_head.weight)
    matrices = torch.cat([p.flatten() for p in model.parameters() if p.ndim == 2])
    assert abs(matrices.std() / 0.02 - 1) < 0.02
    assert all((p == 1).all() for p in model.parameters() if p.ndim == 1)


def digest(model: Transformer) -> str:
    """Of all weights and tables."""
    tensors = [*model.parameters(), *model.buffers()]
    data = b"".join(x.detach().numpy().tobytes() for x in tensors)
    return hashlib.sha256(data).hexdigest()


def test_initial_weights_are_the_same_on_any_cpu() -> None:
    """A CPU without vector instructions draws the same bits."""
    program = f"""
import importlib.util
spec = importlib.util.spec_from_file_location("test_transformer", {__file__!r})
module = importlib.util.module_from_spec(spec)
spec.loader.exec_module(module)
print(module.digest(module.build()))
"""
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "ATEN_CPU_CAPABILITY": "default"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert digest(build()) == done.stdout.strip()


def test_no_token_sees_a_later_one() -> None:
    """Changing the last token changes only the last prediction."""
    model, tokens = build(), ids()
    changed = tokens.clone()
    changed[:, -1] = (changed[:, -1] + 1) % 50

    before, after = model(tokens)["logits"], model(changed)["logits"]
    assert torch.equal(before[:, :-1], after[:, :-1])
    assert not torch.equal(before[:, -1], after[:, -1])


def test_a_mask_of_ones_is_no_mask() -> None:
    """Both ways through attention agree."""
    model, tokens = build(), ids()

    masked = model(tokens, attention_mask=torch.ones_like(tokens))["logits"]
    torch.testing.assert_close(masked, model(tokens)["logits"])


def test_masked_tokens_have_no_influence() -> None:
    """Padding on the left is not seen, and a fully padded row is finite."""
    model, tokens = build(), ids()
    mask = torch.ones_like(tokens)
    mask[0, :5], mask[1] = 0, 0
    other = tokens.clone()
    other[0, :5] = 7

    first = model(tokens, attention_mask=mask)["logits"]
    second = model(other, attention_mask=mask)["logits"]
    assert torch.equal(first[0, 5:], second[0, 5:])
    assert torch.isfinite(first).all()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"n_head": 5}, "n_head 5 does not divide d_model 32"),
        ({"n_kv_head": 3}, "n_kv_head 3 does not divide n_head 4"),
        ({"d_model": 36, "n_head": 12, "n_kv_head": None}, "d_model 36 / n_head 12 is"),
        ({"vocab_size": 0}, "vocab_size: expected a number above 0, found 0"),
        ({"dropout": 1.0}, "dropout: expected a number from 0 to below 1, found 1.0"),
    ],
)
def test_shapes_that_do_not_fit(changes: dict[str, Any], message: str) -> None:
    """The message names both numbers."""
    with pytest.raises(ValueError, match=message):
        build(**changes)


def test_a_sequence_that_is_too_long() -> None:
    """The message names both lengths."""
    with pytest.raises(ValueError, match="has 17 tokens, max_seq_len is 16"):
        build()(ids(length=17))


@pytest.mark.parametrize("engine", ["autograd", "func"])
@pytest.mark.parametrize("dropout", [0.0, 0.4])
def test_recomputation_changes_nothing(engine: Engine, dropout: float) -> None:
    """Same loss and gradients, dropout included, in both engines."""
    expected = slope(engine, dropout=dropout)
    found = slope(engine, dropout=dropout, gradient_checkpointing=True)
    torch.testing.assert_close(found, expected, rtol=1e-6, atol=1e-7)
    if engine == "autograd":
        assert all(torch.equal(a, b) for a, b in zip(found, expected, strict=True))


def test_recomputation_keeps_less() -> None:
    """At eight layers, what autograd holds on to shrinks to a fraction."""

    def held(enabled: bool) -> int:
        model = build(n_layer=8)
        model.set_gradient_checkpointing(enabled)
        weights = {p.data_ptr() for p in model.parameters()}
        kept: dict[int, int] = {}

        def remember(x: Tensor) -> Tensor:
            if x.data_ptr() not in weights:
                kept[x.data_ptr()] = x.numel() * x.itemsize
            return x

        with torch.autograd.graph.saved_tensors_hooks(remember, lambda x: x):
            logits = model(ids())["logits"]
            del logits
        return sum(kept.values())

    assert held(True) < held(False) / 4


def test_dropout_follows_the_mode() -> None:
    """None in evaluation, and with the global generator an ordinary module's."""
    model, tokens = build(dropout=0.5), ids()
    plain = build()(tokens)["logits"]

    assert torch.equal(plain, model.eval()(tokens)["logits"])
    model.train()
    with torch.random.fork_rng():
        torch.manual_seed(0)
        first = model(tokens)["logits"]
        torch.manual_seed(0)
        again = model(tokens)["logits"]
    assert torch.equal(first, again)
    assert not torch.equal(first, plain)


@pytest.mark.parametrize("engine", ["autograd", "func"])
def test_the_chunked_loss_is_the_loss(engine: Engine) -> None:
    """With ``loss_chunk_size`` the sums come without logits, and are the same."""
    torch.testing.assert_close(slope(engine, loss_chunk_size=7), slope(engine))

    output = build(loss_chunk_size=7)(ids(), labels=ids())
    assert ["loss_sum", "count"] == list(output)
    assert ["logits"] == list(build(loss_chunk_size=7)(ids()))
    assert ["logits"] == list(build()(ids(), labels=ids()))


@pytest.mark.filterwarnings("ignore:There is a performance drop:UserWarning")
def test_replicas_in_one_batch() -> None:
    """Under `torch.vmap` each replica has its own weights, data and dropout."""
    model = build(dropout=0.3, gradient_checkpointing=True, loss_chunk_size=7)
    params, frozen, buffers = split(model)
    slope = gradient(ModuleLoss(model, train=True), "func")
    keys = split_key(key_from_seed(2), 2)

    def replica(params: Params, tokens: Tensor, key: Tensor) -> Params:
        batch = {"input_ids": tokens, "labels": tokens}
        return slope(params, frozen, buffers, batch, key, None)[0]

    several = {name: torch.stack([p, 1.1 * p]) for name, p in params.items()}
    tokens = torch.stack([ids(), ids().flip(0)])
    found = torch.vmap(replica)(several, tokens, keys)
    second = {name: p[1] for name, p in several.items()}
    expected = replica(second, tokens[1], keys[1])
    torch.testing.assert_close({n: g[1] for n, g in found.items()}, expected)


def test_a_copy_on_another_device_stays_tied() -> None:
    """Moving to meta and back through a functional call uses the one embedding."""
    model = build()
    meta = copy.deepcopy(model).to("meta")
    tensors = {**dict(model.named_parameters()), **dict(model.named_buffers())}

    output = torch.func.functional_call(meta, tensors, (ids(),))
    assert torch.equal(model(ids())["logits"], output["logits"])


def test_a_module_in_half_precision_runs() -> None:
    """Whole-module bf16 gives bf16 logits near the float32 ones."""
    model = build()
    half = copy.deepcopy(model).to(torch.bfloat16)(ids())["logits"]

    assert torch.bfloat16 == half.dtype
    expected = model(ids())["logits"]
    torch.testing.assert_close(half.float(), expected, rtol=0.05, atol=0.02)


@pytest.mark.filterwarnings("ignore:.*should not be instantiated:DeprecationWarning")
def test_it_compiles_in_one_graph_and_once() -> None:
    """No step after the first one compiles again."""
    model = build(gradient_checkpointing=True)
    counter = CompileCounter()

    @torch.compile(backend=counter, fullgraph=True)  # type: ignore[untyped-decorator]
    def loss(tokens: Tensor) -> Tensor:
        return cross_entropy_sum(model(tokens)["logits"], tokens)[0]

    for shift in range(3):
        loss((ids() + shift) % 50)
    assert 1 == counter.frame_count
