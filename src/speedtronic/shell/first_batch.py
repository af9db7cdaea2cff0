"""A model tried on its first batch: what breaks here, breaks before training.

It runs forward and backward as a step would, on private copies, and nothing of it is
kept. A model whose step would not be what its author expects is refused: one that
writes to its own parameters, changes the shape of a buffer, or has gradient hooks on
parameters. One that remembers something between two calls is told: it trains, but a
resumed run may differ from an unbroken one.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import attrs
import torch
from torch import Tensor, nn

from speedtronic.errors import ModelError
from speedtronic.pure.contract import ContractError
from speedtronic.pure.gradient import gradient
from speedtronic.pure.inner import InnerState
from speedtronic.pure.module import ModuleLoss, uses_functional_dropout
from speedtronic.pure.tree import tree_map
from speedtronic.pure.types import Batch, LossOutput, Params
from speedtronic.shell import generators
from speedtronic.shell.device import seeded
from speedtronic.shell.factory import failure


@attrs.frozen(kw_only=True)
class FirstBatch:
    """What the first batch tells of a model."""

    draws_by_function: bool  # dropout without a module of its own
    reasons: tuple[str, ...]  # why resuming may not be exact


def try_first_batch(
    module: nn.Module, state: InnerState, example: Batch, context: Callable[[], Any]
) -> FirstBatch:
    """Run a model forward and backward, and look at what it did.

    Args:
        module: of the state.
        state: before the first step; left as it is.
        example: one micro-batch on the state's device; left as it is.
        context: of the forward pass, such as autocast.

    Raises:
        ModelError: it fails, breaks its contract, or cannot be a pure step.
    """
    if told := [*_gradient_hooks(module), *_not_real(state.params)]:
        raise ModelError(told)
    # The forward pass may write to all that it is given.
    state, batch = tree_map(Tensor.clone, (state, example))
    with _as_model_errors():
        loss = ModuleLoss(module, train=True, context=context, keyed_functions=False)
        weights = state.params | state.frozen
        written = {name: value._version for name, value in weights.items()}
        with _repeated(state.key.device):
            slope = gradient(loss)
            grads, first = slope(
                state.params, state.frozen, state.buffers, batch, state.key, None
            )
        told = [
            *_written(weights, written),
            *_other_buffers(state, first),
            *_sparse(grads),
        ]
        if told:
            raise ModelError(told)
        batch = tree_map(Tensor.clone, example)
        with _repeated(state.key.device):
            second = loss(weights, state.buffers, batch, state.key)
        batch = tree_map(Tensor.clone, example)
        with _repeated(state.key.device):
            draws = uses_functional_dropout(
                loss, weights, state.buffers, batch, state.key
            )
    return FirstBatch(draws_by_function=draws, reasons=tuple(_memory(first, second)))


@contextmanager
def _as_model_errors() -> Iterator[None]:
    try:
        yield
    except ModelError:
        raise
    except ContractError as error:
        raise ModelError(f"model.name: {error}") from error
    except (Exception, SystemExit) as error:  # the user's code may raise anything
        raise ModelError(
            f"model.name: the model fails on its first batch: {failure(error)}"
        ) from error


@contextmanager
def _repeated(device: torch.device) -> Iterator[None]:
    """The same draws from every global generator, which are as they were after."""
    captured = generators.capture()
    try:
        with seeded(0, device):
            yield
    finally:
        generators.restore(captured.values, captured.tensors)


def _gradient_hooks(module: nn.Module) -> Iterator[str]:
    for name, value in module.named_parameters():
        if value._backward_hooks or value._post_accumulate_grad_hooks:
            yield (
                f"model.name: the parameter {name!r} has a gradient hook, which would"
                " not be called; do it in forward, or freeze with model.freeze"
            )


def _not_real(params: Params) -> Iterator[str]:
    for name, value in params.items():
        if not value.is_floating_point():
            yield (
                f"model.name: the parameter {name!r} is {value.dtype}, expected a real"
                " one; train its parts, torch.view_as_real, or freeze it"
            )


def _written(weights: Params, before: dict[str, int]) -> Iterator[str]:
    for name, value in weights.items():
        if value._version != before[name]:
            yield (
                f"model.name: forward writes to the parameter {name!r} (max_norm of an"
                " embedding does, too), so that evaluation would change the run;"
                " compute the new value instead and use it"
            )


def _other_buffers(state: InnerState, out: LossOutput) -> Iterator[str]:
    for name, old in state.buffers.items():
        new = out.buffers[name]
        if (new.shape, new.dtype) != (old.shape, old.dtype):
            yield (
                f"model.name: forward gives the buffer {name!r} as"
                f" {new.dtype}{list(new.shape)}, expected"
                f" {old.dtype}{list(old.shape)} as it was"
            )


def _sparse(grads: Params) -> Iterator[str]:
    for name, value in grads.items():
        if value.layout != torch.strided:
            yield (
                f"model.name: the gradient of {name!r} is sparse, expected a dense one;"
                " build the embedding with sparse=False"
            )


def _memory(first: LossOutput, second: LossOutput) -> Iterator[str]:
    if not torch.allclose(first.loss_sum, second.loss_sum, equal_nan=True):
        yield (
            "the model gives another loss when it is called again: it keeps something"
            " that is neither parameter nor buffer (register_buffer would save it)"
        )
