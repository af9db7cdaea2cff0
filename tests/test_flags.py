"""The command line's surface, frozen: a change here is a change for every user."""

import importlib
from pathlib import Path

import pytest

from speedtronic.shell.commands import COMMANDS
from speedtronic.shell.options import flags

SURFACE = {
    "train": [
        "--config",
        "--resume",
        "--overwrite",
        "--no-overwrite",
        "--device",
        "--max-steps",
        "--output-dir",
        "--set",
        "--json",
        "--no-json",
        "--quiet",
        "--no-quiet",
        "--debug",
        "--no-debug",
    ],
    "swarm": [
        "--config",
        "--nodes",
        "--lane",
        "--resume",
        "--no-resume",
        "--overwrite",
        "--no-overwrite",
        "--max-steps",
        "--output-dir",
        "--set",
        "--json",
        "--no-json",
        "--quiet",
        "--no-quiet",
        "--debug",
        "--no-debug",
    ],
    "join": [
        "lane",
        "--role",
        "--trust",
        "--no-trust",
        "--owner",
        "--max-steps",
        "--output-dir",
        "--set",
        "--json",
        "--no-json",
        "--quiet",
        "--no-quiet",
        "--debug",
        "--no-debug",
    ],
    "plan": [
        "--config",
        "--nodes",
        "--price",
        "--bandwidth",
        "--set",
        "--json",
        "--no-json",
        "--debug",
        "--no-debug",
    ],
    "validate": [
        "--config",
        "--set",
        "--format",
        "--step-seconds",
        "--syntax-only",
        "--no-syntax-only",
        "--json",
        "--no-json",
        "--debug",
        "--no-debug",
    ],
    "init": [
        "--path",
        "--force",
        "--no-force",
        "--json",
        "--no-json",
        "--debug",
        "--no-debug",
    ],
    "doctor": [
        "--config",
        "--optimizer",
        "--no-optimizer",
        "--step-seconds",
        "--json",
        "--no-json",
        "--debug",
        "--no-debug",
    ],
    "generate": [
        "run",
        "--prompt",
        "--max-tokens",
        "--temperature",
        "--top-k",
        "--seed",
        "--device",
        "--json",
        "--no-json",
        "--debug",
        "--no-debug",
    ],
    "export": [
        "run",
        "--to",
        "--average",
        "--no-average",
        "--json",
        "--no-json",
        "--debug",
        "--no-debug",
    ],
    "prepare": [
        "--config",
        "--set",
        "--push",
        "--json",
        "--no-json",
        "--debug",
        "--no-debug",
    ],
    "status": ["lane", "--owner", "--json", "--no-json", "--debug", "--no-debug"],
    "replay": [
        "lane",
        "--from",
        "--to",
        "--write",
        "--owner",
        "--json",
        "--no-json",
        "--debug",
        "--no-debug",
    ],
    "key new": ["--node", "--file", "--json", "--no-json", "--debug", "--no-debug"],
    "key show": ["--node", "--file", "--json", "--no-json", "--debug", "--no-debug"],
    "roster show": ["lane", "--json", "--no-json", "--debug", "--no-debug"],
    "roster add": [
        "lane",
        "node",
        "key",
        "--role",
        "--max-norm",
        "--owner-key",
        "--json",
        "--no-json",
        "--debug",
        "--no-debug",
    ],
    "roster remove": [
        "lane",
        "node",
        "--owner-key",
        "--json",
        "--no-json",
        "--debug",
        "--no-debug",
    ],
    "data stats": ["config", "--set", "--json", "--no-json", "--debug", "--no-debug"],
    "testing hub": [
        "--port",
        "--folder",
        "--latency",
        "--quota-commits",
        "--quota-requests",
        "--faults",
        "--seed",
        "--verbose",
        "--no-verbose",
        "--json",
        "--no-json",
        "--debug",
        "--no-debug",
    ],
}


def test_the_commands_are_these() -> None:
    """No command comes or goes unnoticed."""
    assert list(SURFACE) == list(COMMANDS)


@pytest.mark.parametrize("command", COMMANDS)
def test_the_flags_are_these(command: str) -> None:
    """No flag comes or goes unnoticed."""
    module = importlib.import_module(
        f"speedtronic.shell.commands.{command.replace(' ', '_')}"
    )

    assert SURFACE[command] == flags(module.Options)


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_answers_in_json_and_shows_tracebacks(command: str) -> None:
    """Two flags are the same everywhere."""
    assert {"--json", "--debug"} <= set(SURFACE[command])


@pytest.mark.parametrize("command", COMMANDS)
def test_the_reference_page_shows_every_option(command: str) -> None:
    """A flag that is not documented does not exist for most users."""
    page = Path(__file__).parents[1] / "docs/reference/command-line.md"
    section = page.read_text().partition(f"\n## {command}\n")[2].partition("\n## ")[0]
    options = [f for f in SURFACE[command] if f[:5] not in ("--no-", "--deb")]

    assert [] == [f for f in options if f not in section and f.upper() not in section]
