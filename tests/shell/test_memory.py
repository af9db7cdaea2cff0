"""What the processor has left."""

from pathlib import Path

from speedtronic.shell import memory

GIB = 1 << 30


def machine(folder: Path, **files: str) -> Path:
    """Files as the system has them."""
    for name, content in files.items():
        path = folder / name.replace("__", "/").replace("_dot_", ".")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    return folder


def test_the_machine_says_what_is_available(tmp_path: Path) -> None:
    """Without a bound it is all that there is."""
    told = "MemTotal:  9 kB\nMemAvailable:    2048 kB\n"
    proc = machine(tmp_path, meminfo=told)

    assert 2 << 20 == memory.available_bytes(proc, tmp_path / "none")


def test_a_container_has_less(tmp_path: Path) -> None:
    """Its bound without what is used, but for files that can be dropped."""
    proc = machine(tmp_path / "proc", meminfo=f"MemAvailable: {9 * GIB >> 10} kB")
    files = {
        "memory_dot_max": f"{4 * GIB}",
        "memory_dot_current": f"{3 * GIB}",
        "memory_dot_stat": f"anon 5\ninactive_file {GIB}\n",
    }
    group = machine(tmp_path / "group", **files)
    free = machine(tmp_path / "free", **files | {"memory_dot_max": "max"})

    assert 2 * GIB == memory.available_bytes(proc, group)
    assert 9 * GIB == memory.available_bytes(proc, free)


def test_without_the_files_it_is_half_the_machine(tmp_path: Path) -> None:
    """Which is a guess, but never more than there is."""
    assert 0 < memory.available_bytes(tmp_path, tmp_path)


def test_a_peak_is_seen_and_can_be_forgotten() -> None:
    """Memory that was taken and given back counts; what was there before does not."""
    memory.forget_peak()
    before = memory.peak_bytes()
    held = bytearray(b"x") * (64 << 20)
    del held

    assert 48 << 20 < memory.peak_bytes() - before


def test_a_peak_is_known_everywhere(tmp_path: Path) -> None:
    """Where it cannot be forgotten, it is that of the whole process."""
    memory.forget_peak(tmp_path)

    assert 1 << 20 < memory.peak_bytes(tmp_path)
