"""Search for inputs that crash the parsers of manifests and headers, by coverage.

A fuzzer that sees which branches an input takes finds what random changes do not: it
keeps what got further, and changes that again, as bytes and as JSON with all sums made
right. It runs for as many inputs as it is told and ends with an error if one of them
raised anything but `Corrupt`, with that input in a file. `make soak` runs it; it needs
the extra ``soak``::

    python properties/fuzz/coverage_guided.py -runs=200000
"""

import sys
import tempfile
from pathlib import Path
from random import Random

import atheris

sys.path[:0] = [str(Path(__file__).parents[2]), str(Path(__file__).parents[2] / "src")]
PARSERS = ("speedtronic.pure.round", "speedtronic.pure.strict_json")
with atheris.instrument_imports(include=[*PARSERS, "speedtronic.pure.blobname"]):
    from properties.fuzz import round_targets, signed_targets
    from properties.fuzz.mutate import change_json

    from speedtronic.errors import Corrupt
    from speedtronic.pure import strict_json
    from speedtronic.pure.round import header, manifest, plain, roster, run_file

SEEDS = {
    0: manifest.encode(round_targets.HEAD),
    1: plain.encode(round_targets.header_values()),
    2: signed_targets.DATA,
    3: plain.encode(signed_targets.ROSTER),
    4: run_file.encode(run_file.parse(round_targets.seal(round_targets.RUN))),
}


def one_input(data: bytes) -> None:
    """The first byte says which parser the rest is for."""
    if not data:
        return
    kind, data = data[0] % 8, data[1:]
    try:
        if kind in (0, 2):
            manifest.encode(manifest.parse(data))
        elif kind == 1:
            assert data == header.encode(header.parse(data))
        elif kind == 3:
            assert data == roster.encode(roster.parse(data))
        elif kind == 4:
            assert data == run_file.encode(run_file.parse(data))
        else:  # the sums made right, so that what lies behind them is reached
            sealed(kind, data)
    except Corrupt as error:
        assert "\n" not in str(error)


def sealed(kind: int, data: bytes) -> None:
    """The same with the sum that its own content has."""
    try:
        value = strict_json.parse(data)
    except ValueError:
        return
    if not isinstance(value, dict):
        return
    if kind == 5:
        manifest.parse(round_targets.seal({"signature": None} | value))
    elif kind == 6:
        run_file.parse(round_targets.seal(value))
    else:
        roster.from_plain(value)


def mutate(data: bytes, most: int, seed: int) -> bytes:
    """Another input: bytes as libFuzzer changes them, or values, canonical again."""
    random = Random(seed)
    if data and random.random() < 0.7:
        try:
            value = strict_json.parse(data[1:])
            told = change_json(random, value, plain.encode, round_targets.MORE)
        except (ValueError, TypeError, RecursionError):
            pass
        else:
            if len(told) < most:
                return data[:1] + told
    return bytes(atheris.Mutate(data, most))


def main() -> None:
    """Run with the options of libFuzzer; ``-runs=N`` bounds it."""
    with tempfile.TemporaryDirectory() as folder:
        for number, seed in SEEDS.items():
            kinds = (number, {0: 5, 2: 5, 3: 7, 4: 6}.get(number, number))
            for kind in kinds:
                path = Path(folder) / f"seed-{number}-{kind}"
                path.write_bytes(bytes([kind]) + seed)
        options = ["-max_len=20000", "-timeout=20", "-rss_limit_mb=4096"]
        arguments = [sys.argv[0], *options, *sys.argv[1:], folder]
        atheris.Setup(arguments, one_input, custom_mutator=mutate)
        atheris.Fuzz()


if __name__ == "__main__":
    main()
