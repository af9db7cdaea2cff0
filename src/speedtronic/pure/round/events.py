"""What the two machines are told, and what they ask for.

An event says what happened and when, by the clock of this process alone
(``now_s``, monotonic seconds). An effect is a request as data. Whoever performs it
answers with exactly one event: one named beside it below, or `Failed`. A process
that dies answers nothing, and the machine that is started next asks again.

====================  ======================  =======================================
effect                answered by             by whom
====================  ======================  =======================================
`Look`                `Looked`                a background thread
`Fetch`               `Fetched`               a background thread
`Upload`              `Uploaded`              a background thread
`Inspect`             `Inspected`             a background thread
`Fold`                `Folded`, `Suspected`   a background thread
`Publish`             `Published`             a background thread
`Cut`                 `CutDone`               the training thread hands over a copy
`Persist`             `Persisted`             a background thread, in order
`Install`             (done at once)          the training thread, at this boundary
`Remember`            (nothing)               a background thread
`Tell`                (nothing)               anybody
`Halt`, `Stopped`     (nothing, the last)     anybody
====================  ======================  =======================================

A machine has at most one effect of a kind in flight, so nothing piles up.
"""

from typing import Literal

import attrs

from speedtronic.pure.round.admit import Broken, Candidate
from speedtronic.pure.round.header import Header
from speedtronic.pure.round.manifest import File, Manifest
from speedtronic.pure.round.names import MANIFEST, DeltaName
from speedtronic.pure.round.record import Record
from speedtronic.pure.round.roster import Roster
from speedtronic.pure.round.settle import Action


@attrs.frozen
class Listed:
    """A delta in a listing, and its size before it is downloaded."""

    name: DeltaName
    bytes: int


@attrs.frozen(kw_only=True)
class View:
    """One revision of the lane: everything in it was read at that revision."""

    revision: str | None  # None for a lane that never had a commit
    manifest: Manifest | None  # None only if the lane answered that there is none
    deltas: tuple[Listed, ...] = ()  # all that wait for a decision
    kept: tuple[str, ...] = ()  # names of finished rounds
    proposal: Roster | None = None  # that the run's owner asks for, if it is newer
    spoiled: str = ""  # why what lies there as manifest is none, in words


# ---------------------------------------------------------------------- effects


@attrs.frozen
class Look:
    """Resolve the head, then read manifest and listing at that one revision."""


@attrs.frozen(kw_only=True)
class Fetch:
    """Bring the global model here, checked against its hash, and read some headers.

    ``weights`` is None when only the headers are wanted.
    """

    revision: str
    weights: File | None
    headers: tuple[DeltaName, ...] = ()


@attrs.frozen(kw_only=True)
class Cut:
    """Copy the progress at this boundary, add the error buffer, and encode the sum."""


@attrs.frozen(kw_only=True)
class Persist:
    """Save a record durably, with base, model, cut and error as of that boundary."""

    record: Record


@attrs.frozen
class Upload:
    """Commit the pending delta's file without a parent, the same bytes every time."""

    header: Header


@attrs.frozen(kw_only=True)
class Install:
    """Change the local vectors at this boundary, in this order.

    First ``settle`` the pending cut. ``count``: take it out of the progress if it is
    ``inside``, and install the codec's error. ``undo``: nothing if it is inside and
    the progress stays; else take it out of the progress if it is inside, and the
    error buffer becomes what was sent plus the codec's error. ``drop``: progress and
    error become zero. Then, with a ``base``, make that the base and put what is left
    of the progress on top, or nothing if ``carry`` is false. The progress stays
    unless there is a base and no carry.
    """

    settle: Action
    inside: bool = True
    base: File | None = None
    carry: bool = True
    reset_optimizer: bool = False
    cursor: int | None = None  # read on from here, for a new stream


@attrs.frozen(kw_only=True)
class Inspect:
    """Download deltas at a revision and say what is in them."""

    revision: str
    names: tuple[DeltaName, ...]


@attrs.frozen(kw_only=True)
class Fold:
    """Take the outer step over accepted deltas, in this order, on these files.

    What it made may be uploaded at once, before the answer: the time between the look
    that follows and the commit should be short.
    """

    revision: str
    manifest: Manifest
    accepted: tuple[Candidate, ...]


@attrs.frozen(kw_only=True)
class Publish:
    """Commit a manifest, and what belongs to it, on exactly this parent.

    The manifest is written under each of ``names``. The new weights and momentum are
    part of the commit when ``fresh``; when ``restores`` they are if they are at hand,
    since somebody else may have replaced them. ``copies`` are files of the parent that
    appear under a second name.
    """

    parent: str | None
    manifest: Manifest
    names: tuple[str, ...] = (MANIFEST,)
    fresh: bool = False
    restores: bool = False
    copies: tuple[tuple[str, str], ...] = ()
    deletes: tuple[str, ...] = ()


@attrs.frozen
class Remember:
    """Keep the run's id in the run directory: this node never begins another run."""

    run: str


@attrs.frozen
class Tell:
    """A line for the user."""

    level: Literal["info", "warning", "error"]
    text: str


@attrs.frozen
class Halt:
    """This machine does nothing more; a person has to look."""

    reason: str


@attrs.frozen(kw_only=True)
class Stopped:
    """A clean stop is finished."""

    delivered: bool  # nothing of this node waits on its own disk
    text: str


Effect = (
    Look
    | Fetch
    | Cut
    | Persist
    | Upload
    | Install
    | Inspect
    | Fold
    | Publish
    | Remember
    | Tell
    | Halt
    | Stopped
)

# ----------------------------------------------------------------------- events


@attrs.frozen
class Tick:
    """Time passed."""

    now_s: float


@attrs.frozen
class Failed:
    """An effect failed; whether it was applied is not known unless ``permanent``."""

    now_s: float
    effect: Effect
    reason: str
    permanent: bool = False  # not allowed, and trying again will not help


@attrs.frozen
class Looked:
    """The answer to `Look`."""

    now_s: float
    view: View


@attrs.frozen
class Fetched:
    """The answer to `Fetch`: the model is at hand, and these are the cursors read."""

    now_s: float
    cursors: tuple[int, ...] = ()


@attrs.frozen
class Boundary:
    """The training thread is between two inner steps and waits for this answer.

    While training is paused it comes again and again with no steps.
    """

    now_s: float
    steps: int  # finished since the last boundary
    tokens: int
    cursor: int  # where the node's data goes on


@attrs.frozen
class CutDone:
    """The answer to `Cut`: the encoded payload."""

    now_s: float
    payload: str
    payload_bytes: int
    finite: bool = True


@attrs.frozen
class Persisted:
    """The answer to `Persist`: it survives a power cut."""

    now_s: float


@attrs.frozen
class Uploaded:
    """The answer to `Upload`: a hint, never a decision."""

    now_s: float


@attrs.frozen
class Inspected:
    """The answer to `Inspect`; what could not be read is left out and asked again."""

    now_s: float
    candidates: tuple[Candidate, ...]
    broken: tuple[Broken, ...] = ()


@attrs.frozen
class Folded:
    """The answer to `Fold`: the new files."""

    now_s: float
    weights: File
    momentum: File
    clipped: tuple[DeltaName, ...] = ()  # what the rule made much smaller


@attrs.frozen
class Suspected:
    """The other answer to `Fold`: the round would do harm, by these deltas."""

    now_s: float
    names: tuple[DeltaName, ...]
    reason: str
    certain: bool = True  # false where nothing tells them apart


@attrs.frozen
class Published:
    """The answer to `Publish`: a hint; the next look tells."""

    now_s: float


@attrs.frozen
class Stop:
    """Finish what can be finished before ``deadline_s``; sent at a boundary."""

    now_s: float
    deadline_s: float


Event = (
    Tick
    | Failed
    | Looked
    | Fetched
    | Boundary
    | CutDone
    | Persisted
    | Uploaded
    | Inspected
    | Folded
    | Suspected
    | Published
    | Stop
)
