"""What each optimizer makes of the same steps, losing ones too.

    python benchmarks/optimizers.py TEXT [--steps 500] [--only NAME ...] [--seeds 1234]
        [--set PATH=VALUE ...]
    python benchmarks/optimizers.py --table

Trains the model of configs/tinyshakespeare.yaml on TEXT, tinyshakespeare, once for each
optimizer and seed, and appends a line of JSON per run to benchmarks/results: the loss
on the held-out text in nats per byte every 250 steps, at the end also that of averages
of the weights, and the mean loss of training every 50. A run whose line is there is
not run again. ``--table`` needs no text: it puts the tables and the curves into
docs/optimizers.md.
"""

import argparse
import json
import statistics
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import curves
import marked
import torch

from speedtronic.pure.config import Config
from speedtronic.pure.optim import (
    Average,
    Clock,
    exponential_average,
    tail_average,
)
from speedtronic.pure.tree import evolve, tree_map
from speedtronic.shell.config import load_config
from speedtronic.shell.data import open_data
from speedtronic.shell.evaluate import evaluate_held_out
from speedtronic.shell.session import build_session

HERE = Path(__file__).parent
CONFIGS = HERE.parent / "configs"
RESULTS = HERE / "results" / "optimizers.jsonl"
PAGE = HERE.parent / "docs" / "optimizers.md"
TOKENS = Path("runs/.tokens")
ADAMW, MUON = "tinyshakespeare.yaml", "tinyshakespeare-muon.yaml"
OFTEN, EVERY = 50, 250  # steps per training loss, and per validation loss
# Which loss the curves show: where steps are few, the one that is there more often.
LENGTHS = {500: "train", 2000: "loss"}
PLAIN = ("optimizer.normuon=false", "optimizer.muon_coefficients=keller")

# A name, the file it begins with, and what it changes there.
VARIANTS: dict[str, tuple[str, tuple[str, ...]]] = {
    "AdamW": (ADAMW, ()),
    "AdamW, cautious": (ADAMW, ("optimizer.cautious=true",)),
    "AdamW, cautious decay": (ADAMW, ("optimizer.cautious_decay=true",)),
    "AdamW, Lookahead": (ADAMW, ("optimizer.lookahead_every=5",)),
    "Muon": (MUON, PLAIN),
    "Muon, match_rms_adamw": (  # with a rate that gives squares the same steps
        MUON,
        (*PLAIN, "optimizer.muon_adjust=match_rms_adamw", "optimizer.lr=0.0088"),
    ),
    "Muon, Polar Express": (MUON, ("optimizer.normuon=false",)),
    "Muon+": (MUON, (*PLAIN, "optimizer.muon_plus=true")),
    "NorMuon": (MUON, ("optimizer.muon_coefficients=keller",)),
    "NorMuon, Polar Express": (MUON, ()),
    "NorMuon, Polar Express, cautious": (MUON, ("optimizer.cautious=true",)),
    "NorMuon, Polar Express, SNOO": (
        MUON,
        (
            "optimizer.lookahead_every=20",
            "optimizer.lookahead_lr=0.8",
            "optimizer.lookahead_momentum=0.5",
        ),
    ),
}


def averages(steps: int) -> dict[str, Average]:
    """Of the weights of every run; training is the same with and without them."""
    return {
        "EMA 0.99": exponential_average(0.99),
        "tail": tail_average(steps - steps // 10),
    }


def overrides(steps: int, seed: int, settings: tuple[str, ...]) -> list[str]:
    """What a run changes in its file."""
    return [f"run.max_steps={steps}", f"run.seed={seed}", *settings]


def train(config: Config) -> Iterator[dict[str, Any]]:
    """The losses of a run, as they come."""
    data = open_data(config, directory=TOKENS)
    session = build_session(config, data.train_batch(0).micro_batches[0])
    runner = session.runner(warnings.warn)
    state = tree_map(torch.clone, session.initial)
    last = config.run.max_steps
    kinds = averages(last)
    means = {name: kind.init(state.params) for name, kind in kinds.items()}
    total = torch.zeros(())

    def loss(params: Any) -> float:
        found = evaluate_held_out(session, data, evolve(state, params=params))
        assert found is not None
        return found.loss

    for step in range(last):
        state, info = runner(state, data.train_batch(step).micro_batches)
        total += info.loss
        clock = Clock(step=torch.tensor(step))
        for name, kind in kinds.items():
            means[name] = kind.update(means[name], state.params, clock)
        if (step + 1) % OFTEN:
            continue
        row: dict[str, Any] = {"step": step + 1, "train": float(total) / OFTEN}
        total.zero_()
        if (step + 1) % EVERY == 0:
            row["loss"] = loss(state.params)
        if step + 1 == last:
            row["averaged"] = {name: loss(mean) for name, mean in means.items()}
        yield row


def run(name: str, text: Path, options: argparse.Namespace, seed: int) -> None:
    """One run, and its line."""
    file, settings = VARIANTS[name]
    settings = (*settings, *options.set)
    key = [name, file, list(settings), options.steps, seed]
    done = [row["key"] for row in read(options.results)]
    if key in done:
        return
    config = load_config(
        CONFIGS / file,
        [f"data.text_path={text}", *overrides(options.steps, seed, settings)],
    )
    begun, spent = time.perf_counter(), time.process_time()
    curve = []
    for row in train(config):
        curve.append(row)
        print(name, seed, json.dumps(row), flush=True)
    line = {
        "key": key,
        "name": name,
        "curve": curve,
        "seconds": round(time.perf_counter() - begun, 1),
        "cpu_seconds": round(time.process_time() - spent, 1),
        "torch": torch.__version__,
    }
    options.results.parent.mkdir(parents=True, exist_ok=True)
    with options.results.open("a", encoding="utf-8") as out:
        out.write(json.dumps(line) + "\n")


def read(path: Path) -> list[dict[str, Any]]:
    """The lines of a file of results; none if it is not there."""
    if not path.exists():
        return []
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def table(rows: list[dict[str, Any]], steps: int) -> Iterator[str]:
    """Markdown, best first; a variant with several seeds has their mean."""
    yield "| optimizer | loss | EMA 0.99 | tail average | seeds |"
    yield "| --- | --- | --- | --- | --- |"
    found: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        name, _, _, count, _ = row["key"]
        if count == steps and name in VARIANTS:
            found.setdefault(name, []).append(row["curve"][-1])
    for name, ends in sorted(found.items(), key=lambda item: _mean(item[1])):
        kinds = ends[0].get("averaged", {})
        told = [
            _mean(ends),
            *(statistics.mean(end["averaged"][kind] for end in ends) for kind in kinds),
        ]
        cells = [*(f"{loss:.3f}" for loss in told), "", ""][:3]
        yield f"| {name} | {' | '.join(cells)} | {len(ends)} |"


def _mean(ends: list[dict[str, Any]]) -> float:
    losses: list[float] = [end["loss"] for end in ends]
    return statistics.mean(losses)


def tell(rows: list[dict[str, Any]]) -> None:
    """Rewrite the tables and the curves of the page."""
    for steps, kind in LENGTHS.items():
        marked.rewrite(PAGE, f"{steps} steps", table(rows, steps))
        lines = {
            row["name"]: points
            for row in rows
            if row["key"][3] == steps and len(points := _points(row, kind)) > 2
        }
        picture = curves.svg(lines, "steps", f"{kind}, nats per byte")
        PAGE.with_name(f"optimizers-{steps}.svg").write_text(picture, "utf-8")


def _points(row: dict[str, Any], kind: str) -> list[tuple[float, float]]:
    curve = row["curve"]
    return [(point["step"], point[kind]) for point in curve if kind in point]


def main() -> None:
    """Train, or show what was trained."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("text", type=Path, nargs="?")
    parser.add_argument("--only", nargs="+", default=list(VARIANTS), choices=VARIANTS)
    parser.add_argument("--seeds", type=int, nargs="+", default=[1234])
    parser.add_argument("--steps", type=int, default=500)
    parser.add_argument("--set", action="append", default=[])
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--table", action="store_true")
    options = parser.parse_args()
    if options.table:
        tell(read(options.results))
        return
    if options.text is None:
        parser.error("which text? Only --table needs none")
    torch.set_num_threads(1)
    for seed in options.seeds:
        for name in options.only:
            run(name, options.text, options, seed)


if __name__ == "__main__":
    main()
