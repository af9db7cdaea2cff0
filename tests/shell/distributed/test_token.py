"""The token is in no file, log, exception or process title that a run leaves.

Real processes, the real client, an emulated Hub; what is kept beside the token itself
(the environment, the user's config) is not looked at.
"""

import base64
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import attrs
import psutil
import pytest
from tests.shell.distributed.small_run import plain

from speedtronic.testing.hub import HubEmulator

TOKEN = "hf_RecognisableAmongAllOthers0123456"
WRONG = "hf_NobodyKnowsThisOneAmongAll0123456"
PLACES = ["environment", pytest.param("config", marks=pytest.mark.slow)]


@attrs.define
class Watched:
    """What other processes see of a run while it talks to the Hub."""

    seen: list[str] = attrs.field(factory=list)
    pid: int | None = None

    def look(self, _: object) -> None:
        """Read command lines and titles of the process and of those it started."""
        if self.pid is None:
            return
        with suppress(psutil.NoSuchProcess):
            parent = psutil.Process(self.pid)
            for process in (parent, *parent.children(recursive=True)):
                self.seen += [process.name(), *process.cmdline()]


@pytest.fixture
def watched() -> Watched:
    return Watched()


@pytest.fixture
def hub(watched: Watched) -> Iterator[HubEmulator]:
    with HubEmulator(verbose=watched.look) as running:
        running.add_token("owner", "write", TOKEN)
        yield running


def run(
    folder: Path, hub: HubEmulator, watched: Watched, where: str, token: str
) -> tuple[int, bytes]:
    """Train with the token in one place; exit code, and all that was printed."""
    home = folder / "home"
    home.mkdir()
    raw: dict[str, Any] = plain(
        folder,
        "hub:owner/run",
        logging={"level": "DEBUG", "file": str(folder / "run.log")},
        checkpoint={"lane": "hub:owner/run"},
    )
    environment = {k: v for k, v in os.environ.items() if not k.startswith("HF_")}
    environment |= hub.environment
    environment |= {
        "PYTHONPATH": os.pathsep.join(sys.path),
        "HOME": str(home),
        "HF_HOME": str(home / "hf"),
        "TMPDIR": str(home),
    }
    del environment["HF_TOKEN"]
    if where == "config":
        raw["distributed"]["token"] = token
    else:
        environment["HF_TOKEN"] = token
    config = folder / "config.yaml"
    config.write_text(json.dumps(raw))
    command = [sys.executable, "-m", "speedtronic", "train", "--debug"]
    with subprocess.Popen(
        [*command, "--config", str(config)],
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    ) as process:
        watched.pid = process.pid
        printed, _ = process.communicate()
    config.unlink()
    return process.returncode, printed


def shown(token: str, where: str | bytes) -> bool:
    """Whether the token can be read there, plainly or as headers encode it."""
    content = where.encode() if isinstance(where, str) else where
    secret = token.removeprefix("hf_").encode()
    coded = base64.b64encode(b"user:" + token.encode())[8:-4]
    return secret in content or coded in content


def files(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()]


@pytest.mark.parametrize("where", PLACES)
def test_a_run_leaves_no_trace_of_its_token(
    tmp_path: Path, hub: HubEmulator, watched: Watched, where: str
) -> None:
    """Neither here nor in the repository, with every failure told in full."""
    for kind in ("error-after-applying", "conflict", "storm"):
        hub.faults.inject(kind)
    code, printed = run(tmp_path, hub, watched, where, TOKEN)
    assert 0 == code, printed.decode()
    found = [str(path) for path in files(tmp_path) if shown(TOKEN, path.read_bytes())]
    repository = hub.repo("owner/run")
    published = [n for n in repository.files() if shown(TOKEN, repository.read(n))]

    assert [] == found + published
    assert not shown(TOKEN, printed)
    assert watched.seen and not any(shown(TOKEN, text) for text in watched.seen)
    # It was looked for where there is something to be found.
    names = {path.name for path in files(tmp_path)}
    assert {"run.log", "run.json", "metrics.jsonl", "summary.json"} <= names
    assert "checkpoints/small/first/run.json" in repository.files()


@pytest.mark.parametrize("where", PLACES)
def test_a_token_that_is_refused_is_not_repeated(
    tmp_path: Path, hub: HubEmulator, watched: Watched, where: str
) -> None:
    """One line says what to do, and so does the traceback that was asked for."""
    code, printed = run(tmp_path, hub, watched, where, WRONG)
    found = [str(path) for path in files(tmp_path) if shown(WRONG, path.read_bytes())]

    assert (2, []) == (code, found)
    assert b"token" in printed and b"Traceback" in printed
    assert not shown(WRONG, printed)
    assert not any(shown(WRONG, text) for text in watched.seen)


def test_the_search_finds_what_is_there() -> None:
    """Plain, in a URL, and in an Authorization header of the basic kind."""
    basic = base64.b64encode(b"user:" + TOKEN.encode()).decode()

    assert shown(TOKEN, f"https://user:{TOKEN}@hub") and shown(TOKEN, f"Basic {basic}")
    assert not shown(TOKEN, "hf_***")
