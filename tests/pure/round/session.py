"""Talks to one machine: gives it events by a clock of its own, keeps its effects."""

from typing import Any

import attrs
from tests.pure.round.test_admit import BOUNDS
from tests.pure.round.values import LIFE, LIMITS, LINEAGE

from speedtronic.pure.round import events as e
from speedtronic.pure.round.manifest import Manifest
from speedtronic.pure.round.master import MasterSettings, master, start_master
from speedtronic.pure.round.worker import WorkerSettings, start_worker, worker


@attrs.define
class Session:
    """A machine, its state and its clock."""

    machine: Any
    state: Any
    now_s: float = 0.0

    def tell(self, kind: Any, *values: Any, **fields: Any) -> list[e.Effect]:
        """What it wants after an event, which happens now."""
        event = kind(self.now_s, *values, **fields)
        self.state, effects = self.machine(self.state, event)
        return list(effects)

    def wait(self, seconds: float) -> list[e.Effect]:
        """What it wants after some time."""
        self.now_s += seconds
        return self.tell(e.Tick)

    def look(self, manifest: Manifest | None, *listed: Any, **view: Any) -> Any:
        """What it wants after a look that finds this, at the next revision."""
        fields = {"revision": f"r{manifest.serial}" if manifest else None, **view}
        deltas = tuple(e.Listed(name, 500) for name in listed)
        return self.tell(e.Looked, e.View(manifest=manifest, deltas=deltas, **fields))


def working(record: Any = None, **settings: Any) -> Session:
    """A worker that just started; it looks at the lane."""
    known = {
        "node": "node-1",
        "life": LIFE,
        "lineage": LINEAGE,
        "inner_steps": 10,
        "poll_s": 5.0,
    }
    first = start_worker(WorkerSettings(**{**known, **settings}), 0.0, record)
    session = Session(worker, first)
    assert e.Look() in session.tell(e.Tick)
    return session


def leading(run: str | None = None, **settings: Any) -> Session:
    """One who would lead and just started; it looks at the lane."""
    known = {
        "node": "leader",
        "life": LIFE,
        "lineage": LINEAGE,
        "limits": LIMITS,
        "outer": (),
        "bounds": BOUNDS,
    }
    session = Session(
        master, start_master(MasterSettings(**{**known, **settings}), 0.0, run)
    )
    assert [e.Look()] == session.tell(e.Tick)
    return session


def joined(manifest: Manifest, **settings: Any) -> Session:
    """A worker that trains on a manifest's global."""
    session = working(**settings)
    session.look(manifest)
    session.tell(e.Fetched)
    session.tell(e.Boundary, 0, 0, 0)
    session.tell(e.Persisted)
    return session


def trained(session: Session, steps: int, cursor: int = 10) -> list[e.Effect]:
    """What it wants at the boundary after some steps."""
    return session.tell(e.Boundary, steps, 16 * steps, cursor)


def kinds(effects: list[e.Effect]) -> list[str]:
    """The kinds of effects, without what is only told."""
    names = [type(effect).__name__ for effect in effects]
    return [name for name in names if name != "Tell"]


def told(effects: list[e.Effect]) -> str:
    """What a user reads."""
    return "\n".join(x.text for x in effects if isinstance(x, e.Tell | e.Stopped))
