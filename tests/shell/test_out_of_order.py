"""Gradients of weights beside the backward pass."""

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from speedtronic.errors import ModelError
from speedtronic.pure.contract import ContractError
from speedtronic.pure.gradient import gradient
from speedtronic.pure.module import ModuleLoss, split
from speedtronic.pure.transformer import Transformer
from speedtronic.pure.types import LossOutput, Params
from speedtronic.shell.out_of_order import CudaStreams, out_of_order

KEY = torch.tensor([3, 4])
Context = Callable[[], contextlib.AbstractContextManager[Any]]


class InOrder:
    """Computes at once; counts how often, and whether it was joined."""

    def __init__(self) -> None:
        self.submitted = self.joined = 0

    def submit(self, product: Callable[..., Tensor], *inputs: Tensor) -> Tensor:
        self.submitted += 1
        return product(*inputs)

    def join(self, results: list[Tensor]) -> None:
        assert self.submitted == len(results)
        self.joined += 1


class Layers(nn.Module):
    """A layer that is used twice, a bias, a frozen layer and an unused one."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.twice = nn.Linear(6, 5), nn.Linear(5, 5)
        self.still, self.unused = nn.Linear(5, 5), nn.Linear(2, 2)
        self.head = nn.Linear(5, 4, bias=False)
        self.still.requires_grad_(False)

    def forward(self, x: Tensor) -> Tensor:
        x = torch.tanh(self.first(x))
        x = x + torch.tanh(self.twice(self.still(x)))
        return self.head(x + self.twice(x))  # type: ignore[no-any-return]


def transformer(**changes: Any) -> tuple[nn.Module, Any]:
    torch.manual_seed(0)
    sizes = {"vocab_size": 11, "n_layer": 2, "n_head": 2, "d_model": 8, "dropout": 0.2}
    module = Transformer(**(sizes | changes))
    ids = torch.arange(30).reshape(3, 10) % 11
    return module, {"input_ids": ids, "labels": (ids + 1) % 11}


def layers() -> tuple[nn.Module, Any]:
    torch.manual_seed(0)
    return Layers(), (torch.randn(7, 6), torch.arange(7) % 4)


def both(
    module: nn.Module,
    batch: Any,
    context: Context = contextlib.nullcontext,
    scale: Tensor | None = None,
) -> tuple[Params, Params, InOrder]:
    """The gradients in the usual order, and out of it."""
    params, frozen, buffers = split(module)
    loss = ModuleLoss(module, train=True, context=context)
    beside = InOrder()
    usual, other = (
        gradient(loss, engine)(params, frozen, buffers, batch, KEY, scale)
        for engine in ("autograd", out_of_order(beside))
    )
    assert torch.equal(usual[1].loss_sum, other[1].loss_sum)
    return usual[0], other[0], beside


def same_bits(one: Params, other: Params) -> None:
    assert list(one) == list(other)
    for name, value in one.items():
        assert torch.equal(value, other[name]), name
        assert value.dtype == other[name].dtype


@pytest.mark.parametrize(
    ("made", "expected"),
    [
        (layers(), 3),  # the first layer's input needs no gradient
        (transformer(), 15),  # seven products in each of two blocks, and the tied head
        (transformer(tie_weights=False), 15),
    ],
    ids=["layers", "tied", "untied"],
)
def test_gradients_are_those_of_the_usual_order(made: Any, expected: int) -> None:
    """Bit for bit, for shared, tied, frozen and unused weights, with dropout."""
    usual, other, beside = both(*made)

    same_bits(usual, other)
    assert (expected, 1) == (beside.submitted, beside.joined)


def test_arithmetic_and_scale_are_those_of_the_usual_order() -> None:
    """What autocast rounds is rounded at the same places."""

    def bf16() -> contextlib.AbstractContextManager[Any]:
        return torch.autocast("cpu", torch.bfloat16)

    made = transformer(tie_weights=False)
    usual, other, beside = both(*made, bf16, torch.tensor(8.0))
    same_bits(usual, other)
    assert beside.submitted > 0

    usual, other, _ = both(*layers(), bf16)  # a sum is rounded there, and not here
    for name, value in usual.items():
        torch.testing.assert_close(value, other[name], rtol=2e-2, atol=1e-2)


def test_recomputed_layers_keep_their_order() -> None:
    """Their products are computed inside of another function's backward."""
    module, batch = transformer()
    module.set_gradient_checkpointing(True)  # type: ignore[operator]
    usual, other, beside = both(module, batch)

    same_bits(usual, other)
    assert 1 == beside.submitted  # the head


class Penalized(nn.Module):
    """Differentiates on its way forward."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(6, 5), nn.Linear(5, 4)

    def forward(self, x: Tensor) -> dict[str, Tensor]:
        """A loss with the slope at an inner activation in it."""
        hidden = torch.tanh(self.first(x))
        out = self.second(hidden)
        (slope,) = torch.autograd.grad(out.sum(), hidden, create_graph=True)
        return {"loss": (out**2).mean() + (slope**2).mean()}


def test_a_model_that_differentiates_itself_is_refused() -> None:
    """Its weights would get a part of their gradient only."""
    module = Penalized()
    params, frozen, buffers = split(module)
    slope = gradient(ModuleLoss(module, train=True), out_of_order(InOrder()))
    with pytest.raises(ModelError, match="ooo_backprop: the model differentiates"):
        slope(params, frozen, buffers, torch.ones(2, 6), KEY, None)


def test_a_loss_without_parameters_is_refused() -> None:
    """In the words of the other engines."""

    def constant(*_: Any) -> LossOutput:
        one = torch.ones(())
        return LossOutput(loss_sum=one, count=one, metrics={}, buffers={})

    with pytest.raises(ContractError, match="depends on no parameter"):
        gradient(constant, out_of_order(InOrder()))(
            {"w": torch.ones(1)}, {}, {}, None, KEY, None
        )


class FakeCuda:
    """Streams that write down what they are asked for."""

    def __init__(self) -> None:
        self.told: list[tuple[str, ...]] = []
        self.done = False  # whether the device has caught up
        self.current = "main"

    def Stream(self, device: Any) -> Any:
        number = len([t for t in self.told if t[0] == "made"])
        self.told.append(("made", f"side{number}"))
        return FakeStream(self, f"side{number}")

    def current_stream(self, device: Any) -> Any:
        return FakeStream(self, self.current)

    @contextlib.contextmanager
    def stream(self, stream: Any) -> Iterator[None]:
        before, self.current = self.current, stream.name
        yield
        self.current = before


class FakeStream:
    def __init__(self, cuda: FakeCuda, name: str) -> None:
        self.cuda, self.name = cuda, name

    def wait_stream(self, other: Any) -> None:
        self.cuda.told.append((self.name, "waits for", other.name))

    def record_event(self) -> Any:
        return self

    def query(self) -> bool:
        return self.cuda.done


class FakeTensor:
    def __init__(self, cuda: FakeCuda, name: str) -> None:
        self.cuda, self.name = cuda, name

    def record_stream(self, stream: Any) -> None:
        self.cuda.told.append((self.name, "is read by", stream.name))


def test_streams_wait_for_each_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """Inputs before products, products before results; nothing waits for the host."""
    cuda = FakeCuda()
    for name in ("Stream", "current_stream", "stream"):
        monkeypatch.setattr(torch.cuda, name, getattr(cuda, name))
    streams = CudaStreams(torch.device("cuda", 0), 2)
    x: Any = FakeTensor(cuda, "x")

    def product(x: Any) -> Any:
        cuda.told.append((cuda.current, "multiplies", x.name))
        return FakeTensor(cuda, "y")

    cuda.told.clear()
    results = [streams.submit(product, x), streams.submit(product, x)]
    streams.join(results)

    assert [
        ("side0", "waits for", "main"),
        ("side0", "multiplies", "x"),
        ("x", "is read by", "side0"),
        ("side1", "waits for", "main"),
        ("side1", "multiplies", "x"),
        ("x", "is read by", "side1"),
        ("main", "waits for", "side0"),
        ("main", "waits for", "side1"),
        ("y", "is read by", "main"),
        ("y", "is read by", "main"),
    ] == cuda.told


def test_inputs_are_held_until_they_were_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """The engine adds in place to a gradient that nobody else holds."""
    cuda = FakeCuda()
    for name in ("Stream", "current_stream", "stream"):
        monkeypatch.setattr(torch.cuda, name, getattr(cuda, name))
    streams = CudaStreams(torch.device("cuda", 0), 1)
    x: Any = FakeTensor(cuda, "x")
    for busy in (1, 2):
        streams.submit(lambda x: x, x)
        assert busy == len(streams._busy)
    cuda.done = True
    streams.submit(lambda x: x, x)
    assert 0 == len(streams._busy)
    cuda.done = False
    streams.submit(lambda x: x, x)
    streams.join([])
    assert 0 == len(streams._busy)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_gradients_on_a_device() -> None:
    """Several steps in a row, so that memory is used again meanwhile."""
    module, batch = transformer(d_model=256, n_layer=4, dropout=0.0)
    device = torch.device("cuda", 0)
    params, frozen, buffers = (
        {name: x.to(device) for name, x in part.items()} for part in split(module)
    )
    batch = {name: x.to(device) for name, x in batch.items()}
    loss = ModuleLoss(module, train=True)
    usual = gradient(loss)(params, frozen, buffers, batch, KEY.to(device), None)[0]
    slope = gradient(loss, out_of_order(CudaStreams(device, 4)))
    for _ in range(20):
        found = slope(params, frozen, buffers, batch, KEY.to(device), None)[0]
        for name, value in usual.items():
            torch.testing.assert_close(value, found[name], rtol=1e-5, atol=1e-5)


def test_a_linear_call_by_name_is_seen() -> None:
    """Arguments may have names; a single vector is left alone."""

    class Named(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.scale = nn.Parameter(torch.ones(6))
            self.weight = nn.Parameter(torch.ones(4, 6))

        def forward(self, x: Tensor) -> Tensor:
            one = F.linear(input=x * self.scale, weight=self.weight)
            return one + F.linear(self.scale, self.weight)

    usual, other, beside = both(Named(), (torch.randn(7, 6), torch.arange(7) % 4))
    same_bits(usual, other)
    assert 1 == beside.submitted
