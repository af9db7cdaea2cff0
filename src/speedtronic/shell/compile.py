"""How a step is run: eagerly or compiled, into fresh tensors or over its own state.

The pure step stays the definition. `StepRunner` runs the same function and may donate
the state, as in JAX: the state that goes in must not be read again. Eagerly that
turns the optimizer's functional kernel into the in-place one; compiled, the new state
is copied over the old inside the graph, so that the compiler writes in place.
"""

import warnings
import weakref
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch._subclasses import FakeTensorMode

from speedtronic.pure import tree
from speedtronic.pure.gradient import Gradient
from speedtronic.pure.inner import (
    Accumulated,
    InnerState,
    StepInfo,
    StepRule,
    accumulate,
    accumulate_one,
    add_accumulated,
    apply,
    inner_step,
)
from speedtronic.pure.optim.base import FUNCTIONAL_ADAMW, Optimizer
from speedtronic.pure.types import Batch

_COMPILER_ERRORS = (
    torch._dynamo.exc.TorchDynamoException,
    torch._inductor.exc.InductorError,
)


def adamw_over_its_buffers(*args: Any, **kwargs: Any) -> Any:
    """The fused AdamW kernel, writing over the tensors that it is given."""
    torch._fused_adamw_(*args, **kwargs)
    return args[:5]


class Spent:
    """States that were written over, told apart by their counters of steps.

    A step makes a new counter whatever it does with the rest. Nothing is kept alive.
    """

    def __init__(self) -> None:
        self._counters: weakref.WeakValueDictionary[int, Tensor] = (
            weakref.WeakValueDictionary()
        )

    def add(self, state: InnerState) -> None:
        """Remember a state that was written over."""
        self._counters[id(state.step)] = state.step

    def check(self, state: InnerState) -> None:
        """Refuse a state that was written over, or one made of it.

        Raises:
            ValueError: its parameters are those of a later step.
        """
        if self._counters.get(id(state.step)) is state.step:
            raise ValueError(
                "the state was given to a step that wrote over it; go on with the state"
                " that the step returned, or keep old ones with donate=False"
            )


class StepRunner:
    """Runs the inner step; call it as ``state, info = run(state, micro_batches)``.

    Args:
        gradient: of the loss.
        optimizer: an init/update pair.
        rule: clipping and loss scaling.
        compiled: whether to use `torch.compile`, and with which backend.
        donate: whether the step may write over the state that it is given.
        fused: whether eager steps may use the device's fused optimizer kernel.
        reduce: sums the shares of several ranks, between the halves of the step.
        warn: called with one line when compilation is given up.
    """

    def __init__(
        self,
        gradient: Gradient,
        optimizer: Optimizer,
        rule: StepRule,
        *,
        compiled: str | None = None,
        donate: bool = True,
        fused: bool = True,
        reduce: Callable[[Accumulated], Accumulated] | None = None,
        warn: Callable[[str], None] = warnings.warn,
    ) -> None:
        self.gradient, self.optimizer, self.rule = gradient, optimizer, rule
        self.donate, self.reduce, self.warn = donate, reduce, warn
        kernel = adamw_over_its_buffers if donate else FUNCTIONAL_ADAMW
        self.eager_rule = tree.evolve(rule, kernel=kernel if fused else None)
        writes = donate and fused and optimizer.fused is not None
        self._spent: Spent | None = Spent() if writes else None
        self.compiled = compiled is not None
        if compiled is not None:
            self._compile(compiled)

    def __call__(
        self,
        state: InnerState,
        micro_batches: Sequence[Batch],
        progress: Tensor | None = None,
    ) -> tuple[InnerState, StepInfo]:
        """One step; a donated ``state`` must not be read again.

        Raises:
            ValueError: the state was written over by an earlier eager step.
        """
        if not self.compiled:
            return self._eager(state, micro_batches, progress)
        try:
            with torch._dynamo.config.patch(_DYNAMO):
                return self._compiled(state, micro_batches, progress)
        except _COMPILER_ERRORS as error:
            # Nothing ran yet. An error of the model's own surfaces here as itself.
            result = self._eager(state, micro_batches, progress)
            self.compiled = False
            self.warn(
                f"compile: {type(error).__name__}, training goes on without it;"
                f" {_first_line(error)}"
            )
            return result

    def _eager(
        self,
        state: InnerState,
        micro_batches: Sequence[Batch],
        progress: Tensor | None,
    ) -> tuple[InnerState, StepInfo]:
        if self._spent is not None:
            self._spent.check(state)
        total = accumulate(self.gradient, state, micro_batches)
        if self.reduce is not None:
            total = self.reduce(total)
        result = apply(
            self.optimizer, state, total, rule=self.eager_rule, progress=progress
        )
        if self._spent is not None:
            self._spent.add(state)
        return result

    def _compile(self, backend: str) -> None:
        def whole(
            state: InnerState, batch: Batch, progress: Tensor | None
        ) -> tuple[InnerState, StepInfo]:
            return inner_step(
                self.gradient,
                self.optimizer,
                state,
                [batch],
                rule=self.rule,
                progress=progress,
            )

        def first(state: InnerState, batch: Batch) -> Accumulated:
            return accumulate_one(self.gradient, state, state.buffers, batch, 0)

        def more(
            total: Accumulated, state: InnerState, batch: Batch, index: Tensor
        ) -> tuple[Accumulated, None]:
            part = accumulate_one(self.gradient, state, total.buffers, batch, index)
            return add_accumulated(total, part), None

        def last(
            state: InnerState, total: Accumulated, progress: Tensor | None
        ) -> tuple[InnerState, StepInfo]:
            return apply(
                self.optimizer, state, total, rule=self.rule, progress=progress
            )

        self._whole = jit(whole, donate=self.donate, backend=backend)
        self._first = jit(first, backend=backend)
        self._more = jit(more, donate=True, backend=backend)
        self._last = jit(last, donate=self.donate, backend=backend)

    def _compiled(
        self,
        state: InnerState,
        micro_batches: Sequence[Batch],
        progress: Tensor | None,
    ) -> tuple[InnerState, StepInfo]:
        if len(micro_batches) == 1 and self.reduce is None:
            result: tuple[InnerState, StepInfo] = self._whole(
                state, micro_batches[0], progress
            )
            return result
        total = self._first(state, micro_batches[0])
        for index, batch in enumerate(micro_batches[1:], start=1):
            total, _ = self._more(total, state, batch, torch.tensor(index))
        if self.reduce is not None:
            total = self.reduce(total)
        stepped: tuple[InnerState, StepInfo] = self._last(state, total, progress)
        return stepped


# The gradient is taken inside the graph, and a dropout module that counts its calls
# may stand inside an activation checkpoint.
_DYNAMO: dict[str, Any] = {
    "trace_autograd_ops": True,
    "skip_fwd_side_effects_in_bwd_under_checkpoint": True,
}


def jit(
    step: Callable[..., Any], *, donate: bool = False, backend: str
) -> Callable[..., Any]:
    """Compile a pure function of pytrees in one graph.

    With ``donate`` it is a step, ``step(state, ...) -> (state, info)``, and the graph
    writes the new state over the old one.

    Raises:
        ValueError, TypeError: from `check_donation`, at the first call.
    """
    if donate:
        return _jit_over(step, backend)

    def flat(*args: Any) -> list[Any]:
        return tree.leaves(step(*args))

    compiled = torch.compile(flat, fullgraph=True, dynamic=False, backend=backend)
    shape: list[Any] = []  # Dynamo cannot rebuild every state class by itself

    def run(*args: Any) -> Any:
        if not shape:
            shape.append(_on_fake_tensors(step, *args)[1])
        return tree.unflatten_like(shape[0], compiled(*args))

    return run


def _jit_over(step: Callable[..., Any], backend: str) -> Callable[..., Any]:
    def overwrite(state: Any, *args: Any) -> tuple[Any, Any]:
        new, info = step(state, *args)
        for target, value in zip(tree.leaves(state), tree.leaves(new), strict=True):
            if target is not value:
                target.copy_(value)
        return state, info

    compiled = torch.compile(overwrite, fullgraph=True, dynamic=False, backend=backend)
    checked = False

    def run(state: Any, *args: Any) -> Any:
        nonlocal checked
        if not checked:
            check_donation(step, state, *args)
            checked = True
        return compiled(state, *args)

    return run


def _on_fake_tensors(step: Callable[..., Any], *args: Any) -> tuple[Any, Any]:
    """Arguments and result of a call that computes shapes only."""
    with FakeTensorMode(allow_non_fake_inputs=True) as mode:
        fake = tree.tree_map(
            lambda x: mode.from_tensor(x) if isinstance(x, Tensor) else x, args
        )
        return fake, step(*fake)


def check_donation(
    step: Callable[..., tuple[Any, Any]], state: Any, *args: Any
) -> None:
    """Refuse a step that cannot write over its own state.

    Raises:
        TypeError: if a leaf comes back with another shape or dtype.
        ValueError: if a leaf comes back in another place: writing one would destroy
            the other.

    >>> check_donation(lambda s: ({"a": s["b"], "b": s["a"]}, None),
    ...     {"a": torch.zeros(1), "b": torch.ones(1)})
    Traceback (most recent call last):
    ValueError: the step returns ['b'] as ['a']; clone it inside the step, ...
    """
    fake, (new, _) = _on_fake_tensors(step, state, *args)
    pairs = zip(tree.named_leaves(fake[0]).items(), tree.leaves(new), strict=True)
    kept = [(path, old, value) for (path, old), value in pairs]
    owner = {old.untyped_storage()._cdata: path for path, old, _ in kept}
    for path, old, value in kept:
        if (old.shape, old.dtype) != (value.shape, value.dtype):
            raise TypeError(
                f"the step gives {path} as {value.dtype}{list(value.shape)}, expected"
                f" {old.dtype}{list(old.shape)} as it was given"
            )
        source = owner.get(value.untyped_storage()._cdata, path)
        if source != path:
            raise ValueError(
                f"the step returns {source} as {path}; clone it inside the step, or"
                " run it without donation"
            )


def _first_line(error: BaseException) -> str:
    return str(error).strip().splitlines()[0] if str(error).strip() else repr(error)
