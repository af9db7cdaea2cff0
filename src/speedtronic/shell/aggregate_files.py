"""A whole outer step over deltas that lie in files, in the memory of the model.

The same bits as ``outer_step(state, aggregate(deltas, rule), outer)``, which is the
definition; only the order of work differs: row by row of every tensor, over all files,
so that each number is read once and used while it is in the cache. For a rule that
compares whole deltas there is a pass before, in which their products are added up. The
state is donated: the step writes over it.

Rows are of the length up to which torch stays on one thread, on purpose. A leader
aggregates beside a training process, and threads that wait for one another inside of
each small operation were seen to take a hundred times longer on a busy machine.
"""

import math
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from speedtronic.pure.aggregate import (
    Aggregator,
    Part,
    asks,
    buffer_rule,
    is_set,
    join_outline,
    parts,
    times,
    voters,
    widen,
)
from speedtronic.pure.delta import Delta, Weights
from speedtronic.pure.origin import Origin
from speedtronic.pure.outer import OuterInfo, OuterRule, OuterState, check_step, move
from speedtronic.pure.products import Products, from_sums, places
from speedtronic.pure.reduction import ROW, fold_row, real
from speedtronic.pure.tree import evolve, named_leaves
from speedtronic.shell.delta_file import DeltaFile, open_delta, spans


def outer_step_from_files(
    state: OuterState, files: Mapping[Origin, Path], rule: Aggregator, outer: OuterRule
) -> tuple[OuterState, OuterInfo]:
    """Aggregate the deltas in ``files`` and take the outer step.

    Args:
        state: on the CPU; it is donated, that is, overwritten. Use the one returned.
        files: safetensors files of deltas that were admitted; none changes nothing.
        rule: how to aggregate.
        outer: the outer optimizer's numbers.

    Raises:
        ValueError: a delta does not fit or its weight cannot be used, with the node's
            name, there are too few for the rule, or a tensor of ``state`` is not
            contiguous; the state is as it was.
        Damaged: a file is not whole; the state is as it was, unless the file was cut
            while it was read.
    """
    order = voters(files, rule)
    if not order:
        return state, OuterInfo(delta_norm=torch.zeros(()))
    with ExitStack() as stack:
        outline = Weights(params={}, buffers={})
        opened: list[DeltaFile] = []
        for origin, _ in order:
            file = stack.enter_context(open_delta(files[origin]))
            outline = join_outline(outline, origin, file.outline())
            opened.append(file)
        delta = Delta(params=outline.params, buffers=outline.buffers)
        check_step(state, delta, outer)
        _check_contiguous(state)
        asked = asks(rule, len(order))
        table = _products(opened, crossed=rule.needs == "pairs") if asked else None
        judged = list(zip(opened, parts(order, rule, table), strict=True))
        for name, buffer in state.weights.buffers.items():
            _set(buffer, judged, f"buffers.{name}", rule)
        squares = 0.0
        for name in state.weights.params:
            squares += _step(state, name, judged, rule, outer)
    after = evolve(state, round=state.round + 1)
    return after, OuterInfo(delta_norm=torch.tensor(math.sqrt(squares)))


def _check_contiguous(state: OuterState) -> None:
    told = [path for path, x in named_leaves(state).items() if not x.is_contiguous()]
    if told:
        raise ValueError(f"state{told[0]} is not contiguous, so rows cannot be written")


def _products(files: Sequence[DeltaFile], *, crossed: bool) -> Products:
    """The table of `products.products`, from one pass over all parameters."""
    sums = _Sums(len(files), crossed=crossed)
    for path in sorted(p for p in files[0].likes if p.startswith("params.")):
        for start, stop in files[0].spans(path):
            sums.add([widen(file.read(path, start, stop)) for file in files])
    return from_sums(sums.folded(), len(files), crossed=crossed)


class _Sums:
    """Sums of products of rows, in memory that is used again for every row.

    With new tensors for each product the C library gives memory back to the system and
    asks for it again, up to thousands of times a second.
    """

    def __init__(self, count: int, *, crossed: bool) -> None:
        self._places = places(count, crossed=crossed)
        self._wide = torch.empty(count, ROW, dtype=torch.float64)
        self._product = torch.empty(ROW, dtype=torch.float64)
        self._totals = torch.zeros(len(self._places), ROW, dtype=torch.float64)
        self._longest = 0

    def add(self, rows: Sequence[Tensor]) -> None:
        size = len(rows[0])
        self._longest = max(self._longest, size)
        wide, product = self._wide[:, :size], self._product[:size]
        for lane, row in zip(wide, rows, strict=True):
            lane.copy_(row)
        lanes, totals = list(wide), list(self._totals[:, :size])
        for total, (i, j) in zip(totals, self._places, strict=True):
            torch.mul(lanes[i], lanes[j], out=product)
            total.add_(product)

    def folded(self) -> list[float]:
        return [fold_row(total[: self._longest]).item() for total in self._totals]


class _Piece(NamedTuple):
    """One tensor of one file."""

    file: DeltaFile
    path: str
    weight: float
    factor: float = 1.0

    def read(self, start: int, stop: int) -> Tensor:
        return times(widen(self.file.read(self.path, start, stop)), self.factor)


def _step(
    state: OuterState,
    name: str,
    judged: Sequence[tuple[DeltaFile, Part]],
    rule: Aggregator,
    outer: OuterRule,
) -> float:
    """Move one parameter; return the sum of its delta's squares."""
    pieces = [
        _Piece(file, f"params.{name}", part.share, part.factor)
        for file, part in judged
        if part.share is not None
    ]
    value = _flat(state.weights.params[name])
    momentum = _flat(state.momentum[name]) if outer.momentum else None
    squares = 0.0  # a number: small tensors between the rows would scatter the heap
    for start, stop in spans(len(value)):
        delta = _fold(rule, pieces, start, stop)
        squares += torch.linalg.vector_norm(delta).item() ** 2
        trace = None if momentum is None else momentum[start:stop]
        moved, trace = move(value[start:stop], trace, delta, outer)
        value[start:stop].copy_(moved)
        if momentum is not None and trace is not None:
            momentum[start:stop].copy_(trace)
    return squares


def _set(
    buffer: Tensor,
    judged: Sequence[tuple[DeltaFile, Part]],
    path: str,
    rule: Aggregator,
) -> None:
    """Give one buffer its aggregated value, if enough files have one."""
    pieces = [_Piece(f, path, p.weight) for f, p in judged if path in f.likes]
    if not is_set(rule, len(pieces), len(judged)):
        return
    flat = _flat(buffer)
    leaf = buffer_rule(rule, buffer.dtype)
    for start, stop in spans(len(flat)):
        flat[start:stop].copy_(_fold(leaf, pieces, start, stop))


def _fold(rule: Aggregator, pieces: list[_Piece], start: int, stop: int) -> Tensor:
    first, *others = pieces
    state: Any = rule.init(first.read(start, stop), first.weight)
    for piece in others:
        state = rule.update(state, piece.read(start, stop), piece.weight)
    return rule.finish(state)


def _flat(x: Tensor) -> Tensor:
    """A view of all real elements, to write through."""
    return real(x.detach()).view(-1)
