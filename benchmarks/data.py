"""Batches, preparation and memory, beside the obvious ways in NumPy.

    python benchmarks/data.py [--megabytes 100] [--gigabytes 2] [--repeat 3]

Three tables, from files that are made in a temporary folder:

- batches of 64 rows of 256 from a u16 token file, one thread, in a keyed random order,
  against the sampling loop of nanoGPT (``nanogpt_batch`` below);
- a text file of ``--megabytes``, real text repeated, checked, hashed and synced to a
  store of byte ids, against NumPy reading it and writing the ids;
- the peak of resident memory above the import of torch, file pages included, while a
  token file of ``--gigabytes`` is prepared, and while it is trained on.

Ways take turns; each is measured ``--repeat`` times and the medians are compared.
"""

import argparse
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from speedtronic.pure.config import Config, Data, Model
from speedtronic.shell.data import open_data
from speedtronic.shell.data.documents import TextFiles
from speedtronic.shell.data.prepare import prepare_store
from speedtronic.shell.data.samples import python_reference
from speedtronic.shell.data.source import TextSource
from speedtronic.shell.data.text import TextRules
from speedtronic.shell.data.tokenizers import ByteTokenizer

BATCH, BLOCK, BATCHES = 64, 256, 300
VOCABULARY = 50257


def nanogpt_batch(path: Path) -> tuple[Tensor, Tensor]:
    """How nanoGPT samples a batch: a fresh memmap, random starts, one row at a time."""
    data = np.memmap(path, dtype=np.uint16, mode="r")
    starts = torch.randint(len(data) - BLOCK, (BATCH,))
    inputs, labels = [], []
    for i in starts:
        inputs.append(torch.from_numpy(data[i : i + BLOCK].astype(np.int64)))
        labels.append(torch.from_numpy(data[i + 1 : i + 1 + BLOCK].astype(np.int64)))
    return torch.stack(inputs), torch.stack(labels)


def token_config(path: Path) -> Config:
    """Train on a token file, shuffled."""
    return Config(
        model=Model(vocab_size=VOCABULARY, max_seq_len=BLOCK),
        data=Data(
            text_path=str(path),
            shuffle=True,
            micro_batch_size=BATCH,
            target_batch_size=BATCH,
        ),
    )


def batches(folder: Path, repeat: int) -> None:
    """Compare the rates of batches."""
    path = folder / "tokens.bin"
    tokens = np.random.default_rng(0).integers(0, VOCABULARY, 50_000_000, np.uint16)
    tokens.tofile(path)
    data = open_data(token_config(path), directory=folder / "stores")
    steps = iter(range(10**9))

    def theirs() -> None:
        for _ in range(BATCHES):
            nanogpt_batch(path)

    def ours() -> None:
        for _ in range(BATCHES):
            data.train_batch(next(steps))

    nanogpt, store = in_turns([theirs, ours], repeat)
    row("nanoGPT's loop", BATCHES / nanogpt, "batches/s")
    row("token store", BATCHES / store, "batches/s", nanogpt / store, "times the rate")


def preparation(folder: Path, megabytes: int, repeat: int) -> None:
    """Compare the times to turn text into ids."""
    path = folder / "text.txt"
    text = "".join(python_reference()).encode()
    size = megabytes * 10**6
    path.write_bytes((text * (size // len(text) + 1))[:size])
    written, cache = folder / "ids.bin", folder / "cache"

    def theirs() -> None:
        np.fromfile(path, np.uint8).tofile(written)

    def ours() -> None:
        files = TextFiles([path], "text", TextRules())
        prepare_store(TextSource(files, ByteTokenizer()), cache)

    def clear() -> None:
        written.unlink(missing_ok=True)
        shutil.rmtree(cache, ignore_errors=True)

    numpy, store = in_turns([theirs, ours], repeat, clear)
    row("NumPy, unchecked", numpy * 1e3, "ms")
    row("prepare", store * 1e3, "ms", store / numpy, "times the time")


def memory(folder: Path, gigabytes: float) -> None:
    """Peak memory in fresh processes."""
    path = folder / "large.bin"
    with path.open("wb") as file:
        file.truncate(int(gigabytes * 2**30))
    for name in ("prepare", "train"):
        command = [sys.executable, __file__, "--child", name, str(path)]
        told = subprocess.run(command, check=True, capture_output=True, text=True)
        row(f"{name} {gigabytes:g} GB", int(told.stdout) / 2**10, "MB above torch")


def child(name: str, path: Path) -> None:
    """Do one thing to a token file and print the memory that it took, in KB."""
    before = peak()
    data = open_data(token_config(path), directory=path.parent / "large")
    if name == "train":
        for step in range(3000):
            data.train_batch(step)
    print(peak() - before)


def peak() -> int:
    """The most memory that was resident, in KB."""
    status = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in status if line.startswith("VmHWM"))


def in_turns(
    ways: list[Callable[[], None]],
    repeat: int,
    before: Callable[[], None] = lambda: None,
) -> list[float]:
    """The median time of each way, in seconds; the first round is not counted."""
    times: list[list[float]] = [[] for _ in ways]
    for turn in range(repeat + 1):
        for way, seen in zip(ways, times, strict=True):
            before()
            start = time.perf_counter()
            way()
            if turn:
                seen.append(time.perf_counter() - start)
    return [statistics.median(seen) for seen in times]


def row(
    name: str, value: float, unit: str, ratio: float | None = None, of: str = ""
) -> None:
    """Print one line of a table."""
    told = "" if ratio is None else f"{ratio:8.1f} {of}"
    print(f"{name:<20}{value:>12,.1f} {unit:<16}{told}", flush=True)


def main() -> None:
    """Run the benchmarks."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--megabytes", type=int, default=100)
    parser.add_argument("--gigabytes", type=float, default=2)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--child", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    torch.set_num_threads(1)
    if options.child:
        child(options.child[0], Path(options.child[1]))
        return
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        batches(folder, options.repeat)
        preparation(folder, options.megabytes, options.repeat)
        memory(folder, options.gigabytes)


if __name__ == "__main__":
    main()
