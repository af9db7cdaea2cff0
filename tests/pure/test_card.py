"""The model card: what it tells, and that the next leader can go on from it."""

from typing import Any

import attrs
import pytest
import yaml
from tests.pure.round.values import genesis, header

from speedtronic.pure.card import (
    POINTS,
    About,
    Facts,
    Point,
    card,
    counted,
    recalled,
)

ABOUT = About(
    title="books", version="3.0", parameters=1234567, loading="Load it.", license=None
)
FIRST = genesis()
HEADER = attrs.evolve(header(FIRST), inner_steps=50, tokens=800)


def page(facts: Facts, **changes: Any) -> str:
    """The card of a run that has come so far."""
    return card(attrs.evolve(ABOUT, **changes), FIRST, facts)


def test_a_round_adds_its_work_and_its_loss() -> None:
    """Of every delta that counts."""
    facts = counted(Facts(), 1, [HEADER, HEADER], Point(1, 5.5, None))
    facts = counted(facts, 2, [HEADER], Point(2, 5.25, 5.75))

    assert (150, 2400) == (facts.steps, facts.tokens)
    assert (Point(1, 5.5, None), Point(2, 5.25, 5.75)) == facts.curve


def test_a_round_that_is_tried_again_counts_once() -> None:
    """Its point takes the place of the one before."""
    facts = counted(Facts(), 1, [], Point(1, 5.5, None))
    again = counted(facts, 1, [], Point(1, 5.0, None))

    assert (Point(1, 5.0, None),) == again.curve


@pytest.mark.parametrize("loss", [None, float("nan"), float("inf")])
def test_what_is_no_loss_is_no_point(loss: float | None) -> None:
    """A page has numbers only."""
    assert () == counted(Facts(), 1, [], Point(1, loss, loss)).curve
    known = counted(Facts(), 1, [], Point(1, loss, 2.0))
    assert (Point(1, None, 2.0),) == known.curve


def test_the_curve_stays_short() -> None:
    """The newest rounds are there, and the first one."""
    facts = Facts()
    for round in range(1, 500):
        facts = counted(facts, round, [], Point(round, 1.0, None))
        assert len(facts.curve) <= POINTS

    rounds = [p.round for p in facts.curve]
    assert 1 == rounds[0] and sorted(set(rounds)) == rounds
    assert list(range(490, 500)) == rounds[-10:]


@pytest.mark.parametrize(
    "spoil",
    [
        lambda text: text + "And here is what I have to say.\n",
        lambda text: text.replace('"tokens":', '"token":'),
        lambda text: text.replace('"since":0', '"since":-1'),
        lambda text: text.replace("[[1,", "[[1,1,"),
        lambda text: text.replace("5.5", '"x"'),
        lambda text: "",
        lambda text: "x" * 2**19 + text,
    ],
    ids=["more", "name", "number", "point", "text", "empty", "long"],
)
def test_a_page_that_somebody_wrote_over(spoil: Any) -> None:
    """The count begins anew, and says since when."""
    told = counted(Facts(), 1, [HEADER], Point(1, 5.5, None))
    changed = spoil(page(told))
    fresh = recalled(changed.encode(), 7)

    assert changed != page(told)
    assert Facts(since=7) == fresh
    assert "| tokens | 0 since round 7 |" in page(fresh)


def test_a_page_tells_facts() -> None:
    """As a table; losses as another, and as a curve."""
    told = counted(Facts(), 1, [HEADER], Point(1, 5.5, 5.25))
    told = counted(told, 2, [HEADER], Point(2, 4.5, None))
    lines = page(told).splitlines()

    assert "# books" in lines
    assert "| tokens | 1,600 |" in lines
    assert "| validation loss | 5.2500 nats, round 1 |" in lines
    assert "| parameters | 1,234,567 |" in lines
    assert f"| nodes of the last {FIRST.limits.window} rounds | none yet |" in lines
    assert "| 1 | 5.5000 | 5.2500 |" in lines and "| 2 | 4.5000 |  |" in lines
    assert "#_" in lines
    assert "Load it." in lines


def test_a_run_that_has_just_begun_has_no_losses() -> None:
    """And says so."""
    assert "\n## Loss\n\nNot known yet.\n" in page(Facts())


@pytest.mark.parametrize("license", [None, "apache-2.0", 'odd: "one"\n- x'])
def test_the_front_matter_is_yaml(license: str | None) -> None:
    """With a license only where there is one."""
    text = page(Facts(), license=license, library="transformers")
    _, front, rest = text.split("---\n", 2)
    told = yaml.safe_load(front)

    assert license == told.get("license")
    assert ("license" in told) is (license is not None)
    assert ("transformers", "text-generation") == (
        told["library_name"],
        told["pipeline_tag"],
    )
    assert rest.startswith("\n# books")


def test_another_model_names_no_library() -> None:
    """Hub tools must not try to load it."""
    front = page(Facts()).split("---\n", 2)[1]

    assert {"tags"} == set(yaml.safe_load(front))
