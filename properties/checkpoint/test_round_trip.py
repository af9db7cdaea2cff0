"""Laws of checkpoints: the same bits back, every changed byte noticed, bounded disk."""

import os
import tempfile
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from speedtronic.errors import CheckpointError
from speedtronic.pure.retention import Kept, best_of, to_delete
from speedtronic.pure.tree import named_leaves, tree_map
from speedtronic.shell.checkpoint import Snapshot, load, owned, save, verify
from speedtronic.shell.checkpoint_folder import find, prune, resume

DTYPES = [
    torch.float32,
    torch.float64,
    torch.float16,
    torch.bfloat16,
    torch.complex64,
    torch.int64,
    torch.int8,
    torch.uint8,
    torch.bool,
]
shapes = st.lists(st.integers(0, 3), max_size=3).map(tuple)


@st.composite
def tensors(draw: st.DrawFn) -> Tensor:
    """Any shape, dtype and bits, NaN payloads included; some are views."""
    dtype = draw(st.sampled_from(DTYPES))
    shape = draw(shapes)
    flat = torch.empty(shape, dtype=dtype).reshape(-1)
    size = flat.numel() * dtype.itemsize
    data = draw(st.binary(min_size=size, max_size=size))
    if dtype == torch.bool:
        data = bytes(byte & 1 for byte in data)
    if size:
        flat = torch.frombuffer(bytearray(data), dtype=dtype)
    tensor = flat.reshape(shape)
    return (
        tensor.transpose(0, -1) if tensor.dim() > 1 and draw(st.booleans()) else tensor
    )


names = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
leaves = tensors() | st.none()
trees = st.recursive(
    leaves,
    lambda inner: (
        st.dictionaries(names, inner, max_size=3)
        | st.lists(inner, max_size=3)
        | st.tuples(inner, inner)
    ),
    max_leaves=8,
)
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | names,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=3)
    ),
    max_leaves=6,
)


def bits(tree: Any) -> dict[str, Any]:
    """What makes two trees the same: paths, dtypes, shapes and bytes."""
    return {
        path: None
        if leaf is None
        else (
            leaf.dtype,
            tuple(leaf.shape),
            bytes(leaf.contiguous().reshape(-1).clone().view(torch.uint8).numpy()),
        )
        for path, leaf in named_leaves(tree).items()
    }


@given(tree=trees, extra=st.dictionaries(names, tensors(), max_size=3), plain=values)
def test_any_tree_comes_back_bit_for_bit(
    tree: Any, extra: dict[str, Tensor], plain: Any
) -> None:
    """Any nesting, names, shapes, dtypes and bits; and any plain values beside it."""
    like = tree_map(lambda x: None if x is None else torch.zeros_like(x), tree)
    snapshot = Snapshot(
        run_id="r", step=0, state=tree, tensors=extra, values={"plain": plain}
    )
    with tempfile.TemporaryDirectory() as folder:
        found = load(save(Path(folder), snapshot), like)

    assert bits(tree) == bits(found.state)
    assert bits(extra) == bits(dict(found.tensors))
    assert repr(plain) == repr(found.values["plain"])


@given(tree=trees)
def test_an_owned_copy_is_equal_and_apart(tree: Any) -> None:
    """The same bits in other storage."""
    copy = owned(tree)
    before = bits(tree)
    for leaf in named_leaves(tree).values():
        if leaf is not None and leaf.numel():
            leaf.zero_()

    assert before == bits(copy)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small checkpoint that no test changes."""
    state = {"w": torch.arange(6.0), "step": torch.tensor(3)}
    snapshot = Snapshot(run_id="r", step=3, state=state, hub_config={"a": 1})
    return save(tmp_path_factory.mktemp("whole"), snapshot)


@given(data=st.data())
def test_any_other_byte_is_noticed(whole: Path, data: st.DataObject) -> None:
    """Overwritten, inserted or cut out: at any place of any file."""
    path = data.draw(st.sampled_from(sorted(whole.iterdir())), label="file")
    before = path.read_bytes()
    start = data.draw(st.integers(0, len(before)), label="start")
    end = data.draw(st.integers(start, min(len(before), start + 9)), label="end")
    after = before[:start] + data.draw(st.binary(max_size=9)) + before[end:]
    try:
        path.write_bytes(after)
        if after == before:
            verify(whole)
            return
        like = {"w": torch.zeros(6), "step": torch.tensor(0)}
        for read in (verify, lambda p: load(p, like, run_id="r")):
            with pytest.raises(CheckpointError, match=path.name):
                read(whole)
    finally:
        path.write_bytes(before)


losses = st.none() | st.integers(0, 4).map(float)
entries = st.lists(
    st.builds(Kept, st.integers(0, 30), st.booleans(), losses),
    unique_by=lambda kept: kept.step,
    max_size=12,
)


@given(entries, st.none() | st.integers(1, 5), st.booleans())
def test_retention_is_bounded_and_keeps_what_matters(
    kept: list[Kept], keep_last: int | None, keep_best: bool
) -> None:
    """The newest good ones and the best stay, and at most two others beside them."""
    gone = set(to_delete(kept, keep_last=keep_last, keep_best=keep_best))
    left = [k for k in kept if k.step not in gone]
    good = sorted(k.step for k in kept if k.finite)
    best = best_of(kept)

    assert gone <= {k.step for k in kept}
    assert not gone.intersection(good[-(keep_last or len(kept)) :])
    assert not keep_best or best is None or best.step not in gone
    assert keep_last is None or len(left) <= keep_last + keep_best + 1


@given(entries, st.integers(1, 5), st.booleans(), st.randoms(use_true_random=False))
def test_retention_does_not_see_the_order(
    kept: list[Kept], keep_last: int, keep_best: bool, chance: Any
) -> None:
    """Only the steps decide, and deciding twice deletes nothing more."""
    mixed = list(kept)
    chance.shuffle(mixed)
    gone = to_delete(kept, keep_last=keep_last, keep_best=keep_best)
    left = [k for k in mixed if k.step not in gone]

    assert gone == to_delete(mixed, keep_last=keep_last, keep_best=keep_best)
    assert [] == to_delete(left, keep_last=keep_last, keep_best=keep_best)


@given(
    st.lists(st.sampled_from(["save", "damage", "crash"]), max_size=12),
    st.integers(1, 3),
)
def test_a_run_never_loses_its_last_whole_checkpoint(
    events: list[str], keep_last: int
) -> None:
    """Whatever is damaged, a restart goes on from the newest whole one.

    The model is a list of the whole steps; the disk has to agree with it.
    """
    like = {"step": torch.tensor(0)}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        step, whole_steps, damaged = 0, [], set()
        for event in events:
            if event == "save":
                step += 1
                state = {"step": torch.tensor(step)}
                save(folder, Snapshot(run_id="r", step=step, state=state))
                prune(folder, "r", step, keep_last=keep_last, keep_best=True)
                whole_steps.append(step)
                kept = sorted({*whole_steps, *damaged})[-keep_last:]
                whole_steps = [s for s in whole_steps if s in kept]
                damaged &= set(kept)
            elif event == "damage" and len(whole_steps) > 1:
                last = whole_steps.pop()
                damaged.add(last)
                os.truncate(folder / f"step-{last:08d}" / "state.safetensors", 9)
            elif event == "crash":
                found = resume(folder, like, "r")
                assert (found is None) == (not whole_steps)
                step = 0 if found is None else int(found.snapshot.state["step"])
                assert step == (whole_steps[-1] if whole_steps else 0)
                damaged = {s for s in damaged if s < step}
        assert whole_steps[-1:] == [
            int(path.name[5:]) for path in [find(folder, "r").path] if path
        ]
