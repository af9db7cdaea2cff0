"""Put what `peers.py` measured into the README, between its two marks.

python benchmarks/readme.py [--results benchmarks/results/peers.json]
"""

import argparse
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import marked
import peers

README = peers.HERE.parent / "README.md"
NAMES = {
    "ours": "**Speedtronic**",
    "old": "Speedtronic 2.0",
    "plain": "plain loop",
    "fabric": "Lightning Fabric",
    "accelerate": "Accelerate",
}


def text(found: dict[str, Any]) -> Iterator[str]:
    """The lines between the marks."""
    yield (
        f"{found['machine']}, {found['threads']} thread(s), torch {found['torch']}."
        f" Ratios of {found['clock']}: medians, with half the spread. The load"
        f" was {found['load_before']:.1f} before and {found['load_after']:.1f} after."
    )
    rounds = {row["size"]: len(row["taken"]) for row in found["rows"]}
    yield (
        f"Rounds: {', '.join(f'{count} at {size}' for size, count in rounds.items())}."
        " The last two columns are wall time at that load."
    )
    yield from (
        f"Not run: {mode}, for which this CPU has no instructions."
        for mode in found["left_out"]
    )
    yield ""
    yield (
        "| model | way | mode | ms per step | of 2.0 in this mode | of 2.0 by default |"
        " tokens/s | peak MB | first step | start to then |"
    )
    yield "| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |"
    rows = found["rows"]
    for row in rows:
        yield _row(row, [other for other in rows if other["size"] == row["size"]])


def _row(row: dict[str, Any], others: list[dict[str, Any]]) -> str:
    cells = (
        row["size"],
        NAMES[row["way"]],
        row["mode"],
        f"{1e3 * row['seconds']:.1f}",
        _ratio(row, others, row["mode"]),
        _ratio(row, others, "eager"),
        f"{row['tokens_per_second']:.0f}",
        f"{row['peak_megabytes']:.0f}",
        f"{row['first_step']:.1f} s",
        f"{row['start_up']:.1f} s",
    )
    return f"| {' | '.join(cells)} |"


def _ratio(row: dict[str, Any], others: list[dict[str, Any]], mode: str) -> str:
    """Of its time to that of 2.0 in a mode."""
    for other in others:
        if (other["way"], other["mode"]) == ("old", mode):
            if other is row:
                return "1"
            middle, spread = peers.ratio(row, other)
            return f"{middle:.2f} +- {spread:.2f}"
    return ""


def main() -> None:
    """Rewrite the README."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--results", type=Path, default=peers.RESULTS)
    options = parser.parse_args()
    found = json.loads(options.results.read_text("utf-8"))
    marked.rewrite(README, "peers", text(found))


if __name__ == "__main__":
    main()
