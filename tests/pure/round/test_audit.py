"""What kept rounds must fulfil."""

from typing import Any

import attrs
import pytest
from tests.pure.round.values import (
    LIFE,
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

from speedtronic.pure.round import chain
from speedtronic.pure.round.admit import Decisions, Refusal
from speedtronic.pure.round.audit import alone, apart, counts, repeated, spans
from speedtronic.pure.round.manifest import Manifest
from speedtronic.pure.round.names import DeltaName

TWIN = "12" * 8


def refuse(old: Manifest, **changes: Any) -> Manifest:
    """The manifest that refuses the next delta of a stream."""
    bad = candidate(header(old, **changes))
    refusal = Refusal(bad.name, "drop", "not finite")
    return publish(old, Decisions(refused=((bad, refusal),)))


def take_over(old: Manifest, life: str = TWIN) -> Manifest:
    """The manifest of another leader."""
    return chain.taken_over(old, "other", life, f"{life}-{old.serial + 1}")


def run() -> list[Manifest]:
    """Kept manifests of a run in which much happened between the rounds."""
    kept = [genesis()]
    kept.append(accept(renew(kept[-1]), header(kept[-1])))
    refused = refuse(refuse(kept[-1]), stream=OTHER, node="other")
    kept.append(accept(refused, header(refused)))
    taken = renew(take_over(kept[-1]))
    kept.append(accept(taken, header(taken, stream=OTHER, node="other")))
    kept.append(accept(kept[-1], header(kept[-1])))
    for _ in range(5):
        kept.append(accept(renew(kept[-1]), header(kept[-1], stream=TWIN, node="c")))
    return kept


def test_a_run_fulfils_everything() -> None:
    """Each alone, and any two of them."""
    kept = run()
    for round, manifest in enumerate(kept):
        assert "" == alone(manifest, round)
        for old in kept[:round]:
            assert "" == apart(old, manifest)


def test_what_follows_within_a_round_fulfils_it() -> None:
    """The newest manifest is not always one of those that are kept."""
    old = run()[4]
    for new in (renew(old), refuse(old), take_over(old), renew(renew(refuse(old)))):
        assert "" == apart(old, new)


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"weights": files(9)[0]}, "expected round id"),
        ({"momentum": files(9)[1]}, "expected round id"),
        ({"accepted": ()}, "expected round id"),
        ({"recent": ("7" * 64, "8" * 64, "9" * 64)}, "expected round id"),
        ({"ledger": ()}, "the ledger and the accepted deltas differ"),
        ({"round": 3}, "expected the manifest of round 2, found that of round 3"),
    ],
    ids=["weights", "momentum", "accepted", "recent", "ledger", "round"],
)
def test_a_manifest_that_contradicts_itself_is_found(
    changes: dict[str, Any], told: str
) -> None:
    """Alone."""
    assert alone(attrs.evolve(run()[2], **changes), 2).startswith(told)


def test_a_run_begins_in_one_way() -> None:
    """Its id is made of what it began with."""
    first = genesis()

    assert "" == alone(first, 0)
    for changed in (attrs.evolve(first, run="7" * 16), renew(first)):
        assert "it is not the beginning of a run" == alone(changed, 0)


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"run": "7" * 16}, "expected run"),
        ({"lineage": "7" * 64}, "expected lineage"),
        ({"outer": (("momentum", 0.8),)}, "expected outer"),
        ({"serial": 0}, "expected a serial of at least"),
        ({"round_id": "7" * 64}, "round 2: expected round id"),
        ({"recent": ("7" * 64, "8" * 64, "9" * 64)}, "round 1 was"),
    ],
    ids=["run", "lineage", "outer", "serial", "round id", "recent"],
)
def test_two_rounds_of_different_runs_are_found(
    changes: dict[str, Any], told: str
) -> None:
    """The older one says what the newer one must be."""
    old, new = run()[1:3]

    assert apart(old, attrs.evolve(new, **changes)).startswith(told)


def test_consecutive_manifests_are_held_to_the_chain() -> None:
    """Nothing came in between, so everything can be asked."""
    old, new = run()[3:5]
    assert old.serial + 1 == new.serial

    assert "expected previous" in apart(old, attrs.evolve(new, previous="7" * 64))


def test_the_order_of_rounds_is_found() -> None:
    """Backwards, and with more rounds than manifests."""
    kept = run()

    assert "expected a serial of at least" in apart(kept[3], kept[2])
    late = attrs.evolve(kept[6], serial=kept[2].serial + 3)
    assert "expected a serial of at least" in apart(kept[2], late)
    back = attrs.evolve(kept[2], serial=kept[3].serial + 9)
    assert apart(kept[3], back) == "expected round 3 or later, found 2"


def test_a_newest_manifest_with_another_model_is_found() -> None:
    """Nothing but the lease and refusals changes within a round."""
    old = run()[4]
    other = attrs.evolve(renew(renew(old)), weights=files(9)[0])

    assert apart(old, other).startswith("expected weights")


def test_two_leases_of_one_epoch_are_found() -> None:
    """Two who both led, or a manifest that was left out."""
    old, new = run()[:2]
    lease = new.lease
    for changed, told in (
        (attrs.evolve(lease, life=TWIN), "two leases of epoch 0"),
        (attrs.evolve(lease, renewals=7), "two leases of epoch 0"),
    ):
        assert told == apart(old, attrs.evolve(new, lease=changed))
    given_up = chain.released(old, f"{LIFE}-9")
    assert "two leases of epoch 0" == apart(given_up, attrs.evolve(new, serial=5))
    old, new = run()[3], run()[5]
    first = attrs.evolve(new.lease, epoch=0)
    assert "lease of epoch 0 after epoch 1" == apart(
        old, attrs.evolve(new, lease=first)
    )


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"round": 1, "verdict": "drop"}, "was decided in round 1"),
        ({"after": None}, "is not continued"),
        (None, "is missing"),
    ],
    ids=["earlier", "begun again", "gone"],
)
def test_a_register_that_went_wrong_is_found(
    changes: dict[str, Any] | None, told: str
) -> None:
    """A decision is remembered, and what follows says what it follows."""
    old, new = run()[1:3]
    ledger = [r for r in new.ledger if r.stream != STREAM]
    register = new.register(STREAM)
    assert register is not None
    if changes is not None:
        ledger.append(attrs.evolve(register, **changes))

    assert told in apart(old, attrs.evolve(new, ledger=tuple(ledger)))


def test_a_delta_that_counted_agrees_with_everything() -> None:
    """With its name, the run, its base and the ledger; refusals before it included."""
    old, new = run()[1:3]
    own = header(refuse(refuse(old), stream=OTHER, node="other"))

    assert "" == counts(old, new, own.name, own)


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"run": "7" * 16}, "it belongs to run"),
        ({"lineage": "7" * 64}, "it was made with another config"),
        ({"base_id": "7" * 64}, "is not round 1 of this run"),
        ({"base_round": 2}, "base round 2 is ahead of round 1"),
        ({"cursor": 7}, "the ledger says something else"),
        ({"after": "7" * 64}, "the ledger says something else"),
        ({"life": TWIN}, "the ledger says something else"),
    ],
    ids=["run", "lineage", "base id", "base", "cursor", "after", "life"],
)
def test_a_delta_that_cannot_have_counted_is_found(
    changes: dict[str, Any], told: str
) -> None:
    """Its header says so."""
    old, new = run()[1:3]
    own = attrs.evolve(
        header(refuse(refuse(old), stream=OTHER, node="other")), **changes
    )

    assert told in counts(old, new, own.name, own)


def test_a_delta_under_another_name_is_found() -> None:
    """The id in its name is the hash of its header."""
    old, new = run()[1:3]
    own = header(old, seq=new.accepted[0].seq)

    assert "the name says id" in counts(old, new, new.accepted[0], own)


def test_a_codec_that_nobody_knows_is_told() -> None:
    """Its payload would be taken for the tensors."""
    old = genesis()
    own = header(old, codec="int8")

    assert "expected codec none, found int8" == counts(
        old, accept(old, own), own.name, own
    )


def test_a_delta_counts_once() -> None:
    """By its id, and by its number in its stream."""
    name = DeltaName("a", STREAM, 3, "f" * 64)
    other = attrs.evolve(name, id="e" * 64)
    for counted in ({name.id: 1}, {f"{STREAM}-3": 1}):
        assert repeated(counted, (name,)).endswith("counted in round 1 already")
    assert "" == repeated({name.id: 1}, (attrs.evolve(other, seq=4),))


def test_rows_of_rounds_begin_behind_an_anchor() -> None:
    """And end where one is missing."""
    assert ((1, 2),) == spans({0, 1, 2}, {0})
    assert () == spans({1, 2, 3}, {0, 5})
    assert ((2, 3), (6, 6)) == spans({0, 1, 2, 3, 5, 6}, {1, 5})
    assert () == spans(set(), set())


def test_a_long_run_is_checked_over_any_gap() -> None:
    """Recent rounds are named by each manifest, older ones are not."""
    first = genesis()
    late = rounds(first, 9)

    assert "" == apart(first, late)
    assert "" == alone(late, 9)
