"""Two files that should be the same."""

from pathlib import Path

import pytest
import torch
from torch import Tensor

from speedtronic.errors import Damaged
from speedtronic.pure.reduction import ROW
from speedtronic.shell import blobs
from speedtronic.shell.distributed.compare_files import Comparison, compare


def compared(
    folder: Path, one: dict[str, Tensor], other: dict[str, Tensor]
) -> Comparison:
    """What is said of two files."""
    blobs.write(folder / "one", one)
    blobs.write(folder / "other", other)
    return compare(folder / "one", folder / "other")


def tensors() -> dict[str, Tensor]:
    """Longer than a row, without elements, complex and whole."""
    return {
        "b": torch.arange(2.0 * ROW + 3),
        "a": torch.zeros(0),
        "c": torch.ones(2, dtype=torch.complex64),
        "n": torch.tensor(7),
    }


def test_the_same_files_do_not_differ(tmp_path: Path) -> None:
    """Nor do files without tensors."""
    assert Comparison(first="", norm=0.0) == compared(tmp_path, tensors(), tensors())
    (tmp_path / "more").mkdir()
    assert Comparison(first="", norm=0.0) == compared(tmp_path / "more", {}, {})


def test_the_first_tensor_by_name_is_told_and_all_are_measured(tmp_path: Path) -> None:
    """In any row."""
    other = tensors()
    other["b"][2 * ROW + 1] -= 3.0
    other["b"][5] += 4.0
    other["c"][0] += 12j
    found = compared(tmp_path, tensors(), other)

    assert found.first.startswith(
        f"tensor 'b': 2 of {2 * ROW + 3} elements, by at most 4"
    )
    assert 13.0 == found.norm


def test_whole_numbers_are_compared_but_have_no_norm(tmp_path: Path) -> None:
    """A counter is no place in space."""
    found = compared(tmp_path, tensors(), tensors() | {"n": torch.tensor(9)})

    assert (
        Comparison(first="tensor 'n': 1 of 1 elements, by at most 2 (2 ulp)", norm=0.0)
        == found
    )


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"d": torch.ones(1)}, "tensor 'd': it is not in the published file"),
        ({"a": None}, "tensor 'a': the published file has it, the model does not"),
        (
            {"a": torch.zeros(1)},
            "tensor 'a': published as float32[0], expected float32",
        ),
        (
            {"n": torch.tensor(7.0)},
            "tensor 'n': published as int64[], expected float32",
        ),
    ],
    ids=["more", "fewer", "shape", "dtype"],
)
def test_other_outlines_are_told(
    tmp_path: Path, change: dict[str, Tensor | None], told: str
) -> None:
    """Nothing is compared then."""
    other = {n: x for n, x in {**tensors(), **change}.items() if x is not None}

    assert compared(tmp_path, tensors(), other).first.startswith(told)


def test_what_is_no_file_of_tensors_is_told(tmp_path: Path) -> None:
    """Whoever compares says what that means."""
    (tmp_path / "x").write_bytes(b"hello")
    with pytest.raises(Damaged, match="not a whole safetensors file"):
        compare(tmp_path / "x", tmp_path / "x")
