"""Several processes as one node, started by torchrun.

Two ranks go through a row of trainings (`rank_scenarios`); most tests look at what they
wrote about one of them.
"""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from tests.shell import rank_scenarios
from tests.shell.rank_scenarios import ONE_EACH, config, in_a_run, told

from speedtronic.errors import ConfigError
from speedtronic.shell.config import config_from_dict
from speedtronic.shell.lanes import parse_lane
from speedtronic.shell.metrics import read_log
from speedtronic.shell.rank_place import Place
from speedtronic.shell.ranks import Ranks
from speedtronic.shell.train import train

pytestmark = pytest.mark.slow
ROOT = Path(__file__).parents[2]
Told = list[dict[str, Any]]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("ranks")


@pytest.fixture(scope="module")
def output(folder: Path) -> str:
    """What torchrun says; meanwhile another node of the first run trains here."""
    environment = {
        **os.environ,
        "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'src'}",
        "OMP_NUM_THREADS": "1",
        "GLOO_SOCKET_IFNAME": "lo",
    }
    launcher = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2")
    parse_lane(f"dir:{folder / 'lane'}", create=True)
    with (
        pytest.MonkeyPatch.context() as patched,
        subprocess.Popen(
            [sys.executable, *launcher, "-m", rank_scenarios.HERE, str(folder)],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        ) as process,
    ):
        try:
            patched.chdir(folder)
            train(config_from_dict(in_a_run("b", "dir:lane", "worker")))
            return process.communicate()[0]
        finally:
            process.terminate()


@pytest.fixture(scope="module")
def seen(folder: Path, output: str) -> dict[str, Told]:
    """What both ranks saw, by scenario."""
    assert {"0.json", "1.json"} <= set(os.listdir(folder)), output
    ranks = [json.loads((folder / f"{rank}.json").read_text()) for rank in (0, 1)]
    return {name: [told[name] for told in ranks] for name in ranks[0]}


def by_one_process(plain: dict[str, Any]) -> dict[str, Any]:
    return told(train(config_from_dict(plain)))


def saved(run: Path, step: int) -> dict[str, torch.Tensor]:
    """Weights and optimizer of a checkpoint."""
    folder = run / f"checkpoints/step-{step:08d}"
    return load_file(folder / "model.safetensors") | load_file(
        folder / "optimizer.safetensors"
    )


def furthest(a: dict[str, torch.Tensor], b: dict[str, torch.Tensor]) -> float:
    assert a.keys() == b.keys()
    return max(float((a[n].double() - b[n].double()).abs().max()) for n in a)


def test_two_ranks_train_like_one_process(
    seen: dict[str, Told],
    folder: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Five steps of four micro-batches, in another order: equal but for rounding."""
    monkeypatch.chdir(tmp_path)
    expected = by_one_process(config("four"))
    results = [rank["result"] for rank in seen["four"]]

    assert results[0] == results[1]
    for name in ("steps", "samples", "tokens", "exit_code"):
        assert expected[name] == results[0][name]
    for name in ("loss", "validation_loss"):
        assert expected[name] == pytest.approx(results[0][name], abs=2e-6)
    for step in (2, 4, 5):
        whole, shared = (saved(at / "runs/four", step) for at in (tmp_path, folder))
        assert furthest(whole, shared) < 1e-5
    assert furthest(saved(folder / "runs/four", 2), shared) > 1e-2


def test_with_one_micro_batch_each_even_the_bits_are_the_same(
    seen: dict[str, Told],
    folder: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Then the same numbers are added in the same order."""
    monkeypatch.chdir(tmp_path)
    expected = by_one_process(config("one-each", data=ONE_EACH))

    assert [expected] * 2 == [rank["result"] for rank in seen["one each"]]
    for step in (2, 4, 5):
        whole, shared = (saved(at / "runs/one-each", step) for at in (tmp_path, folder))
        assert 0.0 == furthest(whole, shared)


@pytest.mark.parametrize(
    ("scenario", "steps"),
    [("four", 5), ("dropout", 5), ("buffers", 5), ("compiled", 5), ("terminated", 4)],
)
def test_all_ranks_have_one_state(
    seen: dict[str, Told], scenario: str, steps: int
) -> None:
    """Parameters, optimizer, buffers and counters, after each step."""
    first, second = (rank["states"] for rank in seen[scenario])

    assert first == second
    assert steps == len(set(first))


def test_dropout_differs_between_ranks(seen: dict[str, Told]) -> None:
    """The first rank's key is that of a process without others."""
    first, second = (rank["key"] for rank in seen["dropout"])

    assert first != second


def test_a_resumed_run_has_the_bits_of_an_unbroken_one(
    seen: dict[str, Told], folder: Path
) -> None:
    """With dropout, two steps and then three; the run is then done."""
    whole = [rank["states"] for rank in seen["dropout"]]
    first = [rank["states"] for rank in seen["first half"]]
    second = [rank["states"] for rank in seen["second half"]]

    assert whole == [a + b for a, b in zip(first, second, strict=True)]
    assert 0.0 == furthest(
        *(saved(folder / f"runs/{n}", 5) for n in ("dropout", "cut"))
    )
    for rank in range(2):
        assert [] == seen["again"][rank]["states"]
        assert seen["second half"][rank]["result"] == seen["again"][rank]["result"]


def test_one_process_goes_on_with_the_run_of_two(
    seen: dict[str, Told],
    folder: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """At the same place in the data."""
    monkeypatch.chdir(tmp_path)
    del seen
    shutil.copytree(folder / "runs/four", tmp_path / "runs/four")
    more = {"max_steps": 6}
    resumed = train(config_from_dict(config("four", run=more)), resume="auto")
    unbroken = train(config_from_dict(config("unbroken", run=more)))

    assert (6, 48) == (resumed.steps, resumed.samples)
    assert unbroken.loss == pytest.approx(resumed.loss, abs=2e-6)


def test_buffers_are_those_of_the_last_micro_batch(folder: Path, seen: Any) -> None:
    """Five steps of two on each rank; batch statistics go on on all of them."""
    del seen
    tensors = saved(folder / "runs/buffers", 5)

    assert 10 == int(tensors["norm.num_batches_tracked"])
    assert bool((tensors["norm.running_var"] != 1).all())


def test_a_compiled_step_is_summed_too(seen: dict[str, Told]) -> None:
    """With the same numbers."""
    eager, compiled = (
        [rank["result"]["loss"] for rank in seen[name]]
        for name in ("buffers", "compiled")
    )

    assert compiled == pytest.approx(eager, abs=1e-5)


def test_only_the_first_rank_writes(folder: Path, seen: dict[str, Told]) -> None:
    """Every step stands in the metrics once, with the sums of the node."""
    del seen
    lines = list(read_log(folder / "runs/four/metrics.jsonl"))
    steps = [line for line in lines if line["event"] == "train_step"]

    assert [1, 2, 3, 4, 5] == [line["step"] for line in steps]
    assert [8, 16, 24, 32, 40] == [line["samples"] for line in steps]
    assert [2, 4, 5] == [x["step"] for x in lines if x["event"] == "checkpoint"]
    assert 1 == sum(line["event"] == "train_start" for line in lines)


def test_time_ends_all_ranks_at_one_step(seen: dict[str, Told]) -> None:
    """The first one has the clock."""
    results = [rank["result"] for rank in seen["minutes"]]
    states = [rank["states"] for rank in seen["minutes"]]

    assert (results[0], states[0]) == (results[1], states[1])
    assert results[0]["steps"] == len(states[0]) > 0


def test_a_signal_to_one_rank_ends_all(folder: Path, seen: dict[str, Told]) -> None:
    """In the third step; the fourth is under way, and then all is saved, once."""
    codes = [rank["result"]["exit_code"] for rank in seen["terminated"]]
    lines = list(read_log(folder / "runs/terminated/metrics.jsonl"))

    assert [143, 143] == codes
    assert [4] == [x["step"] for x in lines if x["event"] == "checkpoint"]
    assert ["step-00000004"] == os.listdir(folder / "runs/terminated/checkpoints")


@pytest.mark.parametrize(
    ("scenario", "errors", "lines"),
    [
        (
            "failing",
            ["RankError", "DataError"],
            ["rank 1 failed: sample 7 cannot be read", "sample 7 cannot be read"],
        ),
        (
            "first failing",
            ["DataError", "RankError"],
            ["sample 7 cannot be read", "rank 0 failed: sample 7 cannot be read"],
        ),
        (
            "taken",
            ["RunError", "RankError"],
            ["runs/four holds a run already", "rank 0 failed: runs/four holds a run"],
        ),
        (
            "other seed",
            ["RankError", "RankError"],
            ["config: rank 1 has another one than rank 0; start all ranks with"] * 2,
        ),
        (
            "uneven",
            ["ModelError", "ModelError"],
            ["model.name: the model gives other metrics on other ranks"] * 2,
        ),
    ],
)
def test_what_ends_one_rank_ends_all_with_its_reason(
    seen: dict[str, Told], scenario: str, errors: list[str], lines: list[str]
) -> None:
    """And with its exit code."""
    found = seen[scenario]

    assert [(error, 2) for error in errors] == [
        (rank["error"], rank["exit_code"]) for rank in found
    ]
    for line, rank in zip(lines, found, strict=True):
        assert rank["text"].startswith(line)


def test_a_silent_rank_is_noticed(seen: dict[str, Told]) -> None:
    """After the time that an answer may take."""
    expected = "a rank of this node did not answer within 2 seconds"

    assert seen["silent rank"][0]["text"].startswith(expected)
    assert 1 == seen["silent rank"][0]["exit_code"]


def test_ranks_at_different_places_stop(seen: dict[str, Told]) -> None:
    """Instead of taking one message for another."""
    for rank in seen["another place"]:
        assert rank["text"].endswith("lost step with each other, at: order, counts")


def test_any_tensor_arrives_as_it_was_sent(seen: dict[str, Told]) -> None:
    """By name, whatever its dtype and layout; so do values that JSON lacks."""
    expected = {"same": True, "last": 1, "rank": 0, "loss": "nan"}

    assert [expected] * 2 == seen["tensors"]


def test_a_command_ends_with_the_code_of_the_signal(
    output: str, seen: dict[str, Told]
) -> None:
    """On all ranks; the first one alone says what came of the run."""
    assert [143, 143] == [rank["exit_code"] for rank in seen["command"]]
    assert 1 == output.count("interrupted steps=4 samples=32")
    assert 2 == output.count("step 2/99")  # of this run, and of the killed one


def test_a_killed_rank_ends_the_others(output: str) -> None:
    """With one line; torchrun shows the exit codes."""
    table = re.findall(r"rank +: (\d).*\n +exitcode +: (-?\d+)", output)

    assert {"0": "1", "1": "-9"} == dict(table), output
    assert 1 == output.count("error: another rank of this node is gone without a word")


def test_a_node_of_two_ranks_in_a_run_with_another_node(
    folder: Path, seen: dict[str, Told]
) -> None:
    """Both deliver in each of three rounds; new weights reach every rank."""
    first, second = seen["lane"]

    assert first["result"] == second["result"]
    assert first["states"] == second["states"]
    assert (6, 6) == (first["result"]["steps"], len(set(first["states"])))
    for name in ("a", "b"):
        lines = read_log(folder / f"runs/{name}/metrics.jsonl")
        rounds = [x["round"] for x in lines if x["event"] == "outer_step"]
        assert rounds[-1] >= 2, rounds


def test_a_group_of_somebody_else_is_in_the_way(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A script that has formed one is told."""
    monkeypatch.setattr(torch.distributed, "is_initialized", lambda: True)
    with pytest.raises(ConfigError, match="a process group is there already"):
        with Ranks(Place(ranks=2), torch.device("cpu")):
            pass
