"""What a run leaves on a disk is its owner's to change, whatever the umask is."""

import ast
import os
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.shell.distributed.small_run import begin

from speedtronic.shell import modes
from speedtronic.shell.atomic import create, make_writable, new_folder, write_bytes
from speedtronic.shell.keys import create as create_key
from speedtronic.shell.lanes.hub.cache import Cache
from speedtronic.shell.logs import logging_to

SHELL = Path(__file__).parents[1] / "src/speedtronic/shell"
MAKERS = {"mkdir", "makedirs", "touch", "write_text", "write_bytes", "FileHandler"}


@pytest.fixture
def no_umask() -> Iterator[None]:
    """A process that lets everybody do everything."""
    before = os.umask(0)
    yield
    os.umask(before)


def loose(folder: Path) -> list[str]:
    """What others may write to, below a folder and with it."""
    found = [folder, *folder.rglob("*")]
    return [str(p) for p in found if stat.S_IMODE(p.lstat().st_mode) & 0o022]


def test_a_whole_run_is_closed_to_others(tmp_path: Path, no_umask: None) -> None:
    """Run folder, checkpoints, metrics, log, state, lanes and the cache of tokens."""
    root = tmp_path / "all"
    root.mkdir(0o755)
    (root / "text.txt").touch(0o644)
    with logging_to("INFO", root / "logs" / "log"):
        begin(
            root,
            f"dir:{root / 'lane'}",
            checkpoint={"every_steps": 2, "lane": f"dir:{root / 'kept'}"},
        )
    files = {p.name for p in root.rglob("*") if p.is_file()}
    assert {"metrics.jsonl", "run.json", "node.json", "lane.json", "log"} <= files
    assert {"model.safetensors", "store.json", "summary.json", "lock"} <= files
    assert [] == loose(root)


def test_other_libraries_are_held_to_it_by_the_command(tmp_path: Path) -> None:
    """The program's umask takes away what they would have left open."""
    code = (
        "import os, sys; os.umask(0);"
        "from speedtronic.__main__ import main;"
        "code = main(['init', '--path', sys.argv[1]]);"
        "open(sys.argv[2], 'w').close();"
        "sys.exit(code)"
    )
    ours, theirs = tmp_path / "run.yaml", tmp_path / "theirs"
    subprocess.run([sys.executable, "-c", code, str(ours), str(theirs)], check=True)
    assert [0o644, 0o644] == [stat.S_IMODE(p.stat().st_mode) for p in (ours, theirs)]


def test_a_stricter_umask_still_takes_away(tmp_path: Path) -> None:
    """Whoever wants nobody to read gets that."""
    before = os.umask(0o077)
    try:
        modes.make_folder(tmp_path / "a" / "b")
        write_bytes(tmp_path / "a" / "file", b"x")
        with new_folder(tmp_path / "c") as folder, create(folder / "d") as file:
            file.write(b"x")
    finally:
        os.umask(before)
    for path, mode in (("a", 0o700), ("a/b", 0o700), ("a/file", 0o600), ("c/d", 0o600)):
        assert mode == stat.S_IMODE((tmp_path / path).stat().st_mode)


def test_what_is_there_keeps_its_mode(tmp_path: Path, no_umask: None) -> None:
    """A folder that somebody shares stays shared; only what is new is closed."""
    (tmp_path / "shared").mkdir(0o777)
    make_writable(tmp_path / "shared")
    modes.make_folder(tmp_path / "shared" / "own")
    modes.make_file(tmp_path / "shared" / "own" / "file")
    assert [str(tmp_path / "shared")] == loose(tmp_path / "shared")


def test_a_file_in_the_way_is_an_error(tmp_path: Path) -> None:
    """Of the operating system's kind."""
    modes.make_file(tmp_path / "file")
    for path in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(OSError):
            modes.make_folder(path)


def test_secrets_are_for_their_owner_alone(tmp_path: Path, no_umask: None) -> None:
    """A key, the folder of keys, and the cache of what was read with a token."""
    create_key(tmp_path / "keys" / "node.pem")
    cache = Cache(tmp_path / "cache", 1 << 20)
    path, file = cache.create()
    file.close()
    cache.publish(path, "key")
    for name, mode in (("keys/node.pem", 0o600), ("keys", 0o700), ("cache", 0o700)):
        assert mode == stat.S_IMODE((tmp_path / name).stat().st_mode)


def faults(source: str) -> list[str]:
    """Calls that make a file or a folder with a mode of the umask's choice."""
    told = []
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.Call):
            continue
        called = ast.unparse(node.func)
        name = called.rpartition(".")[2]
        given = [ast.unparse(a) for a in node.args]
        if name in MAKERS and not (name == "mkdir" and "FOLDER" in "".join(given)):
            told += [called] if called != "write_bytes" else []  # the one of `atomic`
        elif called == "os.open" and "O_CREAT" in "".join(given[:2]):
            told += [] if given[2:] == ["PRIVATE_FILE"] else [called]
        elif name == "open" and any(
            isinstance(a, ast.Constant)
            and isinstance(a.value, str)
            and set(a.value) & set("wax")
            and set(a.value) <= set("wax+rbt")
            for a in node.args
        ):
            told.append(f"{called}({', '.join(given)})")
    return told


def test_nothing_is_made_in_another_way() -> None:
    """All sources of the shell, but for the file that says how."""
    allowed = {
        "modes.py": {"folder.mkdir"},
        "atomic.py": set(),
        "logs.py": {"logging.FileHandler"},  # on a file that is there
        "memory.py": {"(proc / 'self/clear_refs').write_text"},  # of the kernel
    }
    found = {}
    for path in sorted(SHELL.rglob("*.py")):
        told = set(faults(path.read_text())) - allowed.get(path.name, set())
        if told:
            found[str(path.relative_to(SHELL))] = told
    assert {} == found


@pytest.mark.parametrize(
    "source",
    [
        "path.mkdir()",
        "path.mkdir(parents=True)",
        "path.touch()",
        "path.write_text('x')",
        "os.open(path, os.O_CREAT, 0o666)",
        "open(path, 'w')",
        "path.open('ab')",
        "logging.FileHandler(path)",
    ],
)
def test_the_rule_can_fail(source: str) -> None:
    """Each way is noticed."""
    assert faults(source)
