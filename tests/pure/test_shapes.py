"""Advice on shapes."""

from typing import Any

import pytest

from speedtronic.pure.config import Config, Data, Model, ShapeValidation
from speedtronic.pure.shapes import Advice, advice, alignment, profile


def config(
    model: dict[str, Any] | None = None,
    data: dict[str, Any] | None = None,
    **section: Any,
) -> Config:
    return Config(
        model=Model(**(model or {})),
        data=Data(**(data or {})),
        shape_validation=ShapeValidation(**section),
    )


def told(given: Config) -> list[str]:
    return [str(one) for one in advice(given, "cuda", "bf16")]


@pytest.mark.parametrize(
    ("expected", "device", "precision", "section"),
    [
        (8, "cuda", "bf16", {}),
        (8, "cuda", "fp16", {}),
        (1, "cuda", "fp32", {}),
        (1, "mps", "fp16", {}),
        (1, "cpu", "bf16", {}),
        (16, "cpu", "fp32", {"warn_on_cpu": True}),
        (32, "cpu", "bf16", {"warn_on_cpu": True}),
        (64, "cuda", "fp32", {"alignment": 64}),
        (1, "cpu", "fp32", {"alignment": 64}),
        (64, "cpu", "fp32", {"alignment": 64, "warn_on_cpu": True}),
        (1, "cuda", "bf16", {"alignment": "none"}),
        (1, "cuda", "bf16", {"enabled": False}),
    ],
)
def test_what_is_aligned_to_what(
    expected: int, device: str, precision: str, section: dict[str, Any]
) -> None:
    """Tensor cores in half precision; anything else only on demand."""
    assert expected == alignment(ShapeValidation(**section), device, precision)


def test_the_defaults_need_no_advice() -> None:
    """Nor is there any where nothing is looked at."""
    assert [] == told(Config())
    assert () == advice(config({"d_model": 252, "n_head": 6}), "cpu", "fp32")


@pytest.mark.parametrize(
    ("model", "expected"),
    [
        (
            {"d_model": 252, "n_head": 6, "d_ff": 384},
            [
                "model.d_model: width 252 is no multiple of 8; set model.d_model: 240",
                "model.d_ff: feed-forward width 258 is no multiple of 8; "
                "set model.d_ff: 396",
            ],
        ),
        (
            {"d_model": 64, "n_head": 16},
            [
                "model.n_head: head width 4 is no multiple of 8; set model.n_head: 8",
                "model.d_ff: feed-forward width 176 is no",
            ][:1],
        ),
        (
            {"d_model": 64, "n_head": 2},
            [
                "model.d_ff: feed-forward width 170 is no multiple of 8; "
                "set model.d_ff: 252"
            ],
        ),
        (
            {"d_model": 64, "n_head": 16, "n_kv_head": 16, "d_ff": 192},
            [
                "model.n_head: head width 4 is no multiple of 8; "
                "no model.n_head near makes it one"
            ],
        ),
    ],
    ids=["width", "heads", "feed forward", "groups"],
)
def test_the_model(model: dict[str, Any], expected: list[str]) -> None:
    """The nearest width that heads divide; the nearest heads that divide the width."""
    assert expected == told(config(model))


def test_a_vocabulary_only_grows() -> None:
    """Every token needs its id; it is looked at on demand."""
    model = {"vocab_size": 257}

    assert [] == told(config(model))
    (line,) = told(config(model, check_vocab=True))
    assert line.endswith("set model.vocab_size: 264")


@pytest.mark.parametrize(
    ("expected", "length", "longest"),
    [(96, 99, 128), (104, 100, 128), (96, 103, 103), (None, 5, 6)],
)
def test_a_sequence_stays_within_the_model(
    expected: int | None, length: int, longest: int
) -> None:
    """Down if up is too long; nothing if both fail."""
    given = config({"max_seq_len": longest}, {"block_size": length}, check_batch=False)
    (one,) = advice(given, "cuda", "bf16")

    assert ("data.block_size", expected) == (one.path, one.suggestion)


def test_a_factory_has_its_own_limits() -> None:
    """Of its model nothing is known but what the data has."""
    given = config({"name": "tiny:build"}, {"block_size": 129})
    (one,) = advice(given, "cuda", "bf16")

    assert Advice("data.block_size", "sequence", 129, 8, 128) == one
    assert {"vocabulary", "sequence", "rows"} == profile(given).keys()


@pytest.mark.parametrize(
    ("expected", "micro", "target"), [(2, 3, 12), (2, 1, 6), (8, 5, 40), (None, 3, 9)]
)
def test_a_batch_still_divides_the_target(
    expected: int | None, micro: int, target: int
) -> None:
    """What matters is the rows of a product: batch x sequence, here of 4 tokens."""
    length = 1 if expected == 8 else 4
    given = config(
        data={
            "block_size": length,
            "micro_batch_size": micro,
            "target_batch_size": target,
        },
        check_sequence=False,
    )
    (one,) = advice(given, "cuda", "bf16")

    assert expected == one.suggestion
    assert ("batch x sequence", micro * length) == (one.what, one.found)


def test_what_is_not_to_be_looked_at_is_not() -> None:
    """Each part can be left out."""
    odd = {"d_model": 12, "n_head": 2, "max_seq_len": 9}
    section = {"check_model": False, "check_sequence": False, "check_batch": False}

    assert [] == told(config(odd, **section))


def test_the_profile_names_what_is_computed_with() -> None:
    """Whether it is aligned or not."""
    given = config({"d_model": 64, "n_head": 2}, {"micro_batch_size": 3})

    assert {
        "width": 64,
        "head width": 32,
        "feed-forward width": 170,
        "vocabulary": 512,
        "sequence": 128,
        "rows": 384,
    } == profile(given)
