"""Which request meets which fault."""

import pytest

from speedtronic.testing.hub.faults import Faults
from speedtronic.testing.hub.messages import Request
from speedtronic.testing.hub.values import Account


def request(number: int = 0, endpoint: str = "commit", **parts: str) -> Request:
    return Request(
        number=number,
        method="POST",
        target="/",
        endpoint=endpoint,
        parts=parts,
        query={},
        headers={},
        chunks=lambda: iter([]),
        account=Account("me", "write"),
    )


def met(faults: Faults, *requests: Request) -> list[str | None]:
    found = [faults.next(each) for each in requests]
    return [fault.kind if fault else None for fault in found]


def test_a_fault_is_met_so_many_times_after_so_many_requests() -> None:
    """Then it is used up."""
    faults = Faults()
    faults.inject("busy", times=2, after=1)

    assert [None, "busy", "busy", None] == met(faults, *[request()] * 4)


def test_a_request_meets_the_first_that_waits() -> None:
    """One fault each, in the order of injection."""
    faults = Faults()
    faults.inject("busy")
    faults.inject("conflict", times=None)

    assert ["busy", "conflict", "conflict"] == met(faults, *[request()] * 3)


def test_a_fault_waits_where_it_makes_sense() -> None:
    """Unless told otherwise."""
    faults = Faults()
    faults.inject("busy")
    faults.inject("flipped", where="tree")
    requests = [request(endpoint=name) for name in ("tree", "info", "commit")]

    assert ["flipped", None, "busy"] == met(faults, *requests)


@pytest.mark.parametrize(
    ("narrowed", "expected"),
    [
        ({"repository": "me/*"}, ["stall", None]),
        ({"path": "b"}, [None, "stall"]),
        ({"user": "you"}, [None, None]),
        ({"where": ["resolve-*", "info"]}, ["stall", "stall"]),
    ],
    ids=["repository", "path", "user", "where"],
)
def test_a_fault_is_narrowed_down(narrowed, expected) -> None:
    """By patterns."""
    faults = Faults()
    faults.inject("stall", times=None, **narrowed)
    mine = request(endpoint="resolve-get", repository="me/run", path="a")
    other = request(endpoint="resolve-head", repository="team/run", path="b")

    assert expected == met(faults, mine, other)


def test_faults_are_cleared() -> None:
    """Those in waiting and those at random."""
    faults = Faults()
    faults.inject("busy", times=None)
    faults.schedule(seed=1, rate=1.0)
    faults.clear()

    assert [None] == met(faults, request())


def test_random_faults_are_the_same_for_a_seed() -> None:
    """Counted from the schedule on, whatever came before."""
    requests = [request(number) for number in range(300)]
    faults = Faults()
    faults.schedule(seed=1, rate=0.3)
    first = met(faults, *requests)
    faults.schedule(seed=2, rate=0.3)
    other = met(faults, *requests)
    faults.schedule(seed=1, rate=0.3)

    assert first == met(faults, *requests)
    assert first != other
    assert 60 < sum(kind is not None for kind in first) < 120


def test_random_faults_are_of_the_kinds_asked_for() -> None:
    """Where they make sense."""
    faults = Faults()
    faults.schedule(seed=0, rate=1.0, kinds=["busy", "flipped"])
    requests = [request(endpoint=name) for name in ("commit", "resolve-get", "tree")]

    assert ["busy", "flipped", None] == met(faults, *requests)


def test_what_is_misspelt_is_refused() -> None:
    """A fault that never comes would be a test that tests nothing."""
    faults = Faults()
    with pytest.raises(ValueError, match="'bussy': expected one of busy,"):
        faults.inject("bussy")
    with pytest.raises(ValueError, match="'bussy': expected one of busy,"):
        faults.schedule(1, 0.1, ["bussy"])
    with pytest.raises(ValueError, match="unknown second; its options: seconds"):
        faults.inject("retry-after", second=1)
