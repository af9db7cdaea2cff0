"""From a config to what a run computes with: model, loss, optimizer, first state."""

import functools
import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import nullcontext
from typing import Any

import attrs
import torch
from torch import Tensor, nn

from speedtronic.errors import ConfigError, ModelError
from speedtronic.pure.config import Config
from speedtronic.pure.contract import ContractError, count_of
from speedtronic.pure.data.position import node_key
from speedtronic.pure.flops import flops_per_token
from speedtronic.pure.gradient import gradient
from speedtronic.pure.inner import Accumulated, InnerState, StepRule, init_inner
from speedtronic.pure.module import (
    ModuleLoss,
    persistent_buffers,
    split,
)
from speedtronic.pure.optim import Optimizer, Schedule, optimizer_from_config
from speedtronic.pure.random import fold_in, key_from_seed
from speedtronic.pure.roles import roles_of
from speedtronic.pure.scaling import init_scale
from speedtronic.pure.schedule import from_config as schedule_from_config
from speedtronic.pure.tree import tree_map
from speedtronic.pure.types import Batch, Params
from speedtronic.shell.compile import StepRunner
from speedtronic.shell.device import (
    Arithmetic,
    choose_arithmetic,
    choose_device,
    choose_iterations,
)
from speedtronic.shell.distributed.identity import node_name
from speedtronic.shell.factory import nearest
from speedtronic.shell.first_batch import try_first_batch
from speedtronic.shell.models import model_from_config
from speedtronic.shell.out_of_order import CudaStreams, out_of_order
from speedtronic.shell.weights import load_weights

FUSED_DEVICES = ("cpu", "cuda")  # where torch has the fused AdamW kernel
_MODEL_STREAM = 0x40DE1  # separates the model's randomness from the data's


@attrs.frozen(kw_only=True)
class Session:
    """What a run computes with; nothing of it changes while it runs."""

    config: Config
    device: torch.device
    arithmetic: Arithmetic
    module: nn.Module  # as built; only its names and shapes are used
    schedule: Schedule
    optimizer: Optimizer
    train_loss: ModuleLoss
    evaluation_loss: ModuleLoss
    initial: InnerState  # before the first step, on the device
    flops_per_token: int  # of the model; 0 for data that has no tokens
    transient: frozenset[str]  # buffers that are not part of a saved model
    notes: tuple[str, ...]  # what the user should be told once
    reasons: tuple[str, ...]  # why resuming may not be exact

    @property
    def streams(self) -> int:
        """Streams beside the backward pass; 0 where it keeps its order."""
        ooo = self.config.ooo_backprop and self.device.type == "cuda"
        return self.config.ooo_streams if ooo else 0

    def runner(
        self,
        warn: Callable[[str], None],
        reduce: Callable[[Accumulated], Accumulated] | None = None,
    ) -> StepRunner:
        """The inner step as this config wants it run; arguments as of `StepRunner`."""
        section, compile = self.config.optimizer, self.config.compile
        rule = StepRule(
            max_norm=section.grad_clip,
            growth_interval=self.config.precision.growth_interval,
        )
        engine: Any = "autograd"
        if self.streams:
            engine = out_of_order(CudaStreams(self.device, self.streams))
        return StepRunner(
            gradient(self.train_loss, engine),
            self.optimizer,
            rule,
            compiled=compile.backend if compile.enabled else None,
            donate=compile.donate,
            fused=section.fused is not False and self.device.type in FUSED_DEVICES,
            reduce=reduce,
            warn=warn,
        )


def build_session(
    config: Config, example: Batch, device: torch.device | None = None
) -> Session:
    """Build everything, run the model once on ``example``, and check its contract.

    Args:
        config: of the run.
        example: one micro-batch on the CPU; tells whether the model draws by itself.
        device: where to run; None means where ``run.device`` says.

    Raises:
        ConfigError, DeviceError, ModelError: one line per mistake.
    """
    _check_backend(config)
    device = choose_device(config.run.device) if device is None else device
    arithmetic = choose_arithmetic(config.precision, device)
    module, notes = build_module(config)
    try:
        params, frozen, buffers = split(module, config.model.freeze)
    except ContractError as error:
        raise ModelError(f"model.name: {error}") from error
    except ValueError as error:
        raise ConfigError(str(error)) from error
    if not params:
        raise ModelError(
            f"model.name: {config.model.name!r} has no trainable parameter; check"
            " model.freeze and requires_grad"
        )
    params, frozen = full_precision(params), full_precision(frozen)
    schedule = schedule_from_config(
        config.scheduler, config.optimizer, config.run.max_steps
    )
    optimizer = optimizer_from_config(
        config.optimizer,
        schedule,
        params,
        roles_of(module),
        choose_iterations(config.optimizer, device),
    )
    # The loss is a sum; a scale that suits its mean is smaller by the targets in it.
    targets = max(1.0, float(count_of(example)))
    first_scale = config.precision.initial_scale / targets
    scale = init_scale(first_scale) if arithmetic.scaled else ()
    key = fold_in(key_from_seed(config.run.seed), _MODEL_STREAM)
    if config.distributed.enabled:
        key = node_key(key, node_name(config))
    state = init_inner(
        optimizer,
        params,
        key,
        frozen=frozen,
        buffers=buffers,
        scale=scale,
    )
    state = tree_map(lambda x: x.to(device), state)
    context = autocast(arithmetic, device)
    tried = try_first_batch(module, state, on_device(example, device), context)
    return Session(
        config=config,
        device=device,
        arithmetic=arithmetic,
        module=module,
        schedule=schedule,
        optimizer=optimizer,
        train_loss=ModuleLoss(
            module, train=True, context=context, keyed_functions=tried.draws_by_function
        ),
        evaluation_loss=ModuleLoss(
            module, train=False, context=context, keyed_functions=False
        ),
        initial=state,
        flops_per_token=_flops(config, params, example),
        transient=frozenset(buffers) - persistent_buffers(module),
        notes=(
            *notes,
            *_without_effect(config, optimizer, device),
            *(f"resuming is not exact: {why}" for why in tried.reasons),
        ),
        reasons=tried.reasons,
    )


def _flops(config: Config, params: Params, example: Batch) -> int:
    if not isinstance(example, Mapping) or "input_ids" not in example:
        return 0
    return flops_per_token(config, sum(x.numel() for x in params.values()))


def _without_effect(
    config: Config, optimizer: Optimizer, device: torch.device
) -> Iterator[str]:
    """What the config asks for and this run does not do, at no change of a number."""
    if config.ooo_backprop and device.type != "cuda":
        yield f"ooo_backprop: {device} has no streams, the backward keeps its order"
    elif config.ooo_backprop and config.model.gradient_checkpointing:
        yield "ooo_backprop: blocks that are recomputed keep their order"
    if config.optimizer.fused and (
        optimizer.fused is None or device.type not in FUSED_DEVICES
    ):
        yield (
            f"optimizer.fused: {config.optimizer.name} as configured has no fused"
            f" kernel on {device}, the formula is used"
        )


def _check_backend(config: Config) -> None:
    known = torch._dynamo.list_backends(exclude_tags=())
    if config.compile.enabled and config.compile.backend not in known:
        found = config.compile.backend
        raise ConfigError(
            f"compile.backend: expected one of {', '.join(known)}, found {found!r}"
            f"{nearest(found, known)}"
        )


def build_module(config: Config) -> tuple[nn.Module, tuple[str, ...]]:
    """The module of a config with its first weights, and what to tell about them.

    Raises:
        ConfigError, ModelError: if it does not build.
    """
    module = model_from_config(config)
    notes: tuple[str, ...] = ()
    if config.model.init_from is not None:
        notes = tuple(load_weights(module, config.model.init_from))
    if config.model.gradient_checkpointing:
        _checkpoint_activations(module, config.model.name)
    return module, notes


def _checkpoint_activations(module: nn.Module, name: str) -> None:
    switch: Any = getattr(module, "set_gradient_checkpointing", None)
    enable: Any = getattr(module, "gradient_checkpointing_enable", None)
    if switch is not None:
        switch(True)
    elif enable is not None:  # transformers
        enable(gradient_checkpointing_kwargs={"use_reentrant": False})
    else:
        raise ModelError(
            f"model.gradient_checkpointing: {name!r} has no"
            " set_gradient_checkpointing(enabled); add it, or set this to false"
        )


def full_precision(params: Params) -> Params:
    """Float32 masters of weights in any floating dtype; others as they are."""
    return {
        name: value.to(torch.float32) if value.is_floating_point() else value
        for name, value in params.items()
    }


def autocast(arithmetic: Arithmetic, device: torch.device) -> Callable[[], Any]:
    """Makes the context of a forward pass."""
    if arithmetic.autocast is None:
        return nullcontext
    return functools.partial(torch.autocast, device.type, arithmetic.autocast)


def on_device(batch: Batch, device: torch.device) -> Batch:
    """The batch on a device; the copy does not wait for it."""
    if device.type == "cpu":
        return batch
    return tree_map(
        lambda x: x.to(device, non_blocking=True) if isinstance(x, Tensor) else x, batch
    )


def hub_config(session: Session) -> dict[str, object]:
    """The ``config.json`` beside a checkpoint's weights."""
    own = getattr(session.module, "config", None)
    text: Callable[[], str] | None = getattr(own, "to_json_string", None)
    if text is not None:  # a transformers model
        told: dict[str, object] = json.loads(text())
        return told
    return {"model_type": "speedtronic", **attrs.asdict(session.config.model)}
