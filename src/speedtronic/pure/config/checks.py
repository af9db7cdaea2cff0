"""Rules between the fields of a config; each field's own rule stands at the field.

A rule that needs the world (does the file exist, does the device work) is not here
but in ``speedtronic.shell.check``.
"""

from collections.abc import Iterator

from speedtronic.pure.config import Config, Data, Distributed, Model, Source
from speedtronic.pure.config.fields import FIELDS, value_at
from speedtronic.pure.config.model import REFERENCE_MODELS
from speedtronic.pure.round.limits import Limits
from speedtronic.pure.rules import NUMBERS, least, rule_named

MOST_ROWS = 1_000_000  # of a step whose micro-batch is looked for
ONLY_REFERENCE = (
    "n_layer",
    "n_head",
    "n_kv_head",
    "d_model",
    "d_ff",
    "dropout",
    "tie_weights",
    "rope_base",
)


def is_factory(name: str | None) -> bool:
    """Whether a name is a ``package.module:factory``.

    >>> is_factory("my_models.tiny:build"), is_factory("gpt"), is_factory(None)
    (True, False, False)
    """
    return name is not None and ":" in name


def problems(config: Config) -> list[str]:
    """What the fields of a config contradict each other in, one line each.

    >>> from speedtronic.pure.config import Config, Data
    >>> problems(Config())
    []
    >>> problems(Config(data=Data(micro_batch_size=3, target_batch_size=4)))
    ['data.target_batch_size: expected a multiple of data.micro_batch_size 3, found 4']
    """
    data: Data = value_at(config, "data")  # `.data` is what the purity rule forbids
    return [
        *_run(config),
        *_model(config),
        *_data(data, config.model),
        *_sources(data),
        *_steps(config, data),
        *_optimizer(config),
        *_distributed(config),
    ]


def _run(c: Config) -> Iterator[str]:
    if c.run.log_every not in (None, c.logging.every_steps):
        yield (
            f"run.log_every: expected logging.every_steps {c.logging.every_steps}, "
            f"which it is short for, found {c.run.log_every}"
        )
    if c.precision.dtype not in (None, c.precision.mode):
        yield (
            f"precision.dtype: expected precision.mode {c.precision.mode!r}, "
            f"whose older name it is, found {c.precision.dtype!r}"
        )
    if c.ooo_backprop and c.compile.enabled:
        yield "ooo_backprop: expected false with compile.enabled true, found true"


def _model(c: Config) -> Iterator[str]:
    m = c.model
    if is_factory(m.name):
        for name in ONLY_REFERENCE:
            path = f"model.{name}"
            if value_at(c, path) != FIELDS[path].default:
                yield (
                    f"{path}: shapes the reference transformer only, but model.name "
                    f"is {m.name!r}; pass it as model.kwargs.{name}"
                )
    if m.name not in REFERENCE_MODELS:
        return
    if m.kwargs:
        yield (
            f"model.kwargs: expected none with model.name {m.name!r}, whose fields "
            f"stand in the model section, found {sorted(m.kwargs)}"
        )
    if m.d_model % m.n_head:
        yield (
            f"model.n_head: expected a divisor of model.d_model {m.d_model}, "
            f"found {m.n_head}"
        )
    elif m.d_model // m.n_head % 2:
        yield (
            f"model.n_head: expected an even width per head (rotary embedding), found "
            f"{m.d_model // m.n_head} (d_model {m.d_model} / n_head {m.n_head})"
        )
    if m.n_kv_head is not None and m.n_head % m.n_kv_head:
        yield (
            f"model.n_kv_head: expected a divisor of model.n_head {m.n_head}, "
            f"found {m.n_kv_head}"
        )


def _data(d: Data, m: Model) -> Iterator[str]:
    auto = d.micro_batch_size == "auto"
    if auto and d.target_batch_size > MOST_ROWS:
        yield (
            f"data.target_batch_size: expected at most {MOST_ROWS} with "
            f"data.micro_batch_size auto, found {d.target_batch_size}"
        )
    if not auto and d.target_batch_size % d.micro_rows:
        yield (
            f"data.target_batch_size: expected a multiple of data.micro_batch_size "
            f"{d.micro_batch_size}, found {d.target_batch_size}"
        )
    if not is_factory(m.name):
        if d.block_size is not None and d.block_size > m.max_seq_len:
            yield (
                f"data.block_size: expected at most model.max_seq_len "
                f"{m.max_seq_len}, found {d.block_size}"
            )
        if d.vocab_size is not None and d.vocab_size > m.vocab_size:
            yield (
                f"data.vocab_size: expected at most model.vocab_size "
                f"{m.vocab_size}, found {d.vocab_size}"
            )
    if (d.prompt_field is None) != (d.completion_field is None):
        given, other = "prompt_field", "completion_field"
        if d.prompt_field is None:
            given, other = other, given
        yield f"data.{other}: expected a field name beside data.{given}, found null"
    if d.tokenizer_kwargs and not is_factory(d.tokenizer):
        yield (
            f"data.tokenizer_kwargs: expected data.tokenizer to be a "
            f"package.module:factory, found {d.tokenizer!r}"
        )


def _sources(d: Data) -> Iterator[str]:
    given = [
        name
        for name, value in (
            ("text_path", d.text_path),
            ("dataset", d.dataset),
            ("store", d.store),
            ("sources", d.sources),
        )
        if value
    ]
    if len(given) > 1:
        yield (
            f"data.{given[1]}: expected one of text_path, dataset, store and sources, "
            f"found {' and '.join(given)}; list several under data.sources"
        )
    if not given and not d.synthetic:
        yield (
            "data.text_path: expected a source (text_path, dataset, store or sources) "
            "when data.synthetic is false, found none"
        )
    if not given and d.validation_path is not None:
        yield (
            "data.validation_path: expected a source to train on beside it (text_path, "
            f"dataset, store or sources), found only {d.validation_path!r}"
        )
    if d.kwargs and d.dataset is None:
        yield _kwargs("data")
    for i, source in enumerate(d.sources):
        yield from _source(f"data.sources[{i}]", source)


def _source(path: str, source: Source) -> Iterator[str]:
    if (source.path is None) == (source.dataset is None):
        found = "neither" if source.path is None else "both"
        yield f"{path}: expected either path or dataset, found {found}"
    if source.kwargs and source.dataset is None:
        yield _kwargs(path)


def _kwargs(path: str) -> str:
    return f"{path}.kwargs: expected {path}.dataset, which they are for, found null"


def _steps(c: Config, d: Data) -> Iterator[str]:
    s = c.scheduler
    if (
        s.max_steps is not None
        and s.warmup_steps > s.max_steps
        and s.warmup_steps != FIELDS["scheduler.warmup_steps"].default
    ):
        yield (
            f"scheduler.warmup_steps: expected at most scheduler.max_steps "
            f"{s.max_steps}, found {s.warmup_steps}"
        )
    held_out = d.validation_fraction > 0 or d.validation_path is not None
    if c.evaluation.every_steps is not None and not held_out:
        yield (
            "evaluation.every_steps: expected held-out data (data.validation_path or "
            "a data.validation_fraction above 0), found none"
        )


def _optimizer(c: Config) -> Iterator[str]:
    o = c.optimizer
    for name in ("muon_plus", "normuon"):
        if value_at(c, f"optimizer.{name}") and o.name != "muon":
            yield f"optimizer.{name}: expected optimizer.name muon, found {o.name!r}"
    if o.lookahead_every is not None and c.distributed.enabled:
        yield (
            "optimizer.lookahead_every: expected null with distributed.enabled true, "
            f"whose rounds are the outer steps, found {o.lookahead_every}"
        )
    bounded_in_steps = c.run.max_minutes is None
    if o.average == "tail" and bounded_in_steps and o.average_start >= c.run.max_steps:
        yield (
            f"optimizer.average_start: expected less than run.max_steps "
            f"{c.run.max_steps}, found {o.average_start}"
        )


def _distributed(c: Config) -> Iterator[str]:
    d = c.distributed
    if d.retry_initial > d.retry_max:
        yield (
            f"distributed.retry_initial: expected at most distributed.retry_max "
            f"{d.retry_max}, found {d.retry_initial}"
        )
    if d.node_id is not None and d.node_id in d.collaborators:
        yield (
            f"distributed.collaborators: expected the other nodes only, found this "
            f"node's own node_id {d.node_id!r}"
        )
    told = _limits(d).problems()
    if d.quorum > d.per_round:
        told.append(
            f"quorum: expected at most per_round {d.per_round}, found {d.quorum}"
        )
    yield from (f"distributed.{line}" for line in told)
    yield from _enough(d)
    if d.lane is not None and d.repo_id is not None and d.lane != f"hub:{d.repo_id}":
        yield (
            f"distributed.repo_id: expected distributed.lane {d.lane!r}, which it is "
            f"short for, found {d.repo_id!r}"
        )
    if d.enabled:
        yield from _enabled(c)


def _enough(d: Distributed) -> Iterator[str]:
    """Whether the rounds of whoever may lead have enough deltas for their rule."""
    rule = rule_named(d.aggregate)
    needed = least(rule, d.aggregate_faulty) if rule else 1
    faulty = f" with aggregate_faulty {d.aggregate_faulty}"
    told = faulty if rule and "faulty" in NUMBERS[rule] else ""
    if d.quorum < needed and d.role != "worker":
        yield (
            f"distributed.quorum: expected at least {needed}, the deltas that "
            f"aggregate {d.aggregate}{told} needs, found {d.quorum}"
        )


def _limits(d: Distributed) -> Limits:
    return Limits(staleness=d.staleness, window=d.window, per_round=d.per_round)


def _enabled(c: Config) -> Iterator[str]:
    d = c.distributed
    if d.mode == "single":
        yield "distributed.mode: expected dumb_diloco when enabled, found 'single'"
    if d.role == "single":
        yield (
            "distributed.role: expected worker, auto or master when enabled, found "
            "'single'"
        )
    if d.lane is None and d.repo_id is None:
        yield (
            "distributed.lane: expected dir:PATH or hub:OWNER/NAME when enabled, found "
            "null"
        )
    if not c.checkpoint.enabled:
        yield (
            "checkpoint.enabled: expected true with distributed.enabled, found false; "
            "what was sent must survive a crash of this node"
        )
