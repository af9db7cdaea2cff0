"""Any module as a pure loss."""

import copy
import threading

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils import prune
from torch.utils.checkpoint import checkpoint

from speedtronic.pure.contract import ContractError
from speedtronic.pure.gradient import Engine, gradient
from speedtronic.pure.module import (
    ModuleLoss,
    persistent_buffers,
    split,
    uses_functional_dropout,
)
from speedtronic.pure.random import key_from_seed
from speedtronic.testing.purity import check_pure

KEY = key_from_seed(7)


class Tied(nn.Module):
    """An embedding that is also the head, and one layer used twice."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(11, 8)
        self.mix = nn.Linear(8, 8)
        self.again = self.mix
        self.head = nn.Linear(8, 11, bias=False)
        self.head.weight = self.embed.weight

    def forward(self, input_ids: Tensor, labels: Tensor | None = None) -> Tensor:
        return self.head(self.again(torch.tanh(self.mix(self.embed(input_ids)))))


class Counting(nn.Module):
    """Batch statistics and an integer buffer that the forward pass rebinds."""

    calls: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.BatchNorm1d(3)
        self.head = nn.Linear(3, 2)
        self.register_buffer("calls", torch.zeros((), dtype=torch.int64))

    def forward(self, x: Tensor, labels: Tensor) -> dict[str, Tensor]:
        self.calls = self.calls + 1
        logits = self.head(self.norm(x))
        return {"loss": F.cross_entropy(logits, labels), "peak": logits.max()}


class Recomputed(nn.Module):
    """A block inside an activation checkpoint."""

    def __init__(self, block: nn.Module, recompute: bool) -> None:
        super().__init__()
        self.inner, self.block, self.recompute = nn.Linear(4, 4), block, recompute

    def forward(self, x: Tensor, labels: Tensor) -> Tensor:
        x = self.inner(x)
        if self.recompute:
            return checkpoint(self.block, x, use_reentrant=False)  # type: ignore[no-any-return]
        return self.block(x)  # type: ignore[no-any-return]


class Attending(nn.Module):
    """Dropout in attention weights and by function, without a module."""

    def __init__(self) -> None:
        super().__init__()
        self.w = nn.Linear(4, 4)
        nn.init.constant_(self.w.weight, 0.5)

    def forward(self, x: Tensor) -> Tensor:
        y = self.w(x)[:, None]
        y = F.scaled_dot_product_attention(y, y, y, dropout_p=0.3, is_causal=True)
        return F.dropout(y[:, 0], 0.2)


def ids(*shape: int) -> Tensor:
    return torch.randint(11, shape, generator=torch.Generator().manual_seed(1))


def backward(module: nn.Module, loss: Tensor) -> dict[str, Tensor]:
    module.zero_grad()
    loss.backward()
    return {
        n: p.grad.clone() for n, p in module.named_parameters() if p.grad is not None
    }


@pytest.mark.parametrize("engine", ["autograd", "func"])
def test_tied_and_shared_modules_have_the_gradient_of_backward(engine: Engine) -> None:
    """One entry per tied weight, whose gradient sums over all uses."""
    module = Tied()
    batch = {"input_ids": ids(3, 5), "labels": ids(3, 5)}
    expected = backward(
        module,
        F.cross_entropy(
            module(batch["input_ids"]).flatten(0, 1),
            batch["labels"].flatten(),
            reduction="sum",
        ),
    )
    params, frozen, buffers = split(module)

    slope = gradient(ModuleLoss(module, train=True), engine)
    actual, _ = slope(params, frozen, buffers, batch, KEY, None)

    assert {"embed.weight", "mix.weight", "mix.bias"} == actual.keys()
    for name, value in expected.items():
        torch.testing.assert_close(actual[name], value)


def test_the_users_module_is_bit_identical_afterwards() -> None:
    """Any number of calls leaves parameters, buffers, flags and hooks alone."""
    module = Counting().eval()
    before = copy.deepcopy(module.state_dict())
    params, frozen, buffers = split(module)
    slope = gradient(ModuleLoss(module, train=True))
    for _ in range(3):
        batch = (
            torch.randn(4, 3, generator=torch.Generator().manual_seed(0)),
            ids(4) % 2,
        )
        _, out = slope(params, frozen, buffers, batch, KEY, None)
        buffers = out.buffers

    assert not module.training
    for name, value in module.state_dict().items():
        assert torch.equal(before[name], value)
    assert torch.tensor(3) == buffers["calls"] == buffers["norm.num_batches_tracked"]


def test_batch_statistics_equal_those_of_ordinary_training() -> None:
    """Running statistics come back as new buffers; integers are carried."""
    module = Counting()
    x, labels = (
        torch.randn(4, 3, generator=torch.Generator().manual_seed(0)),
        ids(4) % 2,
    )
    params, frozen, buffers = split(module)
    given = {name: value.clone() for name, value in buffers.items()}

    out = check_pure(
        lambda: ModuleLoss(module, train=True)(params, buffers, (x, labels), KEY)
    )
    module(x, labels)

    for name, value in module.named_buffers():
        assert torch.equal(value, out.buffers[name])
        assert torch.equal(given[name], buffers[name])
    assert ["peak"] == list(out.metrics)


@pytest.mark.parametrize("engine", ["autograd", "func"])
def test_batch_norm_works_under_both_engines(engine: Engine) -> None:
    """Statistics are written in place by torch, into copies."""
    params, frozen, buffers = split(Counting())
    batch = (torch.ones(4, 3), ids(4) % 2)
    slope = gradient(ModuleLoss(Counting(), train=True), engine)

    _, out = check_pure(
        lambda *a: slope(a[0], frozen, a[1], a[2], KEY, None), params, buffers, batch
    )

    assert torch.tensor(1) == out.buffers["norm.num_batches_tracked"]


def test_frozen_parameters_have_no_gradient() -> None:
    """What is frozen by pattern or by flag is not differentiated."""
    module = Tied()
    module.mix.bias.requires_grad_(False)
    params, frozen, buffers = split(module, freeze=["embed.*"])
    batch = {"input_ids": ids(2, 3), "labels": ids(2, 3)}

    grads, _ = gradient(ModuleLoss(module, train=True))(
        params, frozen, buffers, batch, KEY, None
    )

    assert ["mix.weight"] == list(grads)
    assert {"embed.weight", "mix.bias"} == frozen.keys()


def test_a_pattern_that_freezes_nothing_is_refused() -> None:
    """The message names the pattern and shows what names look like."""
    with pytest.raises(
        ValueError, match=r"model.freeze: 'wte.\*' matches no parameter"
    ):
        split(Tied(), freeze=["wte.*"])


@pytest.mark.parametrize(
    "block",
    [
        nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.5), nn.ReLU()),
        nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4)),
    ],
    ids=["dropout", "plain"],
)
def test_activation_checkpoints_give_the_same_gradient(block: nn.Module) -> None:
    """The part that runs again sees the same weights and the same mask."""
    batch = (torch.randn(6, 4, generator=torch.Generator().manual_seed(0)), ids(6) % 4)
    grads = []
    params, frozen, buffers = split(Recomputed(block, recompute=False))
    for recompute in (False, True):
        loss = ModuleLoss(Recomputed(block, recompute), train=True)
        grads.append(gradient(loss)(params, frozen, buffers, batch, KEY, None)[0])

    for name, value in grads[0].items():
        assert torch.equal(value, grads[1][name]), name


def test_a_dropout_module_called_twice_in_checkpoints_is_refused() -> None:
    """Its masks could not be told apart in the backward pass."""

    class Twice(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.drop, self.w = nn.Dropout(0.5), nn.Linear(4, 4)

        def forward(self, x: Tensor, labels: Tensor) -> Tensor:
            part = lambda y: self.drop(self.w(y))
            x = checkpoint(part, x, use_reentrant=False)
            return checkpoint(part, x, use_reentrant=False)  # type: ignore[no-any-return]

    params, frozen, buffers = split(Twice())
    with pytest.raises(RuntimeError, match="called more than once"):
        gradient(ModuleLoss(Twice(), train=True))(
            params, frozen, buffers, (torch.ones(2, 4), ids(2) % 4), KEY, None
        )


@pytest.mark.parametrize(
    ("module", "expected"),
    [
        (nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.5)), False),
        (Attending(), True),
    ],
    ids=["module", "function"],
)
def test_functional_dropout_is_noticed(module: nn.Module, expected: bool) -> None:
    """Only dropout without a module needs the slower mode."""
    params, _, buffers = split(module)
    loss = ModuleLoss(module, train=True, keyed_functions=False)

    batch = (torch.ones(1, 2, 4), ids(1, 2))
    assert expected == uses_functional_dropout(loss, params, buffers, batch, KEY)


def test_attention_dropout_follows_the_key() -> None:
    """Nothing is drawn from the global generator."""
    params, _, buffers = split(Attending())
    loss = ModuleLoss(Attending(), train=True)
    x = torch.randn(2, 3, 4, generator=torch.Generator().manual_seed(0))
    run = lambda key: (
        check_pure(loss, params, buffers, (x, ids(2, 3) % 4), key).loss_sum
    )

    assert torch.equal(run(KEY), run(KEY))
    assert not torch.equal(run(KEY), run(key_from_seed(8)))


def test_vmap_draws_one_mask_per_key() -> None:
    """Per-key losses of a model with dropout, batched, equal those in a loop."""
    module = nn.Sequential(nn.Linear(4, 16), nn.Dropout(0.5), nn.Linear(16, 3))
    params, _, buffers = split(module)
    loss = ModuleLoss(module, train=True)
    keys = torch.stack([key_from_seed(s) for s in range(4)])
    batch = (torch.ones(2, 4), ids(2) % 3)
    one = lambda key: loss(params, buffers, batch, key).loss_sum

    batched = torch.vmap(one)(keys)

    torch.testing.assert_close(batched, torch.stack([one(key) for key in keys]))
    assert 4 == len(set(batched.tolist()))


def test_a_transformers_model_is_not_handed_the_labels() -> None:
    """Without its own shift, the loss is that of the next token."""

    class PreTrainedModel(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.table = nn.Embedding(11, 11)

        def forward(
            self, input_ids: Tensor, labels: Tensor | None = None
        ) -> dict[str, Tensor]:
            logits = self.table(input_ids)
            if labels is None:
                return {"logits": logits}
            wrong = F.cross_entropy(
                logits[:, :-1].flatten(0, 1), labels[:, 1:].flatten()
            )
            return {"loss": wrong, "logits": logits}

    params, _, buffers = split(PreTrainedModel())
    batch = {"input_ids": ids(2, 5), "labels": ids(2, 5)}
    loss = ModuleLoss(PreTrainedModel(), train=True)
    logits = params["table.weight"][batch["input_ids"]]

    out = loss(params, buffers, batch, KEY)

    expected = F.cross_entropy(
        logits.flatten(0, 1), batch["labels"].flatten(), reduction="sum"
    )
    torch.testing.assert_close(out.loss_sum, expected)


def test_persistent_buffers_are_those_of_the_state_dict() -> None:
    """Tables that a model computes for itself are not saved."""
    module = Counting()
    module.register_buffer("table", torch.zeros(2), persistent=False)

    expected = {
        n
        for n in module.state_dict()
        if n.startswith(("norm.run", "norm.num", "calls"))
    }
    assert expected == persistent_buffers(module)


def test_a_pruned_weight_is_made_anew_in_every_call() -> None:
    """A tensor that a hook sets before each call does not have to be copied."""
    module = prune.l1_unstructured(nn.Linear(2, 2), "weight", 2)
    params, _, buffers = split(module)
    batch = (torch.eye(2), torch.tensor([0, 1]))
    F.cross_entropy(module(batch[0]), batch[1], reduction="sum").backward()
    slope = gradient(ModuleLoss(module, train=True))
    grads, _ = slope(params, {}, buffers, batch, KEY, None)

    assert ["bias", "weight_orig"] == sorted(grads)
    for name, value in module.named_parameters():
        assert value.grad is not None
        torch.testing.assert_close(value.grad, grads[name])


def test_what_cannot_be_copied_is_named() -> None:
    """Not copy's own words alone: a model has many attributes."""
    module = nn.Sequential(nn.Linear(2, 2))
    module[0].lock = threading.Lock()

    with pytest.raises(ContractError, match=r"cannot be copied: '0.lock' \(TypeError"):
        ModuleLoss(module, train=True)


@pytest.mark.parametrize(
    "module",
    [nn.Linear(2, 2, device="meta"), nn.LazyLinear(2)],
    ids=["meta", "lazy"],
)
def test_a_parameter_without_values_is_named(module: nn.Module) -> None:
    """Neither can be trained from."""
    with pytest.raises(ContractError, match="'weight' has no values yet"):
        split(module)
