"""A user's `nn.Module` as a pure loss of (params, buffers, batch, key).

The module itself is never run: a loss keeps a private copy without storage, and the
given tensors are put in place of that copy's for the time of a call. So the user's
module is bit-identical before and after, a module used twice needs no special care,
and a parameter tied under several names is one entry, keyed by its first name, whose
gradient is the sum over its uses. (`torch.func.functional_call` does the same at some
thirty times the cost, and leaves a module that is used twice with foreign tensors.)
"""

import copy
import fnmatch
import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import torch
from torch import Tensor, nn

from speedtronic.pure.contract import ContractError, loss_of
from speedtronic.pure.dropout import KeyedDropout, KeyedFunctions, keyed_copy
from speedtronic.pure.random import fold_in
from speedtronic.pure.types import Batch, Buffers, Key, LossOutput, Params

Context = Callable[[], AbstractContextManager[Any]]
_FUNCTIONS = 2**31  # folded into the key of functional dropout, above any module index


def split(
    module: nn.Module, freeze: Sequence[str] = ()
) -> tuple[Params, Params, Buffers]:
    """Copies of a module's trainable parameters, frozen parameters and buffers.

    Args:
        module: any module; it is left as it is.
        freeze: patterns (`fnmatch`) of parameter names that are not trained, beside
            those with ``requires_grad=False``.

    Returns:
        Three dicts by name; parameters and floating buffers keep their dtype.

    Raises:
        ValueError: naming each pattern that matches nothing.
        ContractError: a parameter has no values.

    >>> params, frozen, buffers = split(nn.Linear(2, 1), freeze=["bias"])
    >>> list(params), list(frozen), list(buffers)
    (['weight'], ['bias'], [])
    """
    named = dict(module.named_parameters())
    unused = [p for p in freeze if not fnmatch.filter(named, p)]
    if unused:
        raise ValueError(
            f"model.freeze: {', '.join(map(repr, unused))} matches no parameter;"
            f" names look like {', '.join(map(repr, list(named)[:3]))}"
        )
    if empty := [name for name, value in named.items() if _has_no_values(value)]:
        raise ContractError(
            f"the parameter {empty[0]!r} has no values yet; call a lazy module once on"
            " a sample, and build on the CPU, not on the meta device"
        )
    params: Params = {}
    frozen: Params = {}
    for name, value in named.items():
        still = any(fnmatch.fnmatchcase(name, pattern) for pattern in freeze)
        target = params if value.requires_grad and not still else frozen
        target[name] = value.detach().clone()
    buffers = {name: b.detach().clone() for name, b in module.named_buffers()}
    return params, frozen, buffers


def persistent_buffers(module: nn.Module) -> set[str]:
    """Names of the buffers that belong to a saved model."""
    kept = module.state_dict(keep_vars=True)
    return {name for name, _ in module.named_buffers() if name in kept}


class ModuleLoss:
    """The pure loss of a module; call it as a `LossFunction`.

    Args:
        module: any module that keeps the contract of `speedtronic.pure.contract`.
        train: run it in training mode (dropout, batch statistics) or not.
        context: makes the context that the forward pass runs in, such as autocast.
        keyed_functions: also key dropout that has no module of its own.
        pass_labels: hand the labels to the model; without, its logits decide. By
            default those get labels whose ``forward`` takes them; a transformers
            model never does, since it would shift labels that are shifted already.

    Raises:
        ContractError: the module cannot be copied.

    >>> loss = ModuleLoss(nn.Linear(2, 3), train=True)
    >>> params, _, buffers = split(nn.Linear(2, 3))
    >>> batch = (torch.ones(4, 2), torch.tensor([0, 1, 2, -100]))
    >>> loss(params, buffers, batch, torch.zeros(2, dtype=torch.int64)).count
    tensor(3.)
    """

    def __init__(
        self,
        module: nn.Module,
        *,
        train: bool,
        context: Context = nullcontext,
        keyed_functions: bool = True,
        pass_labels: bool | None = None,
    ) -> None:
        self.context = context
        self.keyed_functions = keyed_functions
        takes = takes_labels(module) if pass_labels is None else pass_labels
        self.pass_labels = takes
        skeleton = _skeleton(module)
        self._module = skeleton.train(train)
        self._buffer_cells = _cells(skeleton, "_buffers")
        named = skeleton.named_modules()
        drops = [(p, m) for p, m in named if isinstance(m, KeyedDropout)]
        self._drops = [(path, drop) for path, drop in drops if drop.rate > 0]
        self._cells = [
            *_cells(skeleton, "_parameters"),
            *self._buffer_cells,
            *((drop._buffers, "key", path) for path, drop in self._drops),
        ]
        self.draws = keyed_functions or bool(self._drops)

    def __call__(
        self, params: Params, buffers: Buffers, batch: Batch, key: Key, /
    ) -> LossOutput:
        """The loss of one micro-batch; ``params`` holds the frozen ones too."""
        result = self.run(params, buffers, batch, key, _forward_only)
        return result[1]

    def run(
        self,
        params: Params,
        buffers: Buffers,
        batch: Batch,
        key: Key,
        finish: Callable[[LossOutput], Any],
    ) -> tuple[Any, LossOutput]:
        """The loss, and ``finish(loss)`` computed while the parameters are in place.

        Activation checkpoints run parts of the module again in the backward pass, so
        that whoever differentiates must do it in ``finish``.
        """
        with self._placed(params, buffers, key):
            return self._body(batch, key, finish)

    def outputs(
        self, params: Params, buffers: Buffers, batch: Batch, key: Key, /
    ) -> Any:
        """What the module itself returns for a batch."""
        with self._placed(params, buffers, key):
            self._number_calls()
            return self._call(batch)

    @contextmanager
    def _placed(self, params: Params, buffers: Buffers, key: Key) -> Iterator[None]:
        # The forward pass may write to buffers, so that it gets copies.
        copies = {name: value.clone() for name, value in buffers.items()}
        values = params | copies
        values |= {path: fold_in(key, i) for i, (path, _) in enumerate(self._drops)}
        empty = [slots[leaf] for slots, leaf, _ in self._cells]
        try:
            for slots, leaf, name in self._cells:
                slots[leaf] = values[name]
            yield
        finally:
            for (slots, leaf, _), value in zip(self._cells, empty, strict=True):
                slots[leaf] = value

    def _number_calls(self, *, backward: bool = False) -> None:
        for _, drop in self._drops:
            drop.calls_before_backward = drop.calls if backward else 0
            drop.calls = 0

    def _call(self, batch: Batch) -> Any:
        module = self._module
        with self.context():
            if isinstance(batch, Mapping):
                given = dict(batch)
                if not self.pass_labels:
                    given.pop("labels", None)
                return module(**given)
            if isinstance(batch, (tuple, list)):
                return module(*batch) if self.pass_labels else module(batch[0])
            return module(batch)

    def _body(
        self, batch: Batch, key: Key, finish: Callable[[LossOutput], Any]
    ) -> tuple[Any, LossOutput]:
        self._number_calls()
        mode = (
            KeyedFunctions(fold_in(key, _FUNCTIONS))
            if self.keyed_functions
            else nullcontext()
        )
        with mode:
            output = self._call(batch)
            loss_sum, count, metrics = loss_of(output, batch)
            buffers = {
                name: slots[leaf].detach() for slots, leaf, name in self._buffer_cells
            }
            out = LossOutput(
                loss_sum=loss_sum, count=count, metrics=metrics, buffers=buffers
            )
            self._number_calls(backward=True)
            if isinstance(mode, KeyedFunctions):
                mode.forward_done = True
            return finish(out), out


def _forward_only(_: LossOutput) -> None:
    return None


def takes_labels(module: nn.Module) -> bool:
    """Whether a module's ``forward`` wants the labels beside the inputs.

    >>> takes_labels(nn.Linear(2, 2))
    False
    """
    if any(kind.__name__ == "PreTrainedModel" for kind in type(module).__mro__):
        return False
    parameters = list(inspect.signature(module.forward).parameters.values())
    if any(p.name == "labels" or p.kind is p.VAR_KEYWORD for p in parameters):
        return True
    positional = [p for p in parameters if p.kind <= p.POSITIONAL_OR_KEYWORD]
    return len(positional) > 1 or any(p.kind is p.VAR_POSITIONAL for p in parameters)


def _cells(module: nn.Module, kind: str) -> list[tuple[dict[str, Any], str, str]]:
    """Every place that holds a tensor: its dict, its key there, its entry's name."""
    found = []
    first: dict[int, str] = {}
    for path, part in module.named_modules():
        slots: dict[str, Any] = getattr(part, kind)
        for leaf, value in slots.items():
            if value is not None and not isinstance(part, KeyedDropout):
                name = f"{path}.{leaf}" if path else leaf
                found.append((slots, leaf, first.setdefault(id(value), name)))
    return found


def _skeleton(module: nn.Module) -> nn.Module:
    """A copy whose parameters and buffers have no storage, with keyed dropout."""
    memo: dict[int, Any] = {}
    for t in _recomputed(module):
        memo[id(t)] = torch.empty_like(t, device="meta")
    for p in module.parameters():
        empty = torch.empty_like(p, device="meta")
        memo[id(p)] = nn.Parameter(empty, requires_grad=p.requires_grad)
    for b in module.buffers():
        memo[id(b)] = torch.empty_like(b, device="meta")
    try:
        skeleton = copy.deepcopy(module, memo)
    except Exception as error:  # a user's class may raise anything
        raise ContractError(
            f"the model cannot be copied: {_culprit(module, memo)}"
            f" ({type(error).__name__}: {' '.join(str(error).split())}); make it in"
            " forward, or give the class a __deepcopy__"
        ) from error
    for part in list(skeleton.modules()):
        for name, child in part._modules.items():
            if child is not None and (keyed := keyed_copy(child)) is not None:
                part._modules[name] = keyed
    return keyed_copy(skeleton) or skeleton


def _has_no_values(value: Tensor) -> bool:
    return nn.parameter.is_lazy(value) or value.is_meta


def _recomputed(module: nn.Module) -> Iterator[Tensor]:
    """Tensors that hooks make anew before each call, such as pruned weights."""
    for part in module.modules():
        for value in vars(part).values() if part._forward_pre_hooks else ():
            if isinstance(value, Tensor) and not value.is_leaf:
                yield value


def _culprit(module: nn.Module, memo: dict[int, Any]) -> str:
    """The attribute that does not let itself be copied."""
    for path, part in module.named_modules():
        for name, value in vars(part).items():
            try:
                if name != "_modules":
                    copy.deepcopy(value, dict(memo))
            except Exception:  # the user's object may refuse in any way
                return repr(f"{path}.{name}" if path else name)
    return type(module).__name__


def uses_functional_dropout(
    loss: ModuleLoss, params: Params, buffers: Buffers, batch: Batch, key: Key
) -> bool:
    """Whether a forward pass calls dropout that has no module of its own.

    Where it does not, a loss without ``keyed_functions`` is the same and runs faster.
    """
    mode = KeyedFunctions(key)
    with mode:
        loss.outputs(params, buffers, batch, key)
    return mode.seen > 0
