"""A delta that counted, fetched from a kept round and checked against all that is said
of it: its name, its header, the ledger, and the model that it has to fit."""

from pathlib import Path

from speedtronic.errors import Corrupt, Damaged
from speedtronic.pure.delta import Weights
from speedtronic.pure.round import audit
from speedtronic.pure.round.admit import MAX_OVERHEAD_BYTES, Bounds, norm_limit
from speedtronic.pure.round.header import Header
from speedtronic.pure.round.manifest import Manifest
from speedtronic.pure.round.names import DeltaName
from speedtronic.shell.delta_file import open_delta
from speedtronic.shell.distributed.files import read_header
from speedtronic.shell.distributed.recording import Recording
from speedtronic.shell.distributed.trust import signer_of


def fetch_delta(
    recording: Recording,
    name: DeltaName,
    old: Manifest,
    new: Manifest,
    base: Weights,
    path: Path,
) -> Header:
    """Put a delta into the file ``path``.

    Args:
        recording: of the run.
        name: of the delta.
        old: the manifest of the round before.
        new: the manifest that says that it counted.
        base: the model; only names, shapes and dtypes are looked at.
        path: is overwritten.

    Raises:
        Corrupt: it is not there, or is not what counted.
        LaneError: the lane does not answer.
        StorageError: ``path`` cannot be written.
    """
    place = name.kept(new.round)
    size, most = recording.sizes.get(place, 0), new.weights.bytes + MAX_OVERHEAD_BYTES
    if size > most:
        raise Corrupt(f"expected at most {most} bytes, found {size}")
    recording.fetch(place, path)
    try:
        with open_delta(path) as file:
            header = read_header(file)
            signer = signer_of(file, header)
            found = file.inspect(base)
    except Damaged as error:
        raise Corrupt(str(error).replace(str(path), "its file")) from error
    announced = header.payload, header.payload_bytes
    limit = norm_limit(new, header, Bounds(payload_bytes=0), None)
    told = [
        audit.counts(old, new, name, header, signer),
        "" if announced == (found.payload, found.payload_bytes) else _other(header),
        "; ".join(found.mismatch),
        "" if found.finite else "it is not finite",
        "" if found.norm <= limit else f"its norm {found.norm:.6g} is beyond {limit:g}",
    ]
    if problems := [line for line in told if line]:
        raise Corrupt(problems[0])
    return header


def _other(header: Header) -> str:
    return f"its payload is not the one of sha256 {header.payload} that it announces"
