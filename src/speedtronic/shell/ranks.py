"""The processes of one node, and what they send each other.

They share each step, and only rank 0 has a run folder and talks to other nodes. This is
the one file that knows `torch.distributed`: gloo between CPUs, NCCL between CUDA
devices, and gloo beside it for what the hosts say.

Nobody waits for ever. A rank that fails tells the others why before it leaves; one that
is killed is noticed by its closed connection, and one that hangs after `TIMEOUT_S`.
"""

import hashlib
import sys
from collections.abc import Callable, Mapping
from datetime import timedelta
from enum import IntEnum
from types import TracebackType
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed import PrefixStore  # type: ignore[attr-defined]
from torch.distributed.rendezvous import rendezvous

from speedtronic.errors import ConfigError, RankError, SpeedtronicError, UserError
from speedtronic.pure.strict_json import from_json, to_json
from speedtronic.pure.tree import named_leaves, unflatten_like
from speedtronic.shell.rank_place import Place

T = TypeVar("T")
TIMEOUT_S = 600.0  # for one answer of the others; whoever works longer says so
_FAILURE = "failure"
_ROW = 4  # numbers in a message, its tag included


class Tag(IntEnum):
    """What a small message is about; all ranks must be at the same one."""

    AGREE = 1
    ORDER = 2
    COUNTS = 3
    ROWS = 4


class Ranks:
    """The processes of a node, met; use it as a context manager.

    Every method is called by all ranks, in the same order.

    Args:
        place: of this process, one of several.
        device: where it trains.
        timeout_s: for one answer of the others.

    Raises:
        RankError: the others were not met, or one of them is gone; from every method.
    """

    def __init__(
        self, place: Place, device: torch.device, timeout_s: float = TIMEOUT_S
    ) -> None:
        self.place = place
        self._device, self._timeout_s = device, timeout_s
        self._store: Any = None
        self._excepthook = sys.excepthook  # torch puts a prefix before each line

    def __enter__(self) -> "Ranks":
        if dist.is_initialized():
            raise ConfigError(
                "torch.distributed: a process group is there already; let train() form"
                " it, or call destroy_process_group() before"
            )
        timeout = timedelta(seconds=self._timeout_s)
        rank, size = self.place.rank, self.place.ranks
        cuda = self._device.type == "cuda"
        if cuda:
            torch.cuda.set_device(self._device)
        try:
            store, _, _ = next(rendezvous("env://", timeout=timeout))
            # A process may train twice; what was said the first time is over.
            number = store.add(f"speedtronic/{rank}", 1)
            self._store = PrefixStore(f"speedtronic/{number}", store)
            dist.init_process_group(
                "cpu:gloo,cuda:nccl" if cuda else "gloo",
                store=self._store,
                rank=rank,
                world_size=size,
                timeout=timeout,
                device_id=self._device if cuda else None,
            )
        except (RuntimeError, ValueError) as error:
            raise RankError(
                f"rank {rank} did not meet the other {size - 1} at MASTER_ADDR and"
                f" MASTER_PORT: {_first_line(error)}"
            ) from error
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if error is not None and not isinstance(error, RankError):
            self._leave_word(error)
        dist.destroy_process_group()
        sys.excepthook = self._excepthook

    def gather(self, tag: Tag, *numbers: float) -> list[tuple[float, ...]]:
        """Small numbers of every rank, by rank; whole ones are exact below 2**53."""
        padding = (0.0,) * (_ROW - 1 - len(numbers))
        own = torch.tensor([tag, *numbers, *padding], dtype=torch.float64)
        rows = own.new_empty(self.place.ranks, _ROW)
        self._guarded(dist.all_gather_single, rows.view(-1), own)
        told = [tuple(row) for row in rows.tolist()]
        if {row[0] for row in told} != {float(tag)}:
            at = ", ".join(Tag(int(row[0])).name.lower() for row in told)
            raise RankError(f"the ranks have lost step with each other, at: {at}")
        return [row[1:] for row in told]

    def exchange(self, parts: Tensor) -> Tensor:
        """Row i goes to rank i; row j of the result came from rank j, f32[R, N]."""
        received = torch.empty_like(parts)
        self._guarded(dist.all_to_all_single, received, parts)
        return received

    def collect(self, part: Tensor, into: Tensor) -> Tensor:
        """The vectors of all ranks, f32[N] each, one after the other.

        Args:
            part: of this rank.
            into: written over and returned, f32[R, N] or f32[R * N].
        """
        self._guarded(dist.all_gather_single, into.view(-1), part)
        return into

    def broadcast(self, tree: T, source: int = 0) -> T:
        """The tensors of rank ``source``; the others give ones of the same kind."""
        named = named_leaves(tree)
        found = {path: self._broadcast(named[path], source) for path in sorted(named)}
        result: T = unflatten_like(tree, [found[path] for path in named])
        return result

    def tell(self, fields: Mapping[str, Any]) -> dict[str, Any]:
        """Plain values of rank 0; what the others give does not matter."""
        content = to_json(fields).encode()
        size = self.broadcast(torch.tensor(len(content)))
        if self.place.rank:
            content = bytes(int(size))
        told = torch.frombuffer(bytearray(content), dtype=torch.uint8)
        return from_json(self.broadcast(told).numpy().tobytes())

    def agree(self, what: str, value: str) -> None:
        """Refuse to go on with ranks that differ in something.

        Raises:
            RankError: naming those that are not like rank 0.
        """
        digest = hashlib.sha256(value.encode()).digest()[:6]
        rows = self.gather(Tag.AGREE, int.from_bytes(digest, "big"))
        others = [str(rank) for rank, row in enumerate(rows) if row != rows[0]]
        if others:
            raise RankError(
                f"{what}: rank {', '.join(others)} has another one than rank 0; start"
                " all ranks with the same config, files and packages",
                exit_code=UserError.exit_code,
            )

    def _broadcast(self, leaf: Any, source: int) -> Any:
        if not isinstance(leaf, Tensor):
            return leaf
        content = leaf.detach().contiguous()
        if self.place.rank != source:
            content = torch.empty_like(content)
        if content.numel():  # as bytes: a backend need not know every dtype
            self._guarded(dist.broadcast, content.view(-1).view(torch.uint8), source)
        return content

    def _guarded(self, send: Callable[..., Any], *arguments: Any) -> None:
        try:
            send(*arguments)
        except RuntimeError as error:
            raise self._reason(error) from error

    def _reason(self, error: RuntimeError) -> RankError:
        """Why a message did not arrive, in the words of whoever failed first."""
        try:
            if self._store.check([_FAILURE]):
                told = from_json(self._store.get(_FAILURE))
                return RankError(
                    f"rank {told['rank']} failed: {told['reason']}",
                    exit_code=told["exit_code"],
                )
        except RuntimeError:  # the store went with the rank that kept it
            pass
        if "timed out" in str(error).lower():
            return RankError(
                f"a rank of this node did not answer within {self._timeout_s:g}"
                " seconds; the last whole checkpoint is kept"
            )
        return RankError(
            "another rank of this node is gone without a word, killed perhaps; the last"
            " whole checkpoint is kept"
        )

    def _leave_word(self, error: BaseException) -> None:
        code, reason = 1, f"{type(error).__name__}: {error}"
        if isinstance(error, SpeedtronicError):
            code, reason = error.exit_code, str(error)
        told = {
            "rank": self.place.rank,
            "exit_code": code,
            "reason": "; ".join(reason.splitlines()),
        }
        try:
            self._store.compare_set(_FAILURE, "", to_json(told))
        except RuntimeError:  # then the others find out by themselves
            return


def _first_line(error: BaseException) -> str:
    return (str(error).splitlines() or [repr(error)])[0]
