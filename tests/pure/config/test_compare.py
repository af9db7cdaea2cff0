"""Which changes a continued run may make."""

from typing import Any

import attrs
import pytest

from speedtronic.pure.config import Config, Secret, Source
from speedtronic.pure.config.compare import Change, compare

PLAIN = Config()


def changed(section: str, **values: Any) -> Config:
    part = attrs.evolve(getattr(PLAIN, section), **values)
    return attrs.evolve(PLAIN, **{section: part})


def paths(changes: tuple[Change, ...]) -> list[str]:
    return [change.path for change in changes]


def test_nothing_changed_is_nothing_told() -> None:
    """Two equal configs have no difference."""
    told = compare(PLAIN, Config())

    assert ((), ()) == (told.allowed, told.refused)


@pytest.mark.parametrize(
    ("section", "values"),
    [
        ("run", {"max_steps": 5}),
        ("run", {"output_dir": "elsewhere"}),
        ("logging", {"every_steps": 7}),
        ("checkpoint", {"keep_last": 1}),
        ("evaluation", {"every_steps": 7}),
        ("precision", {"mode": "fp32"}),
        ("compile", {"enabled": True}),
    ],
)
def test_machine_and_telling_may_change(section: str, values: Any) -> None:
    """Fields of scope node or free are allowed, and named with both values."""
    told = compare(PLAIN, changed(section, **values))

    ((name, new),) = values.items()
    (change,) = told.allowed
    assert () == told.refused
    assert (f"{section}.{name}", new) == (change.path, change.new)
    old = getattr(getattr(PLAIN, section), name)
    assert str(change).startswith(f"{section}.{name}: {old!r} -> {new!r}")


@pytest.mark.parametrize(
    ("section", "values"),
    [
        ("optimizer", {"lr": 1.0}),
        ("optimizer", {"betas": (0.5, 0.5)}),
        ("scheduler", {"warmup_steps": 1}),
        ("model", {"d_model": 8}),
        ("model", {"tie_weights": False}),
        ("model", {"kwargs": {"a": 1}}),
        ("data", {"shuffle": True}),
        ("run", {"seed": 5}),
    ],
)
def test_what_the_run_computes_may_not_change(section: str, values: Any) -> None:
    """Fields of scope run are refused by their dotted name."""
    told = compare(PLAIN, changed(section, **values))

    assert ([f"{section}.{next(iter(values))}"], ()) == (
        paths(told.refused),
        told.allowed,
    )


def test_the_folder_of_the_checkpoints_may_not_change() -> None:
    """A run that does not find them would begin again."""
    told = compare(PLAIN, changed("checkpoint", directory="elsewhere"))

    assert ["checkpoint.directory"] == paths(told.refused)


def test_asking_for_a_continuation_is_no_change() -> None:
    """Nor is a secret, whichever side has one."""
    assert () == compare(PLAIN, changed("checkpoint", resume=True)).allowed
    with_token = changed("distributed", token=Secret("a"))
    for old, new in ((PLAIN, with_token), (with_token, PLAIN)):
        assert () == compare(old, new).allowed


def test_a_moved_end_moves_the_schedule_and_says_so() -> None:
    """Unless the schedule has an end of its own, or none."""
    note = "(the learning rate schedule ends there, too)"
    (change,) = compare(PLAIN, changed("run", max_steps=5)).allowed
    assert str(change).endswith(note)

    for scheduler in ({"max_steps": 10}, {"name": "constant"}):
        old = changed("scheduler", **scheduler)
        new = attrs.evolve(old, run=changed("run", max_steps=5).run)
        (change,) = compare(old, new).allowed
        assert "run.max_steps: 1000 -> 5" == str(change)


def test_a_sources_place_may_change_and_its_weight_may_not() -> None:
    """Each part of a mixture is compared field by field."""
    old = changed("data", sources=(Source(path="a"), Source(path="b")))
    new = changed("data", sources=(Source(path="c"), Source(path="b", weight=2.0)))
    told = compare(old, new)

    assert ["data.sources[0].path"] == paths(told.allowed)
    assert ["data.sources[1].weight"] == paths(told.refused)


def test_another_number_of_sources_is_another_mixture() -> None:
    """It is refused as a whole."""
    old = changed("data", sources=(Source(path="a"),))

    assert ["data.sources"] == paths(compare(old, PLAIN).refused)
