"""``speedtronic export``: a trained model as a folder for transformers."""

from dataclasses import dataclass

from speedtronic.shell.options import flag, option, positional


@dataclass(frozen=True)
class Options:
    """What ``export`` understands."""

    run: str = positional(
        "the folder of a run, or of one of its checkpoints", name="run"
    )
    to: str = option("the folder to write: missing or empty", metavar="DIR")
    average: bool = flag("the averaged weights, not the raw ones")
    json: bool = flag("print one JSON object")
    debug: bool = flag("show the traceback of an error")


def run(options: Options) -> int:
    """Write the folder and say what is in it.

    Raises:
        RunError, CheckpointError, StorageError: as `speedtronic.shell.export`.
    """
    from pathlib import Path

    from speedtronic.shell.console import answer, say
    from speedtronic.shell.export import export_run

    told = export_run(Path(options.run), Path(options.to), average=options.average)
    if options.json:
        answer({"ok": True, "folder": options.to, "notes": told})
        return 0
    for line in told:
        say(line)
    return 0
