"""The command line: finds the command, turns every outcome into an exit code.

0 done, 1 the run failed, 2 the user's input is wrong, 130 and 143 interrupted by
SIGINT and SIGTERM. A mistake is one ``error:`` line on stderr, with ``--json`` also an
object on stdout; a traceback is shown for ``--debug`` only, and kept in a file where
it tells of something unforeseen. Nothing imports this module but the entry
point.
"""

import importlib
import os
import sys
from collections.abc import Sequence

from speedtronic import __version__
from speedtronic.errors import SpeedtronicError, UserError
from speedtronic.shell.commands import COMMANDS
from speedtronic.shell.console import answer, complain, note, say
from speedtronic.shell.options import UsageError, parse

INTERRUPTED = 130


def main(arguments: Sequence[str]) -> int:
    """Run one command line and return its exit code; raises nothing."""
    try:
        code = _run(arguments)
        sys.stdout.flush()
        return code
    except BrokenPipeError:
        # The reader left. Python flushes stdout once more at exit: into nothing.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1


def _run(arguments: Sequence[str]) -> int:
    try:
        return _dispatch(list(arguments))
    except KeyboardInterrupt:
        return _failed(["interrupted"], INTERRUPTED, arguments)
    except BrokenPipeError:
        raise
    except UserError as error:
        if isinstance(error, UsageError):
            note(error.usage.rstrip())
        return _failed(error.problems, error.exit_code, arguments)
    except SpeedtronicError as error:
        return _failed([str(error)], error.exit_code, arguments)
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        return _failed([f"{where}{error.strerror or error}"], 1, arguments)
    except (Exception, SystemExit) as error:  # a model's code may call exit()
        told = f"{type(error).__name__}: {error}"
        kept = "" if "--debug" in arguments else f"; the traceback is in {_keep()}"
        return _failed([f"unexpected {told}{kept}"], 1, arguments)


def _dispatch(arguments: list[str]) -> int:
    first = arguments[0] if arguments else ""
    if first in ("--help", "-h"):
        say(_help())
        return 0
    if first == "--version":
        say(f"speedtronic {__version__}")
        return 0
    words = 2 if " ".join(arguments[:2]) in COMMANDS else 1
    command = " ".join(arguments[:words])
    if command not in COMMANDS:
        raise UsageError(_no_command(arguments[:2]), _usage())
    module = importlib.import_module(
        f"speedtronic.shell.commands.{command.replace(' ', '_')}"
    )
    try:
        options = parse(module.Options, command, COMMANDS[command], arguments[words:])
    except SystemExit:  # argparse, after --help
        return 0
    code: int = module.run(options)
    return code


def _failed(problems: Sequence[str], code: int, arguments: Sequence[str]) -> int:
    if "--debug" in arguments:
        import traceback

        note(traceback.format_exc().rstrip())
    complain(problems)
    if "--json" in arguments:
        answer({"ok": False, "exit_code": code, "problems": list(problems)})
    return code


def _keep() -> str:
    """Write the current traceback to a new file and return its path."""
    import tempfile
    import traceback

    with tempfile.NamedTemporaryFile(
        "w", prefix="speedtronic-", suffix=".txt", delete=False, encoding="utf-8"
    ) as file:
        file.write(traceback.format_exc())
    return file.name


def _no_command(words: Sequence[str]) -> str:
    if not words or words[0].startswith("-"):
        return f"expected a command, found {words[0] if words else 'nothing'}"
    from speedtronic.shell.config_names import nearest

    near = nearest(" ".join(words), COMMANDS) or nearest(words[0], COMMANDS)
    below = [name for name in COMMANDS if name.startswith(words[0] + " ")]
    hint = near or " or ".join(below)
    return f"unknown command {words[0]}" + (f"; did you mean {hint}?" if hint else "")


def _usage() -> str:
    return "usage: speedtronic COMMAND [options]; speedtronic --help lists the commands"


def _help() -> str:
    width = max(map(len, COMMANDS))
    return "\n".join(
        [
            "usage: speedtronic COMMAND [options]",
            "",
            "Train any PyTorch model from one config file.",
            "",
            "commands:",
            *(f"  {name:{width}}  {summary}" for name, summary in COMMANDS.items()),
            "",
            "options:",
            f"  {'--help':{width}}  show this help; after a command, show its options",
            f"  {'--version':{width}}  show the version",
            "",
            "exit codes: 0 done, 1 the run failed, 2 the input is wrong,",
            "130 and 143 interrupted after saving",
        ]
    )
