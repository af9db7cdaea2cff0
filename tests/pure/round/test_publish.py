"""The commits of a leader: what is in them, and how large they may be."""

from tests.pure.round.session import leading
from tests.pure.round.test_admit import BOUNDS
from tests.pure.round.values import candidate, files, genesis, header

from speedtronic.pure.round import events as e
from speedtronic.pure.round.admit import Broken, Decisions, admit
from speedtronic.pure.round.limits import Limits
from speedtronic.pure.round.manifest import FILES_PER_COMMIT
from speedtronic.pure.round.master_state import Master, Prepared
from speedtronic.pure.round.names import kept, parse_delta
from speedtronic.pure.round.publish import close_round, refuse_only

LARGE = genesis(limits=Limits(staleness=2, window=4, per_round=20))


def leader(keep_rounds: int | None = 10) -> Master:
    state: Master = leading(keep_rounds=keep_rounds).state
    return state


def garbage(number: int) -> tuple[Broken, ...]:
    return tuple(
        Broken(parse_delta(f"nodes/x/{'ab' * 8}-{n}-{'cd' * 32}.safetensors"), "stale")
        for n in range(1, number + 1)
    )


def size(publish: e.Effect) -> int:
    """Files that a commit writes and deletes, with weights, momentum and card."""
    assert isinstance(publish, e.Publish)
    model = 3 if publish.fresh else 0
    return model + len(publish.names) + len(publish.copies) + len(publish.deletes)


def test_the_largest_round_fits_into_a_commit() -> None:
    """With all of its deltas, an anchor, old rounds and garbage."""
    heads = [header(LARGE, stream=f"{i:016x}", node=f"n{i}") for i in range(20)]
    decisions = admit(LARGE, tuple(candidate(h) for h in heads), BOUNDS)
    rubbish = garbage(100)
    decisions = Decisions(accepted=decisions.accepted, garbage=rubbish)
    listed = [h.name for h in heads] + [b.name for b in rubbish]
    view = e.View(
        revision="r0",
        manifest=LARGE,
        deltas=tuple(e.Listed(name, 500) for name in listed),
        kept=tuple(kept(n, f"old-{i}") for n in range(9) for i in range(9)),
    )
    prepared = Prepared(basis=LARGE, decisions=decisions)
    for keep in (0, 1, None):
        _, (publish,) = close_round(leader(keep), view, LARGE, prepared, files(1))
        assert size(publish) <= FILES_PER_COMMIT
        assert isinstance(publish, e.Publish)
        assert {h.name.path for h in heads} <= set(publish.deletes)


def test_much_garbage_is_swept_in_parts() -> None:
    """A commit has a bound; what is left comes with the next."""
    rubbish = garbage(100)
    view = e.View(
        revision="r0",
        manifest=LARGE,
        deltas=tuple(e.Listed(b.name, 500) for b in rubbish),
    )
    _, (publish,) = refuse_only(leader(), view, LARGE, Decisions(garbage=rubbish))
    assert FILES_PER_COMMIT == size(publish)


def test_only_what_is_there_is_deleted() -> None:
    """A name that is gone would make the whole commit fail."""
    rubbish = garbage(3)
    view = e.View(
        revision="r0", manifest=LARGE, deltas=(e.Listed(rubbish[1].name, 500),)
    )
    _, (publish,) = refuse_only(leader(), view, LARGE, Decisions(garbage=rubbish))
    assert isinstance(publish, e.Publish)
    assert (rubbish[1].name.path,) == publish.deletes


def test_an_anchor_is_kept_before_the_rounds_that_need_it() -> None:
    """The weights of the round before, which the lane holds already."""
    head = header(LARGE)
    decisions = Decisions(accepted=(candidate(head),))
    view = e.View(revision="r0", manifest=LARGE, deltas=(e.Listed(head.name, 500),))
    prepared = Prepared(basis=LARGE, decisions=decisions)
    _, (publish,) = close_round(leader(), view, LARGE, prepared, files(1))
    assert isinstance(publish, e.Publish)
    assert ("manifest.json", "rounds/1/manifest.json") == publish.names
    assert {
        (head.name.path, head.name.kept(1)),
        ("model.safetensors", "rounds/0/model.safetensors"),
        ("outer.safetensors", "rounds/0/outer.safetensors"),
    } == set(publish.copies)
