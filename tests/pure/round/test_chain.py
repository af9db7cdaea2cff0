"""The chain: what may follow what, and every way in which it can break."""

from collections.abc import Callable
from itertools import count
from typing import Any

import attrs
import pytest
from tests.pure.round.test_admit import BOUNDS
from tests.pure.round.values import (
    LIFE,
    LINEAGE,
    OTHER,
    STREAM,
    accept,
    candidate,
    files,
    genesis,
    header,
    publish,
    renew,
    rounds,
)

from speedtronic.pure.round.admit import Decisions, admit
from speedtronic.pure.round.chain import (
    breaks,
    differs,
    released,
    round_breaks,
    taken_over,
)
from speedtronic.pure.round.manifest import Manifest

NEW_LIFE = "99" * 8


def taken(manifest: Manifest) -> Manifest:
    return taken_over(manifest, "heir", NEW_LIFE, f"{NEW_LIFE}-0")


def given_up(manifest: Manifest) -> Manifest:
    return released(manifest, f"{NEW_LIFE}-7")


def refused(manifest: Manifest) -> Manifest:
    poor = candidate(header(manifest), finite=False)
    return publish(manifest, admit(manifest, (poor,), BOUNDS))


def one_round(manifest: Manifest) -> Manifest:
    return accept(manifest, header(manifest))


@pytest.mark.parametrize("step", [renew, taken, given_up, refused, one_round])
def test_every_step_follows(step: Callable[[Manifest], Manifest]) -> None:
    """From any state, and none follows itself or a later one."""
    for old in (genesis(), rounds(genesis(), 7), refused(genesis())):
        new = step(old)
        assert "" == breaks(old, new)
        assert "" != breaks(new, old)
        assert "" != breaks(new, new)


def test_a_renewal_is_not_a_round() -> None:
    """A base that was cut before it is still known."""
    start = genesis()
    for new in (renew(start), taken(start), refused(start)):
        assert start.round_id == new.round_id
        assert start.id != new.id


def test_two_attempts_are_never_the_same() -> None:
    """The nonce tells whose commit was applied."""
    start = genesis()
    other = attrs.evolve(renew(start), nonce=f"{LIFE}-99")
    assert renew(start).id != other.id


def test_a_takeover_changes_the_lease_only() -> None:
    """One epoch later, nobody's work is touched."""
    start = one_round(genesis())
    new = taken(start)
    assert (NEW_LIFE, 1, 0) == (new.lease.life, new.lease.epoch, new.lease.renewals)
    assert start.ledger == new.ledger


def test_an_epoch_cannot_jump() -> None:
    """Nor go back, nor change its holder."""
    start = one_round(genesis())
    for changes in ({"epoch": 2}, {"epoch": 0, "node": "heir"}, {"renewals": 9}):
        lease = attrs.evolve(taken(start).lease, **changes)
        told = breaks(start, attrs.evolve(taken(start), lease=lease))
        assert "after epoch 0" in told


def test_two_runs_of_one_config_differ() -> None:
    """Two leaders that begin at once begin two runs, and one of them wins the lane."""
    assert genesis().run != genesis(life="99" * 8, nonce=f"{'99' * 8}-0").run


def _evolved(**changes: Any) -> Callable[[Manifest], Manifest]:
    return lambda manifest: attrs.evolve(manifest, **changes)


@pytest.mark.parametrize(
    ("forge", "told"),
    [
        (_evolved(previous="0" * 64), "expected previous"),
        (_evolved(serial=9), "expected serial"),
        (_evolved(run="00" * 8), "expected run"),
        (_evolved(lineage="0" * 64), "run"),
        (_evolved(outer=()), "expected outer"),
        (_evolved(weights=files(9)[0]), "round id"),
        (_evolved(momentum=files(9)[1]), "round id"),
        (_evolved(round_id="0" * 64), "round id"),
        (_evolved(accepted=()), "round id"),
        (_evolved(recent=("0" * 64,)), "recent rounds"),
        (_evolved(round=2), "expected round"),
        (_evolved(ledger=()), "the ledger and the decisions differ"),
        (lambda m: attrs.evolve(m, lease=taken(m).lease), "did not hold the lease"),
    ],
    ids=count(),
)
def test_a_forged_round_is_found_out(
    forge: Callable[[Manifest], Manifest], told: str
) -> None:
    """Whatever was changed, in words."""
    start = genesis()
    assert told in breaks(start, forge(one_round(start)))


@pytest.mark.parametrize(
    ("forge", "told"),
    [
        (_evolved(weights=files(9)[0]), "expected weights"),
        (_evolved(round_id="0" * 64), "expected round_id"),
        (_evolved(ledger=()), "a register is missing"),
    ],
    ids=count(),
)
def test_a_forged_renewal_is_found_out(
    forge: Callable[[Manifest], Manifest], told: str
) -> None:
    """Between two rounds nothing of the model may change."""
    start = one_round(genesis())
    assert told in breaks(start, forge(renew(start)))


def test_a_register_that_jumps_is_found_out() -> None:
    """It must follow what was decided before."""
    start = one_round(genesis())
    new = one_round(start)
    registers = tuple(attrs.evolve(r, after="0" * 64) for r in new.ledger)
    assert "is not continued" in breaks(start, attrs.evolve(new, ledger=registers))
    registers = tuple(attrs.evolve(r, round=1) for r in new.ledger)
    assert "has round 1" in breaks(start, attrs.evolve(new, ledger=registers))


def test_a_register_that_stays_too_long_is_found_out() -> None:
    """The ledger is what the rules make of the one before, and nothing else."""
    start = rounds(accept(genesis(), header(genesis())), 3)
    kept = start.register(STREAM)
    new = rounds(start, 1)
    assert kept is not None
    assert new.register(STREAM) is None
    longer = tuple(sorted((*new.ledger, kept), key=lambda r: r.stream))
    assert "kept too long" in breaks(start, attrs.evolve(new, ledger=longer))


def test_rounds_follow_without_what_was_between() -> None:
    """Only manifests of rounds are kept; their ids still form a chain."""
    first = one_round(renew(genesis()))
    second = one_round(renew(taken(renew(first))))
    assert "" == round_breaks(first, second)
    assert "expected round 2" in round_breaks(first, one_round(second))
    assert "round id" in round_breaks(first, attrs.evolve(second, accepted=()))


KNOWN = rounds(genesis(), 2)


def known_differs(manifest: Manifest, **changes: Any) -> str:
    known: dict[str, Any] = {
        "lineage": LINEAGE,
        "run": KNOWN.run,
        "serial": KNOWN.serial,
        "round": KNOWN.round,
        "round_id": KNOWN.round_id,
    }
    return differs(manifest, **{**known, **changes})


def test_the_same_history_does_not_differ() -> None:
    """Also when it went on, for a while or for long, or when the head lags."""
    for manifest in (KNOWN, renew(KNOWN), rounds(KNOWN, 1), rounds(KNOWN, 9)):
        assert "" == known_differs(manifest)
    assert "" == known_differs(genesis())
    assert "" == known_differs(KNOWN, run=None, serial=-1, round=-1, round_id=None)


def test_another_history_is_named() -> None:
    """Both sides are in the message, so that a person can tell what happened."""
    other = genesis(lineage="2b" * 32)
    assert f"lineage {'2b' * 32}" in known_differs(other)
    assert f"this node belongs to {KNOWN.run}" in known_differs(
        genesis(life="99" * 8, nonce=f"{'99' * 8}-0")
    )
    forked = rounds(genesis(), 2, stream=STREAM)
    assert f"round 2 was {KNOWN.round_id}" in known_differs(forked)
    assert f"round 2 was {KNOWN.round_id}, now it is" in known_differs(
        rounds(forked, 1)
    )
    back = genesis()
    for _ in range(5):
        back = renew(back)
    assert "went back from round 2 to round 0" in known_differs(back)


def test_nothing_is_decided_by_an_empty_decision() -> None:
    """It renews the lease."""
    start = genesis()
    assert renew(start) == publish(start, Decisions())
    assert OTHER not in {r.stream for r in renew(start).ledger}


@pytest.mark.parametrize("step", [renew, given_up, one_round])
def test_a_lease_that_was_given_up_must_be_taken_first(step: Any) -> None:
    """Its holder decides nothing any more."""
    old = given_up(genesis())
    assert "lease of epoch 0 after epoch 0" in breaks(old, step(old))
    assert "" == breaks(old, taken(old))
