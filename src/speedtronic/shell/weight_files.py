"""Where weights that exist already are: ``model.init_from`` to files.

- a safetensors file;
- a folder: of the Hub's layout, sharded or not, a checkpoint or a run of ours, or a
  clone of a Speedtronic 2.0 repository;
- the lane of a run, ``dir:PATH`` or ``hub:OWNER/NAME``: its newest global model,
  checked against the manifest;
- a repository on the Hub, ``OWNER/NAME@REVISION``, or ``hub:OWNER/NAME`` as it is now,
  those of Speedtronic 2.0 included.

Pickled weights are never opened.
"""

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import attrs
import huggingface_hub
from huggingface_hub.errors import (
    GatedRepoError,
    RepositoryNotFoundError,
    RevisionNotFoundError,
)

from speedtronic.errors import ConfigError, LaneError, ModelError
from speedtronic.pure.blobname import name_problem
from speedtronic.pure.round import names
from speedtronic.pure.round.plain import shorten
from speedtronic.pure.strict_json import from_json
from speedtronic.shell.distributed.fetched import fetch_checked
from speedtronic.shell.distributed.look import Looker
from speedtronic.shell.lanes import parse_lane
from speedtronic.shell.lanes.base import Lane
from speedtronic.shell.modes import make_folder
from speedtronic.shell.regular import read_limited
from speedtronic.shell.saved import find_saved, is_run

_REPOSITORY = re.compile(r"([\w.-]+/[\w.-]+)@([\w./-]+)")
_LANE = re.compile(r"(?:dir|hub):.+", re.DOTALL)
_PICKLED = {".bin", ".pt", ".pth", ".ckpt", ".pkl", ".pickle"}
MAX_CONFIG = 1 << 24  # bytes of config.json and of an index
_FILE, _INDEX = "model.safetensors", "model.safetensors.index.json"
_GLOBAL_OF_2_0 = "global/latest.safetensors"
_COUNT_OF_2_0 = "global/step_count.json"
_PATTERNS = [
    _FILE,
    _INDEX,
    "model-*.safetensors",
    "config.json",
    _GLOBAL_OF_2_0,
    _COUNT_OF_2_0,
]


@attrs.frozen(kw_only=True)
class Found:
    """Weights, not opened yet."""

    files: list[Path]
    config: Mapping[str, Any]  # of config.json, empty if there is none
    told: str  # what they are, for a person


def find_weights(init_from: str, work: Path) -> Found:
    """The files that ``model.init_from`` means.

    Args:
        init_from: one of the forms above; a path that is there is always meant first.
        work: an empty folder for what has to be fetched; the files may lie in it.

    Raises:
        ConfigError, RunError: there are no weights to be found there.
        ModelError: what describes them is damaged, or a part is missing.
    """
    path = Path(init_from).expanduser()
    if path.is_dir():
        return _in_folder(path, init_from)
    if path.is_file():
        _refuse_pickle([path], init_from)
        return _found([path], init_from)
    if _LANE.fullmatch(init_from):
        return _on_lane(init_from, work)
    hub = _REPOSITORY.fullmatch(init_from)
    if hub is None:
        raise ConfigError(
            "model.init_from: expected a file, a folder, a lane or"
            f" OWNER/NAME@REVISION, found {init_from!r}, which is not here"
        )
    return _in_folder(_download(hub[1], hub[2], init_from), init_from)


def _found(files: list[Path], told: str) -> Found:
    beside = files[0].with_name("config.json")
    config = _json(beside) if beside.is_file() else {}
    return Found(files=files, config=config, told=told)


def _in_folder(folder: Path, init_from: str) -> Found:
    if (folder / _INDEX).is_file() and not (folder / _FILE).is_file():
        return _sharded(folder / _INDEX, init_from)
    if (folder / _FILE).is_file():
        return _found([folder / _FILE], init_from)
    if (folder / _GLOBAL_OF_2_0).is_file():
        return _of_2_0(folder, init_from)
    if is_run(folder):
        path = find_saved(folder).path / _FILE
        return _found([path], str(path.parent))
    _refuse_pickle(sorted(folder.glob("*")), init_from)
    raise ConfigError(
        f"model.init_from: expected {_FILE}, {_INDEX} or {_GLOBAL_OF_2_0} in"
        f" {init_from}, found none of them"
    )


def _of_2_0(folder: Path, init_from: str) -> Found:
    """The global model of Speedtronic 2.0, which published no outer momentum."""
    count = folder / _COUNT_OF_2_0
    told = f"{init_from}, a run of Speedtronic 2.0"
    if count.is_file():
        told += f" at outer step {shorten(_json(count).get('outer_step'))}"
    return _found([folder / _GLOBAL_OF_2_0], told)


def _sharded(index: Path, init_from: str) -> Found:
    told = _json(index).get("weight_map")
    names = sorted(set(map(str, told.values()))) if isinstance(told, dict) else []
    if not names or any("/" in name or name_problem(name) for name in names):
        raise ModelError(f"model.init_from: {index} names no files beside it")
    missing = [name for name in names if not (index.parent / name).is_file()]
    if missing:
        raise ModelError(
            [f"model.init_from: {init_from}: {name} is missing" for name in missing]
        )
    return _found([index.parent / name for name in names], init_from)


def _on_lane(init_from: str, work: Path) -> Found:
    """The newest model on a lane, or what a repository without one holds."""
    try:
        lane = parse_lane(init_from)
        view = Looker(lane).look()
        if view.revision is None:
            return _beside_no_lane(init_from)
        if view.manifest is not None:
            fetch_checked(lane, view.manifest.weights, view.revision, work / _FILE)
            _fetch(lane, view.revision, [names.CONFIG], work)
            return _found([work / _FILE], f"{init_from}, round {view.manifest.round}")
        _fetch(lane, view.revision, _PATTERNS, work)
    except LaneError as error:
        raise ConfigError(f"model.init_from: {init_from}: {error}") from error
    return _in_folder(work, init_from)


def _beside_no_lane(init_from: str) -> Found:
    kind, _, repository = init_from.partition(":")
    if kind != "hub":
        raise ConfigError(f"model.init_from: {init_from} is empty")
    return _in_folder(_download(repository, "main", init_from), init_from)


def _fetch(lane: Lane, revision: str, wanted: Iterable[str], folder: Path) -> None:
    there = lane.names("", revision)
    for name in wanted:
        if name in there:
            path = folder / name
            make_folder(path.parent)
            lane.fetch(name, revision, path)


def _refuse_pickle(paths: Iterable[Path], init_from: str) -> None:
    pickled = [path.name for path in paths if path.suffix in _PICKLED]
    if pickled:
        raise ConfigError(
            f"model.init_from: {init_from}: {pickled[0]} is pickled, and opening it"
            " could run any program; where you trust it, load it with torch and write"
            " it with safetensors.torch.save_file"
        )


def _download(repository: str, revision: str, init_from: str) -> Path:
    try:
        folder = huggingface_hub.snapshot_download(
            repository, revision=revision, allow_patterns=_PATTERNS
        )
    except GatedRepoError:
        reason = "its owner must let you in first: ask for access on its page"
    except RepositoryNotFoundError:
        reason = "there is no such repository, or you may not see it: hf auth login"
    except RevisionNotFoundError:
        reason = f"it has no revision {revision!r}"
    except Exception as error:  # the client's transports raise what they like
        lines = str(error).strip().splitlines() or [type(error).__name__]
        reason = f"it is not in the cache and the Hub did not answer: {lines[0]}"
    else:
        return Path(folder)
    raise ConfigError(f"model.init_from: {init_from}: {reason}")


def _json(path: Path) -> Mapping[str, Any]:
    try:
        return from_json(read_limited(path, MAX_CONFIG))
    except (OSError, ValueError) as error:
        raise ModelError(f"model.init_from: {path} is not JSON: {error}") from error
