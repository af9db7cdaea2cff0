"""Which optimizer has which parameter of a config's model, as a table for people."""

from collections.abc import Iterator, Sequence

import attrs

from speedtronic.errors import ConfigError, ModelError
from speedtronic.pure.config import Config
from speedtronic.pure.contract import ContractError
from speedtronic.pure.module import split
from speedtronic.pure.optim import Assigned, assignment
from speedtronic.pure.roles import roles_of
from speedtronic.shell.session import build_module

_HEAD = ("parameter", "shape", "role", "optimizer", "factor", "decay")


@attrs.frozen(kw_only=True)
class Assignment:
    """What becomes of every parameter of a model."""

    trained: tuple[Assigned, ...]
    frozen: tuple[str, ...]  # names of those that no optimizer has


def assigned(config: Config) -> Assignment:
    """Build the model of a config, without data or device, and ask for its optimizers.

    Raises:
        ConfigError, ModelError: the model does not build, or a pattern matches nothing.
    """
    module, _ = build_module(config)
    try:
        params, frozen, _ = split(module, config.model.freeze)
        roles = roles_of(module)
    except ContractError as error:
        raise ModelError(f"model.name: {error}") from error
    except ValueError as error:
        raise ConfigError(str(error)) from error
    trained = assignment(config.optimizer, params, roles)
    return Assignment(trained=trained, frozen=tuple(frozen))


def table(found: Assignment) -> Iterator[str]:
    """One line per parameter under a head, and the totals.

    >>> one = Assigned(name="up.weight", shape=(8, 2), role="hidden",
    ...     optimizer="muon", factor=2.0, weight_decay=0.1)
    >>> for line in table(Assignment(trained=(one,), frozen=("b",))):
    ...     print(line)
    parameter  shape  role    optimizer  factor  decay
    up.weight  8 x 2  hidden  muon       2       0.1
    muon: 1 parameter, 16 numbers
    frozen: 1 parameter: b
    """
    rows = [_HEAD, *(_row(one) for one in found.trained)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        yield "  ".join(cells).rstrip()
    for name in sorted({one.optimizer for one in found.trained}):
        sizes = [one.size for one in found.trained if one.optimizer == name]
        yield f"{name}: {_parameters(sizes)}, {sum(sizes)} numbers"
    if found.frozen:
        yield f"frozen: {_parameters(found.frozen)}: {', '.join(found.frozen)}"


def _row(one: Assigned) -> tuple[str, ...]:
    shape = " x ".join(map(str, one.shape)) or "1 number"
    factor, decay = f"{one.factor:.4g}", f"{one.weight_decay:.4g}"
    return one.name, shape, one.role, one.optimizer, factor, decay


def _parameters(some: Sequence[object]) -> str:
    return f"{len(some)} parameter{'s' if len(some) != 1 else ''}"
