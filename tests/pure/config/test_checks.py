"""Rules between config fields."""

import attrs
import pytest

from speedtronic.pure.config import (
    Checkpoint,
    Compile,
    Config,
    Data,
    Distributed,
    Evaluation,
    Logging,
    Model,
    Optimizer,
    Precision,
    Run,
    Scheduler,
    Source,
)
from speedtronic.pure.config.checks import problems


def test_the_defaults_contradict_nothing() -> None:
    """An empty config is usable."""
    assert [] == problems(Config())


@pytest.mark.parametrize(
    ("config", "path", "told"),
    [
        (
            Config(data=Data(micro_batch_size=3, target_batch_size=4)),
            "data.target_batch_size",
            "multiple of data.micro_batch_size 3",
        ),
        (Config(model=Model(n_head=3)), "model.n_head", "divisor of model.d_model 256"),
        (Config(model=Model(d_model=24)), "model.n_head", "even width per head"),
        (Config(model=Model(n_kv_head=3)), "model.n_kv_head", "divisor of model.n_h"),
        (
            Config(model=Model(kwargs={"depth": 1})),
            "model.kwargs",
            "found ['depth']",
        ),
        (
            Config(model=Model(name="tiny:build", n_layer=2)),
            "model.n_layer",
            "pass it as model.kwargs.n_layer",
        ),
        (
            Config(data=Data(block_size=129)),
            "data.block_size",
            "at most model.max_seq_len 128, found 129",
        ),
        (
            Config(data=Data(vocab_size=513)),
            "data.vocab_size",
            "at most model.vocab_size 512, found 513",
        ),
        (
            Config(data=Data(text_path="a", dataset="b")),
            "data.dataset",
            "found text_path and dataset",
        ),
        (
            Config(data=Data(text_path="a", sources=(Source(path="b"),))),
            "data.sources",
            "found text_path and sources",
        ),
        (Config(data=Data(synthetic=False)), "data.text_path", "expected a source"),
        (Config(data=Data(sources=(Source(),))), "data.sources[0]", "found neither"),
        (
            Config(data=Data(sources=(Source(path="a", dataset="b"),))),
            "data.sources[0]",
            "found both",
        ),
        (
            Config(data=Data(sources=(Source(path="a", kwargs={"n": 1}),))),
            "data.sources[0].kwargs",
            "data.sources[0].dataset",
        ),
        (Config(data=Data(kwargs={"n": 1})), "data.kwargs", "data.dataset"),
        (
            Config(data=Data(text_path="a", store="b")),
            "data.store",
            "found text_path and store",
        ),
        (
            Config(data=Data(validation_path="v.txt")),
            "data.validation_path",
            "found only 'v.txt'",
        ),
        (
            Config(data=Data(tokenizer_kwargs={"n": 1})),
            "data.tokenizer_kwargs",
            "found 'bytes'",
        ),
        (
            Config(data=Data(prompt_field="q")),
            "data.completion_field",
            "beside data.prompt_field",
        ),
        (
            Config(data=Data(completion_field="a")),
            "data.prompt_field",
            "beside data.completion_field",
        ),
        (
            Config(scheduler=Scheduler(warmup_steps=60, max_steps=50)),
            "scheduler.warmup_steps",
            "at most scheduler.max_steps 50, found 60",
        ),
        (
            Config(optimizer=Optimizer(muon_plus=True)),
            "optimizer.muon_plus",
            "expected optimizer.name muon",
        ),
        (
            Config(optimizer=Optimizer(normuon=True)),
            "optimizer.normuon",
            "expected optimizer.name muon",
        ),
        (
            Config(
                optimizer=Optimizer(average="tail", average_start=9),
                run=Run(max_steps=9),
            ),
            "optimizer.average_start",
            "less than run.max_steps 9, found 9",
        ),
        (
            Config(
                evaluation=Evaluation(every_steps=5), data=Data(validation_fraction=0)
            ),
            "evaluation.every_steps",
            "expected held-out data",
        ),
        (
            Config(distributed=Distributed(retry_initial=2, retry_max=1)),
            "distributed.retry_initial",
            "at most distributed.retry_max 1",
        ),
        (
            Config(
                distributed=Distributed(
                    enabled=True, role="auto", lane="dir:x", mode="single"
                )
            ),
            "distributed.mode",
            "expected dumb_diloco",
        ),
        (
            Config(distributed=Distributed(enabled=True, lane="dir:x")),
            "distributed.role",
            "expected worker, auto or master",
        ),
        (
            Config(distributed=Distributed(enabled=True, role="worker")),
            "distributed.lane",
            "expected dir:PATH or hub:OWNER/NAME",
        ),
        (
            Config(
                distributed=Distributed(enabled=True, role="worker", lane="dir:x"),
                checkpoint=Checkpoint(enabled=False),
            ),
            "checkpoint.enabled",
            "expected true with distributed.enabled",
        ),
        (
            Config(distributed=Distributed(lane="dir:x", repo_id="a/b")),
            "distributed.repo_id",
            "expected distributed.lane 'dir:x'",
        ),
        (
            Config(distributed=Distributed(staleness=65)),
            "distributed.window",
            "expected at least the staleness 65",
        ),
        (
            Config(distributed=Distributed(per_round=2, quorum=3)),
            "distributed.quorum",
            "expected at most per_round 2",
        ),
        (
            Config(distributed=Distributed(aggregate="median", quorum=2)),
            "distributed.quorum",
            "expected at least 3, the deltas that aggregate median needs, found 2",
        ),
        (
            Config(
                distributed=Distributed(
                    aggregate="multi_krum", aggregate_faulty=2, quorum=6
                )
            ),
            "distributed.quorum",
            "at least 7, the deltas that aggregate multi_krum with aggregate_faulty 2 "
            "needs, found 6",
        ),
        (
            Config(distributed=Distributed(node_id="a", collaborators=("a",))),
            "distributed.collaborators",
            "found this node's own node_id 'a'",
        ),
        (
            Config(run=Run(log_every=2), logging=Logging(every_steps=3)),
            "run.log_every",
            "expected logging.every_steps 3",
        ),
        (
            Config(precision=Precision(mode="bf16", dtype="fp16")),
            "precision.dtype",
            "expected precision.mode 'bf16'",
        ),
        (
            Config(ooo_backprop=True, compile=Compile(enabled=True)),
            "ooo_backprop",
            "expected false",
        ),
    ],
)
def test_a_contradiction_is_one_line_with_its_path(
    config: Config, path: str, told: str
) -> None:
    """Each rule names the field, what it must agree with, and what was found."""
    (line,) = problems(config)

    assert line.startswith(f"{path}: ")
    assert told in line


def test_who_never_leads_needs_no_quorum() -> None:
    """And a quorum that is large enough is no contradiction."""
    enough = Distributed(aggregate="trimmed_mean", aggregate_faulty=2, quorum=5)
    worker = Distributed(aggregate="trimmed_mean", role="worker")

    assert [] == problems(Config(distributed=enough))
    assert [] == problems(Config(distributed=worker))


def test_nodes_have_one_outer_step() -> None:
    """That of their rounds: slow weights of one's own would know nothing of them."""
    config = Config(
        distributed=Distributed(enabled=True), optimizer=Optimizer(lookahead_every=5)
    )
    (line,) = [x for x in problems(config) if x.startswith("optimizer.")]

    assert line.startswith("optimizer.lookahead_every: expected null")


def test_a_tail_of_a_run_bounded_in_minutes_may_begin_at_any_step() -> None:
    """Nobody knows how many there will be."""
    run = Run(max_steps=9, max_minutes=1)
    optimizer = Optimizer(average="tail", average_start=10)

    assert [] == problems(Config(run=run, optimizer=optimizer))


def test_several_contradictions_are_told_together() -> None:
    """The user can mend all of them at once."""
    config = Config(
        model=Model(n_head=3), data=Data(micro_batch_size=2, target_batch_size=3)
    )

    assert 2 == len(problems(config))


@pytest.mark.parametrize("warmup", [100, 50])
def test_a_short_horizon_keeps_the_default_warm_up(warmup: int) -> None:
    """A run cut short for a try, or one of 2.0, is not refused for its warm-up."""
    scheduler = Scheduler(warmup_steps=warmup, max_steps=50)

    assert [] == problems(Config(scheduler=scheduler))


def test_a_factory_decides_about_its_own_limits() -> None:
    """max_seq_len and vocab_size describe the reference model, not any factory."""
    model = Model(name="tiny:build", kwargs={"n_layer": 9})
    config = Config(model=model, data=Data(block_size=4096, vocab_size=100_000))

    assert [] == problems(config)


@pytest.mark.parametrize(
    "data",
    [
        Data(store="s", synthetic=False),
        Data(dataset="owner/name", kwargs={"split": "train"}),
        Data(sources=(Source(dataset="owner/name", kwargs={"split": "train"}),)),
        Data(store="s", validation_path="v.txt"),
    ],
)
def test_every_kind_of_source_is_one(data: Data) -> None:
    """A store is a source; a dataset of the library takes arguments too."""
    assert [] == problems(Config(data=data))


def test_values_equal_to_defaults_pass_with_a_factory() -> None:
    """Only a value that would be ignored is refused."""
    config = Config(model=attrs.evolve(Model(), name="tiny:build", n_layer=4))

    assert [] == problems(config)
