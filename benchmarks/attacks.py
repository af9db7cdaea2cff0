"""What attackers cost in loss: honest nodes and some that lie, under each rule.

    python benchmarks/attacks.py TEXT [--size small] [--out attacks.jsonl]
        [--rules mean,median] [--attacks reverse,noise] [--attackers 0,1,2]

Trains five honest nodes in this one process, with the same pure steps as a run of real
nodes that wait for each round, on shares of one text. Attackers know what the honest
nodes hand in, and lie in the same way every round. Every lie goes through the tests of
admission first (`refuse`); what they refuse is not aggregated.

Rows go to ``--out`` as they come, and those that are there are not computed again.
Prints loss on held-out text relative to that of the honest nodes' mean, in percent.
``--size full`` is the model of configs/tinyshakespeare.yaml.
"""

import argparse
import json
import math
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from rounds import TOKENS, fresh
from speedtronic.pure.aggregate import Aggregator, aggregate, mean, token_mean
from speedtronic.pure.config import Config
from speedtronic.pure.delta import Delta, Weights, compute_delta, non_finite
from speedtronic.pure.delta import norm as norm_of
from speedtronic.pure.origin import Origin
from speedtronic.pure.outer import OuterRule, init_outer, outer_step
from speedtronic.pure.robust import (
    centered_clip,
    geometric_median,
    median,
    multi_krum,
    norm_clip,
    trimmed_mean,
)
from speedtronic.pure.round.admit import Bounds, Candidate, Facts, refuse
from speedtronic.pure.round.header import Header
from speedtronic.pure.tree import evolve, tree_map
from speedtronic.shell.config import config_from_dict
from speedtronic.shell.data import open_data
from speedtronic.shell.evaluate import evaluate_held_out
from speedtronic.shell.session import build_session

HONEST = 5
SIZES = {  # layers, heads, width, rows of a batch, steps
    "small": (2, 2, 48, 8, 400),
    "full": (4, 4, 128, 12, 1000),
}
INNER = 50
OUTER = OuterRule(learning_rate=0.7, momentum=0.6)
LITTLE = 1.5  # standard deviations that "a little" is
CLAIM = 1000  # times the tokens of an honest delta

RULES: dict[str, Callable[[int], Aggregator]] = {  # given how many are faulty
    "mean": lambda faulty: mean(),
    "token_mean": lambda faulty: token_mean(),
    "token_mean_uncapped": lambda faulty: token_mean(cap=None),
    "norm_clip": lambda faulty: norm_clip(),
    "median": lambda faulty: median(),
    "trimmed_mean": lambda faulty: trimmed_mean(max(1, faulty)),
    "geometric_median": lambda faulty: geometric_median(),
    "centered_clip": lambda faulty: centered_clip(),
    "multi_krum": lambda faulty: multi_krum(max(1, faulty)),
}

Params = Mapping[str, Tensor]
Lie = Callable[[int, Sequence[Params], Sequence[Params], torch.Generator], Params]


def times(params: Params, factor: float) -> Params:
    """A multiple."""
    return {name: x * factor for name, x in params.items()}


def length(params: Params) -> float:
    """The 2-norm."""
    return norm_of(Delta(params=dict(params), buffers={})).item()


def average(many: Sequence[Params]) -> Params:
    """The mean."""
    return {n: torch.stack([x[n] for x in many]).mean(0) for n in many[0]}


def noise(honest: Params, factor: float, generator: torch.Generator) -> Params:
    """Random numbers of ``factor`` times the length."""
    drawn = {n: torch.randn(x.shape, generator=generator) for n, x in honest.items()}
    return times(drawn, factor * length(honest) / length(drawn))


def little(honest: Sequence[Params]) -> Params:
    """A-little-is-enough (arXiv:1902.06156): the mean less some deviations."""
    found = {}
    for name in honest[0]:
        rows = torch.stack([x[name] for x in honest])
        found[name] = rows.mean(0) - LITTLE * rows.std(0, correction=0)
    return found


def against(honest: Sequence[Params]) -> Params:
    """Against the mean of all, as long as an honest delta."""
    direction = average(honest)
    usual = sum(map(length, honest)) / len(honest)
    return times(direction, -usual / length(direction))


# An attacker's own delta is that of the honest node of its number: number, this round's
# honest deltas, those of the first round, and a generator.
LIES: dict[str, Lie] = {
    "reverse": lambda k, honest, first, g: against(honest),
    "times -10": lambda k, honest, first, g: times(honest[k], -10.0),
    "times 10": lambda k, honest, first, g: times(honest[k], 10.0),
    "times 1000": lambda k, honest, first, g: times(honest[k], 1000.0),
    "noise": lambda k, honest, first, g: noise(honest[k], 1.0, g),
    "noise x10": lambda k, honest, first, g: noise(honest[k], 10.0, g),
    "replay": lambda k, honest, first, g: first[k],
    "copy": lambda k, honest, first, g: honest[0],
    "little": lambda k, honest, first, g: little(honest),
    "zero": lambda k, honest, first, g: times(honest[k], 0.0),
    "nan": lambda k, honest, first, g: times(honest[k], math.nan),
}
CLAIMING = "reverse and claim"
LIES[CLAIMING] = LIES["reverse"]


def config_of(text: Path, size: str, seed: int) -> Config:
    """That of configs/tinyshakespeare.yaml, but for the size."""
    layers, heads, width, rows, steps = SIZES[size]
    return config_from_dict(
        {
            "run": {"name": "attacks", "max_steps": steps, "seed": seed},
            "model": {
                "vocab_size": 256,
                "max_seq_len": 64,
                "n_layer": layers,
                "n_head": heads,
                "d_model": width,
            },
            "data": {
                "text_path": str(text),
                "validation_fraction": 0.1,
                "shuffle": True,
                "micro_batch_size": rows,
                "target_batch_size": rows,
            },
            "optimizer": {
                "name": "adamw",
                "lr": 2e-3,
                "betas": [0.9, 0.99],
                "weight_decay": 0.1,
                "grad_clip": 1.0,
            },
            "scheduler": {"name": "cosine", "warmup_steps": 100, "min_lr_ratio": 0.1},
            "evaluation": {"batch_size": 64},
            "compile": {"enabled": True},
        }
    )


class Nodes:
    """Honest nodes, and the attackers' view of them."""

    def __init__(self, config: Config) -> None:
        self.config = config
        self.data = [
            open_data(config, directory=TOKENS, node=node, nodes=HONEST)
            for node in range(HONEST)
        ]
        example = self.data[0].train_batch(0).micro_batches[0]
        self.session = build_session(config, example)
        self.runner = self.session.runner(warnings.warn)
        self._beginning: tuple[list[Any], list[Params]] | None = None

    def train(self, rule: Aggregator, lie: str, attackers: int) -> tuple[float, int]:
        """All rounds; the loss of the last global model, and how many were refused."""
        first = fresh(self.session)
        outer = init_outer(Weights(params=first.params, buffers={}), OUTER)
        states = [fresh(self.session, node) for node in range(HONEST)]
        generator = torch.Generator().manual_seed(self.config.run.seed)
        beginning: list[Params] = []
        refused = 0
        for start in range(0, self.config.run.max_steps, INNER):
            if start == 0:  # the same under every rule
                self._beginning = self._beginning or (
                    states,
                    self._round(outer.weights, states, 0),
                )
                honest = beginning = self._beginning[1]
                states = [tree_map(torch.clone, s) for s in self._beginning[0]]
            else:
                honest = self._round(outer.weights, states, start)
            handed_in = {origin(f"{n}", start): x for n, x in enumerate(honest)}
            for number in range(attackers):
                claim = CLAIM if lie == CLAIMING else 1
                who = origin(f"attacker {number}", start, claim)
                handed_in[who] = LIES[lie](number, honest, beginning, generator)
            deltas = {
                who: Delta(params=dict(params), buffers={})
                for who, params in handed_in.items()
            }
            counted = {who: x for who, x in deltas.items() if is_admitted(x)}
            refused += len(deltas) - len(counted)
            outer, _ = outer_step(outer, aggregate(counted, rule), OUTER)
            if not all(x.isfinite().all() for x in outer.weights.params.values()):
                return math.nan, refused
        state = evolve(states[0], params=tree_map(torch.clone, outer.weights.params))
        found = evaluate_held_out(self.session, self.data[0], state)
        assert found is not None
        return found.loss, refused

    def _round(self, base: Weights, states: list[Any], start: int) -> list[Params]:
        """What each honest node's work changed; ``states`` go on."""
        found: list[Params] = []
        for node, state in enumerate(states):
            state = evolve(state, params=tree_map(torch.clone, base.params))
            for step in range(start, start + INNER):
                batches = self.data[node].train_batch(step).micro_batches
                state, _ = self.runner(state, batches)
            states[node] = state
            current = Weights(params=state.params, buffers={})
            delta = compute_delta(base, current)
            found.append({name: x.clone() for name, x in delta.params.items()})
        return found


def origin(node: str, start: int, claim: int = 1) -> Origin:
    """Of a delta that was cut ``INNER`` steps after ``start``."""
    tokens = INNER * 500 * claim
    return Origin(node, "s", start + 1, tokens=tokens, steps=INNER)


def is_admitted(delta: Delta) -> bool:
    """By the tests of admission, with the size of the model as the only bound."""
    size = sum(x.numel() * x.itemsize for x in delta.params.values())
    payload = "0" * 64
    facts = Facts(
        payload=payload,
        payload_bytes=size,
        finite=not non_finite(delta),
        norm=norm_of(delta).item(),
    )
    header = Header(
        run="0" * 16,
        lineage="0" * 64,
        node="a",
        stream="1" * 16,
        life="2" * 16,
        seq=1,
        after=None,
        base_round=0,
        base_id="3" * 64,
        cursor=0,
        inner_steps=INNER,
        tokens=1,
        codec="none",
        payload=payload,
        payload_bytes=size,
    )
    candidate = Candidate(name=header.name, header=header, facts=facts)
    return refuse(candidate, Bounds(payload_bytes=size)) is None


def cells(options: argparse.Namespace) -> list[tuple[str, str, int]]:
    """Rule, lie and number of attackers of every row."""
    rules = options.rules.split(",") if options.rules else list(RULES)
    lies = (
        [x.strip() for x in options.attacks.split(",")]
        if options.attacks
        else list(LIES)
    )
    found = []
    for attackers in map(int, options.attackers.split(",")):
        for lie in lies if attackers else ["none"]:
            for rule in rules:
                by_tokens = rule.startswith("token_mean")
                if by_tokens == (lie == CLAIMING) or (not attackers and by_tokens):
                    found.append((rule, lie, attackers))
    return found


def told(path: Path) -> list[dict[str, Any]]:
    """The rows of a file."""
    lines = path.read_text().splitlines() if path.exists() else []
    return [json.loads(line) for line in lines]


def table(rows: list[dict[str, Any]], size: str, seed: int) -> None:
    """Print percent above the honest nodes' mean."""
    mine = [r for r in rows if r["size"] == size and r["seed"] == seed]
    losses = {(r["rule"], r["attack"], r["attackers"]): r for r in mine}
    base = losses.get(("mean", "none", 0))
    if base is None:
        return
    rules = [rule for rule in RULES if any(key[0] == rule for key in losses)]
    print(f"\nhonest mean: {base['loss']:.4f} nats per byte\n")
    print("| attackers | lie | " + " | ".join(f"`{rule}`" for rule in rules) + " |")
    print("| --- | --- |" + " --- |" * len(rules))
    keys = {key[1:] for key in losses}
    order = ["none", *LIES]
    for lie, attackers in sorted(keys, key=lambda k: (k[1], order.index(k[0]))):
        found = [losses.get((rule, lie, attackers)) for rule in rules]
        shown = [told_of(row, base["loss"]) for row in found]
        print(f"| {attackers} | {lie} | " + " | ".join(shown) + " |")


def told_of(row: dict[str, Any] | None, base: float) -> str:
    """One cell."""
    if row is None:
        return ""
    if not math.isfinite(row["loss"]):
        return "no number"
    change = 100 * (row["loss"] / base - 1)
    return f"{change:+.1f}" + (" (refused)" if row["refused"] else "")


def main() -> None:
    """Compute what is not there yet, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("text", type=Path)
    parser.add_argument("--size", choices=sorted(SIZES), default="small")
    parser.add_argument("--seed", type=int, default=1234)
    parser.add_argument("--out", type=Path, default=Path("attacks.jsonl"))
    parser.add_argument("--rules", default="")
    parser.add_argument("--attacks", default="")
    parser.add_argument("--attackers", default="0,1,2")
    options = parser.parse_args()
    torch.set_num_threads(1)
    keys = ("size", "seed", "rule", "attack", "attackers")
    there = {tuple(row[key] for key in keys) for row in told(options.out)}
    nodes = None
    for rule, lie, attackers in cells(options):
        if (options.size, options.seed, rule, lie, attackers) in there:
            continue
        config = config_of(options.text, options.size, options.seed)
        nodes = nodes or Nodes(config)
        begun = time.perf_counter()
        try:
            loss, refused = nodes.train(RULES[rule](attackers), lie, attackers)
        except ValueError as error:  # too few are left for this rule
            print(f"{rule}, {attackers} {lie}: {error}", flush=True)
            continue
        cell = (options.size, options.seed, rule, lie, attackers)
        row = dict(zip(keys, cell, strict=True)) | {"loss": loss, "refused": refused}
        with options.out.open("a") as file:
            file.write(json.dumps(row) + "\n")
        seconds = time.perf_counter() - begun
        print(
            f"{rule:20s} {attackers} {lie:24s} {loss:.4f} {seconds:6.1f} s", flush=True
        )
    table(told(options.out), options.size, options.seed)


if __name__ == "__main__":
    main()
