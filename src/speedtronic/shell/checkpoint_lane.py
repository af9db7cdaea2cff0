"""The newest checkpoints of a run on a lane, so that a lost disk loses no run.

::

    checkpoints/NAME/run.json          the run's record, as it is in its folder
    checkpoints/NAME/step-00001234/    the newest checkpoint, file for file
    checkpoints/NAME/step-00001200/    and the one before it

``NAME`` is the run's name; nodes that train together have ``NAME/NODE``. A checkpoint
comes in one commit that drops what it replaces, decided on the head that was looked
at. What is read is checked against the checkpoint's own manifest, so a lane that
garbles a file costs one checkpoint and never gives wrong bits.

Absent on purpose: threads and waiting, which are those of
`speedtronic.shell.checkpoint_delivery`.
"""

import logging
import re
from collections.abc import Callable, Mapping
from pathlib import Path

import attrs

from speedtronic.errors import (
    Conflict,
    Corrupt,
    Damaged,
    Denied,
    Missing,
    RunError,
    Unavailable,
)
from speedtronic.pure.blobname import name_problem
from speedtronic.pure.strict_json import from_json
from speedtronic.shell import checkpoint_manifest
from speedtronic.shell.atomic import make_writable, new_folder, write_bytes
from speedtronic.shell.checkpoint import verify
from speedtronic.shell.checkpoint_folder import find
from speedtronic.shell.checkpoint_manifest import FOLDER
from speedtronic.shell.lanes.base import Blob, Lane
from speedtronic.shell.rundir import MAX_RECORD

logger = logging.getLogger(__name__)
RECORD = "run.json"
_RACES = 8  # other commits that may come in between
_FILE = re.compile(rf"({FOLDER.pattern})/([^/]+)")


@attrs.frozen(kw_only=True)
class Looked:
    """What one revision of a lane holds of a run."""

    revision: str | None
    run_id: str | None = None  # None: no run
    steps: Mapping[int, tuple[str, ...]] = attrs.field(factory=dict)  # names, by step


class LaneCheckpoints:
    """The checkpoints of one run on one lane.

    Args:
        where: the lane as the user names it, for messages.
        name: of the run, and of its node if there are several.
        open_lane: called when the lane is needed, until it succeeds.

    Raises:
        RunError: the name cannot be one on a lane.
    """

    def __init__(self, where: str, name: str, open_lane: Callable[[], Lane]) -> None:
        self.where = where
        self._root = f"checkpoints/{name}/"
        self._record = f"{self._root}{RECORD}"
        self._open = open_lane
        self._opened: Lane | None = None
        if problem := name_problem(self._record):
            raise RunError(f"run.name: {problem}, with its checkpoints on {where}")

    @property
    def lane(self) -> Lane:
        """The lane, opened now if it was not.

        Raises:
            LaneError, ConfigError: it cannot be.
        """
        if self._opened is None:
            self._opened = self._open()
        return self._opened

    def look(self) -> Looked:
        """What the lane holds of the run now.

        Raises:
            Missing: the head vanished meanwhile: look again.
            LaneError: the lane does not answer, or holds something else.
        """
        head = self.lane.head()
        if head is None:
            return Looked(revision=None)
        names = self.lane.names(self._root, head)
        steps: dict[int, list[str]] = {}
        for name in names:
            if told := _FILE.fullmatch(name.removeprefix(self._root)):
                steps.setdefault(int(told[2]), []).append(name)
        run_id = None
        if self._record in names:
            run_id = _run_id(self._read_record(names[self._record], head))
            if run_id is None:
                raise Corrupt(f"{self.where}: {self._record} is damaged")
        newest_first = sorted(steps.items(), reverse=True)
        return Looked(
            revision=head,
            run_id=run_id,
            steps={step: tuple(files) for step, files in newest_first},
        )

    def store(self, record: Path, checkpoint: Path) -> bool:
        """Put a checkpoint on the lane, and drop all but the one before it.

        Args:
            record: the run's ``run.json``.
            checkpoint: a whole one, that nobody changes meanwhile.

        Returns:
            False if the lane had it already.

        Raises:
            Denied: not permitted, or the lane holds another run of this name.
            LaneError: it is not known to be there.
            CheckpointError, StorageError: a file cannot be read.
        """
        manifest = checkpoint_manifest.read(checkpoint)
        files = (*manifest.files, checkpoint_manifest.FILE)
        folder = f"{self._root}{checkpoint_manifest.folder_name(manifest.step)}/"
        adds: dict[str, Blob] = {f"{folder}{name}": checkpoint / name for name in files}
        last = f"{folder}{checkpoint_manifest.FILE}"
        content = (checkpoint / checkpoint_manifest.FILE).read_bytes()
        adds[self._record] = record.read_bytes()
        message = f"checkpoint of {self._root.split('/', 1)[1]}step {manifest.step}"
        for _ in range(_RACES):
            try:
                found = self.look()
                if found.run_id not in (None, manifest.run_id):
                    raise Denied(self._foreign(found.run_id))
                there = found.steps.get(manifest.step, ())
                if found.revision is not None and last in there:
                    # Also after an answer that was lost.
                    if self.lane.read(last, found.revision) == content:
                        return False
                before = [s for s in found.steps if s < manifest.step]
                kept = {manifest.step, *before[:1]}
                gone = [
                    n for s, old in found.steps.items() if s not in kept for n in old
                ]
                gone += [name for name in there if name not in adds]
                self.lane.commit(adds, gone, parent=found.revision, message=message)
                return True
            except (Conflict, Missing):
                continue
        raise Unavailable(f"{self.where}: others committed {_RACES} times in between")

    def restore(self, run_folder: Path, checkpoints: Path, *, required: bool) -> None:
        """Bring what the lane has and the run's folder lacks; call it with its lock.

        Args:
            run_folder: of the run, perhaps empty.
            checkpoints: the folder of its checkpoints.
            required: whether it is a mistake that the lane has nothing.

        Raises:
            RunError: the folder holds another run, or nothing can be gone on from.
            LaneError: the lane does not answer.
        """
        for _ in range(_RACES):
            try:
                return self._restore(run_folder, checkpoints, required)
            except Missing:  # the history was squashed meanwhile
                continue
        raise Unavailable(f"{self.where}: its head moved {_RACES} times in a row")

    def refuse_another(self) -> None:
        """Refuse to begin a run where there is one.

        Raises:
            RunError: it is there.
            LaneError: the lane does not answer.
        """
        found = self.look()
        if found.run_id is not None:
            raise RunError(self._foreign(found.run_id))

    def clear(self) -> None:
        """Drop the run that is there, if there is one.

        Raises:
            LaneError: it is not known to be gone.
        """
        for _ in range(_RACES):
            try:
                found = self.look()
                gone = [name for names in found.steps.values() for name in names]
                gone += [self._record] if found.run_id is not None else []
                if gone:
                    message = f"drop {self._root}"
                    self.lane.commit({}, gone, parent=found.revision, message=message)
                return
            except (Conflict, Missing):
                continue
        raise Unavailable(f"{self.where}: others committed {_RACES} times in between")

    def _restore(self, run_folder: Path, checkpoints: Path, required: bool) -> None:
        found, local = self.look(), run_folder / RECORD
        if found.revision is None or found.run_id is None or not found.steps:
            if required and not local.exists():
                raise RunError(f"{self.where} holds no checkpoint in {self._root}")
            return
        own = find(checkpoints, found.run_id).path
        own_step = -1 if own is None else checkpoint_manifest.read(own).step
        if local.exists():
            mine = _run_id(local.read_bytes())
            if mine is None:
                return  # whoever opens the folder says so
            if mine != found.run_id:
                raise RunError(f"{run_folder} is of run {mine}; {self._foreign('')}")
        else:
            sizes = self.lane.names(self._record, found.revision)
            size = sizes.get(self._record, 0)
            write_bytes(local, self._read_record(size, found.revision))
        told = []
        for step, names in found.steps.items():
            if step <= own_step:
                return
            try:
                self._fetch(names, found.revision, checkpoints, step)
            except (Corrupt, Damaged) as error:
                logger.warning(
                    "%s: step %d is passed over: %s", self.where, step, error
                )
                told.append(str(error))
                continue
            logger.info(
                "took step %d from %s: %s",
                step,
                self.where,
                "nothing is here" if own is None else f"here is step {own_step}",
            )
            return
        if own is None:
            raise RunError(
                f"{self.where} holds no usable checkpoint: {'; '.join(told)}"
            )

    def _fetch(
        self, names: tuple[str, ...], revision: str, checkpoints: Path, step: int
    ) -> None:
        make_writable(checkpoints)
        name = checkpoint_manifest.folder_name(step)
        sizes = self.lane.names(self._root, revision)
        there = {n.rsplit("/", 1)[1]: (n, sizes.get(n, -1)) for n in names}
        with new_folder(checkpoints / name, replace=True) as folder:
            first = there.get(checkpoint_manifest.FILE, ("", -1))
            least, most = 0, checkpoint_manifest.MAX_SIZE
            if not least <= first[1] <= most:
                raise Damaged(f"{checkpoint_manifest.FILE} is not there, or is none")
            self.lane.fetch(first[0], revision, folder / checkpoint_manifest.FILE)
            for file, digest in checkpoint_manifest.read(folder).files.items():
                place, size = there.get(file, ("", -1))
                if size != digest.size:  # not even downloaded
                    raise Damaged(f"{file} is not there as it was saved")
                self.lane.fetch(place, revision, folder / file)
            if verify(folder).step != step:
                raise Damaged(f"{name} holds another step")

    def _read_record(self, size: int, revision: str) -> bytes:
        if size > MAX_RECORD:
            raise Corrupt(f"{self.where}: {self._record} has {size} bytes")
        return self.lane.read(self._record, revision)

    def _foreign(self, run_id: str | None) -> str:
        whose = f"run {run_id}" if run_id else "another run"
        return (
            f"{self.where} holds {whose} in {self._root}: --resume continues it,"
            " --overwrite deletes it, run.name names another"
        )


def _run_id(record: bytes) -> str | None:
    """Of a run's record; None if it is damaged."""
    try:
        return str(from_json(record)["run_id"])
    except (ValueError, KeyError, TypeError):
        return None
