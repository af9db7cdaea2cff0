"""From the name of a lane to the config of a node that takes part in the run there.

Everything is read at one revision and believed only as far as it is checked: the recipe
must be the one that the manifest names, and of the settings only those are taken that
`published.SETTINGS` lists. Code and datasets that the recipe names are a way for its
writer to run something here, so the user has to agree to them.
"""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import attrs

import speedtronic
from speedtronic.errors import ConfigError, Corrupt, Denied
from speedtronic.pure.config import Config, Data
from speedtronic.pure.config.checks import is_factory
from speedtronic.pure.config.fields import not_shared
from speedtronic.pure.round import plain
from speedtronic.pure.round.manifest import Manifest
from speedtronic.pure.round.run_file import RunFile, StoreAt
from speedtronic.shell.atomic import explained, write_bytes
from speedtronic.shell.config import apply_override, config_from_dict
from speedtronic.shell.config_names import shown
from speedtronic.shell.console import size
from speedtronic.shell.data.sharing import with_stores
from speedtronic.shell.data.tokenizers import CONTENT
from speedtronic.shell.data.travel import is_pushed
from speedtronic.shell.device import choose_arithmetic, choose_device
from speedtronic.shell.distributed.identity import NOT_AGREED, node_name
from speedtronic.shell.distributed.published import SETTINGS, read_run_file
from speedtronic.shell.distributed.recording import lane_of_a_run, open_recording
from speedtronic.shell.factory import resolve
from speedtronic.shell.hub_files import TOKENIZER
from speedtronic.shell.keys import Key, key_file, load_or_create
from speedtronic.shell.lanes.base import Lane
from speedtronic.shell.modes import make_folder
from speedtronic.shell.paths import run_folder, token_folder

MAX_TOKENIZER = 1 << 27  # bytes; the largest vocabularies take a fifth of it


@attrs.frozen(kw_only=True)
class Found:
    """A run on a lane, at one revision."""

    place: str  # what a config calls the lane
    lane: Lane
    revision: str
    manifest: Manifest
    run: RunFile


@attrs.frozen(kw_only=True)
class Joining:
    """How this machine takes part."""

    config: Config
    lines: tuple[str, ...]  # what is going to happen, for a person


def find_run(place: str, owner: str | None = None) -> Found:
    """The run on a lane.

    Args:
        place: what a config calls the lane.
        owner: public key of the run's owner, if the user was told it.

    Raises:
        ConfigError: no lane, no run on it, or one of another version.
        Corrupt: what is there is not a run, or its recipe not that of the run.
        LaneError: the lane does not answer.
    """
    lane = lane_of_a_run(place)
    try:
        recording = open_recording(lane, owner)
    except ConfigError as error:
        raise ConfigError(f"{place}: {error}") from None
    except Denied as error:  # no such repository, or not for this token
        raise ConfigError(str(error)) from None
    revision, manifest = recording.revision, recording.head
    run = read_run_file(lane, revision)
    if run is None:
        raise ConfigError(
            f"{place}: the run has no run.json, so nobody can join it by its lane "
            "alone; take part with `speedtronic train` and the run's config"
        )
    if run.lineage != manifest.lineage:
        raise Corrupt(
            f"{place}: run.json has the lineage {run.lineage[:16]}, the manifest says "
            f"{manifest.lineage[:16]}; one of them was replaced"
        )
    ours, theirs = speedtronic.__version__, run.version
    if _major(ours) != _major(theirs):
        raise ConfigError(
            f"{place}: the run was begun by speedtronic {theirs}, this is {ours}; "
            f"install version {_major(theirs)}"
        )
    return Found(place=place, lane=lane, revision=revision, manifest=manifest, run=run)


def join_run(
    found: Found, overrides: Sequence[str], *, role: str, trust: bool
) -> Joining:
    """The config of a node of that run, with everything at hand that it needs.

    Token stores are fetched later, when the data is opened.

    Args:
        found: the run.
        overrides: ``PATH=VALUE`` each, over what the run says.
        role: of the node, auto or worker.
        trust: use code and datasets that the run names.

    Raises:
        ConfigError: one line per mistake.
        DeviceError: the device is not here.
        Corrupt: the recipe says what is each node's own to say.
        LaneError: the lane does not answer.
        StorageError: a file cannot be written.
    """
    raw = _plain(found, role)
    told: list[str] = []
    for assignment in overrides:
        try:
            raw = apply_override(raw, assignment)
        except ConfigError as error:
            told += error.problems
    raw, stores = with_stores(raw, found.place, found.run.stores)
    told += _sourceless(raw)
    if told:
        raise ConfigError(told)
    config = config_from_dict(raw)
    if not any(a.startswith(("run.name=", "name=")) for a in overrides):
        own = attrs.evolve(config.run, name=node_name(config))  # not that of another
        config = attrs.evolve(config, run=own)
    told = [*_foreign(config, trust), *_absent(found, stores)]
    if told:
        raise ConfigError(told)
    config = _with_tokenizer(found, config)
    device = choose_device(config.run.device)
    arithmetic = choose_arithmetic(config.precision, device)
    key = None
    if found.manifest.roster is not None:
        file = key_file(node_name(config), config.distributed.key)
        key = load_or_create(file).key
    lines = _lines(found, config, stores, f"{device}, {arithmetic.name}", key)
    # What a run says of itself is told to a terminal, which obeys some characters.
    return Joining(config=config, lines=tuple(shown(line) for line in lines))


def _plain(found: Found, role: str) -> dict[str, Any]:
    """What the run says, as plain values in full form."""
    run, roster = found.run, found.manifest.roster
    agreed = run.recipe["config"]
    own = [*not_shared(agreed), *(path for path in NOT_AGREED if path in agreed)]
    if own:
        raise Corrupt(
            f"{found.place}: the recipe in run.json sets {plain.shorten(own)}, which "
            "each node decides for itself"
        )
    values = dict(agreed)
    values |= {p: v for p, v in run.settings.items() if p in SETTINGS and v is not None}
    values |= {
        "distributed.enabled": True,
        "distributed.role": role,
        "distributed.lane": found.place,
        "distributed.owner": roster.owner if roster else None,
    }
    if run.recipe.get("frozen") is not None and run.init_from is not None:
        # The others are fetched with every round; frozen parameters never travel.
        values["model.init_from"] = run.init_from
    raw: dict[str, Any] = {}
    for path, value in values.items():
        section, _, name = path.rpartition(".")
        (raw.setdefault(section, {}) if section else raw)[name] = value
    return raw


def _sourceless(raw: Mapping[str, Any]) -> Iterator[str]:
    """Parts of a mixture that are neither on the lane nor named otherwise."""
    for number, part in enumerate(raw["data"]["sources"]):
        if not part.get("path") and not part.get("dataset"):
            yield (
                f"data.sources[{number}]: it does not travel with the run; name it "
                "with --set data.sources=[...], all of them in the run's order"
            )


def _foreign(config: Config, trust: bool) -> Iterator[str]:
    """What would run here by the word of whoever wrote the recipe."""
    model, data = config.model, config.data
    code = {"model.name": model.name, "data.tokenizer": data.tokenizer}
    named = {path: name for path, name in code.items() if _is_code(name)}
    datasets = {
        f"data.sources[{i}].dataset": s.dataset for i, s in enumerate(data.sources)
    }
    datasets["data.dataset"] = data.dataset
    named |= {path: name for path, name in datasets.items() if name is not None}
    for path, name in named.items():
        if not trust:
            yield (
                f"{path}: the run names {name!r}, which this machine would load and "
                "run; look at it, and add --trust to agree"
            )
        elif is_factory(name):
            try:
                resolve(name, path)
            except ConfigError as error:
                yield f"{error}; it does not travel with the run"


def _is_code(name: str) -> bool:
    return is_factory(name) and not name.startswith(CONTENT)


def _absent(found: Found, stores: Sequence[StoreAt]) -> Iterator[str]:
    """Token stores that are not on the lane."""
    for store in stores:
        if not is_pushed(found.lane, store.fingerprint, found.revision):
            yield (
                f"{store.field}: {found.place} does not hold the token store "
                f"{store.fingerprint[:16]}; where the data is, run `speedtronic prepare"
                f" --config F --push {found.place}`"
            )


def _with_tokenizer(found: Found, config: Config) -> Config:
    """The config with the tokenizer's file in place of its hash."""
    told = config.data.tokenizer
    if not told.startswith(CONTENT):
        return config
    expected = told.removeprefix(CONTENT)
    measured = found.lane.names(TOKENIZER, found.revision).get(TOKENIZER, 0)
    if measured > MAX_TOKENIZER:
        raise Corrupt(f"{found.place}: {TOKENIZER} has {measured} bytes")
    content = found.lane.read(TOKENIZER, found.revision)
    if hashlib.sha256(content).hexdigest() != expected:
        raise Corrupt(f"{found.place}: {TOKENIZER} is not the one that the run names")
    path = token_folder(config) / f"tokenizer-{expected[:16]}.json"
    with explained(path):
        make_folder(path.parent)
    write_bytes(path, content)
    return attrs.evolve(config, data=attrs.evolve(config.data, tokenizer=str(path)))


def _lines(
    found: Found,
    config: Config,
    stores: Sequence[StoreAt],
    device: str,
    key: Key | None,
) -> Iterator[str]:
    manifest, run, data = found.manifest, found.run, config.data
    yield (
        f"joins run {manifest.run} on {found.place}, at round {manifest.round}, begun "
        f"by speedtronic {run.version}"
    )
    yield f"model {config.model.name}, {size(manifest.weights.bytes)}"
    if stores:
        tokens, total = sum(s.tokens for s in stores), sum(s.bytes for s in stores)
        yield f"data: {tokens:,} tokens from the lane, {size(total)}"
    else:
        yield f"data: {_own_source(data)}"
    node = node_name(config)
    yield (
        f"node {node}, {config.distributed.role}, on {device}: {data.micro_batch_size} "
        f"rows at once, {data.target_batch_size} a step, a delta every "
        f"{config.distributed.inner_steps} steps, {config.run.max_steps} steps in all"
    )
    theirs = run.settings.get("run.max_steps")
    falls = config.scheduler.name != "constant" and config.scheduler.max_steps is None
    if falls and config.run.max_steps != theirs:
        yield f"its learning rate falls over these steps, not over the run's {theirs}"
    yield from _admission(found, node_name(config), key)
    yield f"in {run_folder(config)}; the same command goes on after an end"


def _admission(found: Found, node: str, key: Key | None) -> Iterator[str]:
    """Whose word counts, and what the owner of a signed run has to do."""
    roster = found.manifest.roster
    if roster is None or key is None:
        yield "the run is open: whoever can write to its lane changes the model"
        return
    yield f"the run is signed, its owner's key is {roster.owner}"
    if not roster.lets_in(node, key.public):
        yield (
            f"its owner lets this node in with: speedtronic roster add {found.place} "
            f"{node} {key.public} (with --role master it may also lead)"
        )


def _own_source(data: Data) -> str:
    named = [data.text_path, data.dataset, data.store]
    named += [part.path or part.dataset for part in data.sources]
    return ", ".join(filter(None, named)) or "made up"


def _major(version: str) -> str:
    return version.partition(".")[0]
