"""What rounds cost in loss: nodes that meet every H steps, over outer settings.

    python benchmarks/rounds.py TEXT [--config configs/tinyshakespeare.yaml]
        [--steps 1000] [--nodes 4] [--set optimizer.lr=1e-3 ...]
        [--inner 10,25,50,100] [--outer 0.7/0.9,0.7/0.6,1.0/0.0]

Trains the model of the config in this one process, with the same pure steps as a run of
real nodes that wait for each round. Every node takes ``--steps`` inner steps on its
own share of the text. Prints one row per setting: loss of the global model on the
held-out text, nats per byte. With ``--controls`` also one node alone, and one with the
batches of all nodes together, for as many steps.
"""

import argparse
import time
import warnings
from pathlib import Path
from typing import Any

import torch

from speedtronic.pure.aggregate import aggregate, mean
from speedtronic.pure.config import Config
from speedtronic.pure.delta import Weights, compute_delta
from speedtronic.pure.origin import Origin
from speedtronic.pure.outer import OuterRule, init_outer, outer_step
from speedtronic.pure.random import fold_in
from speedtronic.pure.tree import evolve, tree_map
from speedtronic.shell.config import load_config
from speedtronic.shell.data import open_data
from speedtronic.shell.evaluate import evaluate_held_out
from speedtronic.shell.session import Session, build_session

TOKENS = Path("runs/.tokens")
CONFIG = Path(__file__).parent.parent / "configs" / "tinyshakespeare.yaml"


def config_of(text: Path, options: argparse.Namespace, batch: int) -> Config:
    """That of the file, but for what the options say."""
    return load_config(
        options.config,
        [
            f"data.text_path={text}",
            f"data.micro_batch_size={batch}",
            f"data.target_batch_size={batch}",
            f"run.max_steps={options.steps}",
            "compile.enabled=true",
            *options.set,
        ],
    )


def train_alone(config: Config, node: int = 0, nodes: int = 1) -> float:
    """One node, no rounds."""
    data = open_data(config, directory=TOKENS, node=node, nodes=nodes)
    session = build_session(config, data.train_batch(0).micro_batches[0])
    runner, state = session.runner(warnings.warn), fresh(session)
    for step in range(config.run.max_steps):
        state, _ = runner(state, data.train_batch(step).micro_batches)
    found = evaluate_held_out(session, data, state)
    assert found is not None
    return found.loss


def fresh(session: Session, node: int = 0) -> Any:
    """A first state of one's own: steps write over what they are given."""
    state = tree_map(torch.clone, session.initial)
    return evolve(state, key=fold_in(state.key, node))


class Nodes:
    """The nodes of a run, one after the other in this process."""

    def __init__(self, config: Config, nodes: int) -> None:
        self.config = config
        self.data = [
            open_data(config, directory=TOKENS, node=node, nodes=nodes)
            for node in range(nodes)
        ]
        example = self.data[0].train_batch(0).micro_batches[0]
        self.session = build_session(config, example)
        self.runner = self.session.runner(warnings.warn)

    def train(self, inner_steps: int, rule: OuterRule) -> float:
        """Rounds of ``inner_steps``; the loss of the last global model."""
        first = fresh(self.session)
        outer = init_outer(Weights(params=first.params, buffers={}), rule)
        states = [fresh(self.session, node) for node in range(len(self.data))]
        for start in range(0, self.config.run.max_steps, inner_steps):
            base, deltas = outer.weights, {}
            for node, state in enumerate(states):
                params = tree_map(torch.clone, base.params)
                state = evolve(state, params=params)
                for step in range(start, start + inner_steps):
                    batches = self.data[node].train_batch(step).micro_batches
                    state, _ = self.runner(state, batches)
                states[node] = state
                current = Weights(params=state.params, buffers={})
                deltas[Origin(f"{node}", "s", start + 1)] = compute_delta(base, current)
            outer, _ = outer_step(outer, aggregate(deltas, mean()), rule)
        state = evolve(states[0], params=tree_map(torch.clone, outer.weights.params))
        found = evaluate_held_out(self.session, self.data[0], state)
        assert found is not None
        return found.loss


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("text", type=Path)
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--nodes", type=int, default=4)
    parser.add_argument("--config", type=Path, default=CONFIG)
    parser.add_argument("--set", action="append", default=[], metavar="PATH=VALUE")
    parser.add_argument("--inner", default="10,25,50,100")
    parser.add_argument("--outer", default="0.7/0.9,0.7/0.6,1.0/0.0")
    parser.add_argument("--controls", action=argparse.BooleanOptionalAction)
    options = parser.parse_args()
    torch.set_num_threads(1)
    if options.controls:
        alone = train_alone(config_of(options.text, options, 12))
        tell("alone", alone)
        tell(
            "together",
            train_alone(config_of(options.text, options, 12 * options.nodes)),
        )
    nodes = Nodes(config_of(options.text, options, 12), options.nodes)
    for inner in map(int, options.inner.split(",")):
        for outer in options.outer.split(","):
            rate, momentum = map(float, outer.split("/"))
            rule = OuterRule(learning_rate=rate, momentum=momentum)
            begun = time.perf_counter()
            loss = nodes.train(inner, rule)
            tell(f"H {inner:3d}  outer {outer}", loss, time.perf_counter() - begun)


def tell(what: str, loss: float, seconds: float = 0.0) -> None:
    """One row."""
    print(f"{what:24s} {loss:.4f}  {seconds:6.1f} s", flush=True)


if __name__ == "__main__":
    main()
