"""How many steps a node takes beside faster ones."""

from tests.pure.round.values import OTHER, STREAM, accept, genesis, header

from speedtronic.pure.round.manifest import Manifest
from speedtronic.shell.distributed.pacing import Pace


def after(manifest: Manifest, rounds: int) -> Manifest:
    """So many rounds later: one node came 50 steps further in each, the other 10."""
    for _ in range(rounds):
        known = [manifest.register(stream) for stream in (STREAM, OTHER)]
        came = [r.cursor if r else 0 for r in known]
        manifest = accept(
            manifest,
            header(manifest, stream=STREAM, node="fast", cursor=came[0] + 50),
            header(manifest, stream=OTHER, node="slow", cursor=came[1] + 10),
        )
    return manifest


def test_a_slow_node_takes_its_share() -> None:
    """From the second look on, two rounds after the first."""
    pace, first = Pace(100), after(genesis(), 1)
    assert None is pace.steps(first, OTHER)
    assert None is pace.steps(after(first, 1), OTHER)
    assert 20 == pace.steps(after(first, 2), OTHER)


def test_the_fastest_keeps_all_steps() -> None:
    """And so does everybody who did not ask for it."""
    first = after(genesis(), 1)
    pace, still = Pace(100), Pace(None)
    pace.steps(first, STREAM)
    still.steps(first, OTHER)
    assert 100 == pace.steps(after(first, 2), STREAM)
    assert None is still.steps(after(first, 2), OTHER)


def test_a_node_that_is_new_keeps_its_own() -> None:
    """Nothing is known of it yet."""
    pace, first = Pace(100), after(genesis(), 1)
    pace.steps(first, "f" * 16)
    assert None is pace.steps(after(first, 2), "f" * 16)
