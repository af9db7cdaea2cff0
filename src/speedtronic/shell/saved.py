"""Find a trained model on disk, without taking or changing its run."""

from pathlib import Path

import attrs

from speedtronic.errors import RunError
from speedtronic.pure.config import Config
from speedtronic.pure.strict_json import from_json
from speedtronic.shell import checkpoint_folder, checkpoint_manifest, rundir
from speedtronic.shell.config import config_from_dict
from speedtronic.shell.regular import read_limited


@attrs.frozen(kw_only=True)
class Saved:
    """One checkpoint; `speedtronic.shell.checkpoint.load_model` reads its model."""

    path: Path  # the checkpoint's folder
    config: Config  # of its run
    notes: tuple[str, ...]  # what was wrong with newer ones


def find_saved(path: Path) -> Saved:
    """The newest whole checkpoint of a run, or the one that is named.

    Args:
        path: a run folder, or the folder of one of its checkpoints.

    Raises:
        RunError: there is no run, or no whole checkpoint in it.
    """
    run = next((p for p in (path, *path.absolute().parents) if is_run(p)), None)
    if run is None or not path.is_dir():
        raise RunError(f"{path}: expected a run folder or a checkpoint in one")
    if run != path and not (path / checkpoint_manifest.FILE).is_file():
        raise RunError(f"{path}: expected a checkpoint or its run {run}")
    config = _config(run / rundir.RECORD)
    if run != path:
        return Saved(path=path, config=config, notes=())
    found = checkpoint_folder.find(run / config.checkpoint.directory)
    if found.path is None:
        raise RunError([f"{path} holds no whole checkpoint", *found.skipped])
    return Saved(path=found.path, config=config, notes=found.skipped)


def is_run(folder: Path) -> bool:
    """Whether a folder is a run's."""
    return (folder / rundir.RECORD).is_file()


def _config(record: Path) -> Config:
    try:
        told = from_json(read_limited(record, rundir.MAX_RECORD))
        return config_from_dict(told["config"])
    except (OSError, ValueError, KeyError) as error:
        raise RunError(f"{record} is not a run's record: {error!r}") from error
