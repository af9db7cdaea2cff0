"""``speedtronic init``: a commented starter config."""

from dataclasses import dataclass

from speedtronic.shell.modes import open_text
from speedtronic.shell.options import flag, option


@dataclass(frozen=True)
class Options:
    """What ``init`` understands."""

    path: str = option("the file to write", default="speedtronic.yaml", metavar="PATH")
    force: bool = flag("replace a file that is there")
    json: bool = flag("print one JSON object")
    debug: bool = flag("show the traceback of an error")


def run(options: Options) -> int:
    """Write the file.

    Raises:
        ConfigError: a file is there already, or the folder is not; or it would be
            read as JSON, which has no comments.
    """
    from pathlib import Path

    from speedtronic.errors import ConfigError
    from speedtronic.shell.config_starter import starter
    from speedtronic.shell.console import answer, say

    path = Path(options.path)
    if path.suffix.lower() == ".json":
        raise ConfigError(f"{path}: expected a name for YAML, such as run.yaml")
    try:
        with open_text(path, "w" if options.force else "x") as file:
            file.write(starter(options.path))
    except FileExistsError:
        raise ConfigError(f"{path}: is there already; --force replaces it") from None
    except (OSError, ValueError) as error:
        told = getattr(error, "strerror", None) or error
        raise ConfigError(f"{options.path!r}: cannot be written: {told}") from None
    if options.json:
        answer({"ok": True, "path": str(path)})
    else:
        say(f"wrote {path}; next: speedtronic train --config {path}")
    return 0
