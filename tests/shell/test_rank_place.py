"""The place of a process, as a launcher tells it."""

import pytest

from speedtronic.errors import ConfigError
from speedtronic.shell.rank_place import Place, read_place

NEEDED = "RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR, MASTER_PORT"
WHOLE = {
    "RANK": "1",
    "WORLD_SIZE": "2",
    "LOCAL_RANK": "0",
    "MASTER_ADDR": "localhost",
    "MASTER_PORT": "29500",
}


def test_a_place_is_read() -> None:
    """Without a launcher a process is alone; of one rank, nobody need be met."""
    alone = {"RANK": "0", "WORLD_SIZE": "1", "LOCAL_RANK": "0"}

    assert Place(rank=1, ranks=2) == read_place(WHOLE)
    assert Place() == read_place(alone) == read_place({"MASTER_ADDR": "localhost"})


@pytest.mark.parametrize("missing", sorted(WHOLE))
def test_half_an_environment(missing: str) -> None:
    """One line says what is not there, and what sets it."""
    given = {name: value for name, value in WHOLE.items() if name != missing}
    first = next(n for n in ("RANK", "WORLD_SIZE", "LOCAL_RANK") if n in given)
    with pytest.raises(ConfigError) as caught:
        read_place(given)

    (line,) = caught.value.problems
    assert line.startswith(f"{missing}: not set, but {first} is; start with torchrun")
    assert NEEDED in line


@pytest.mark.parametrize(
    ("changed", "line"),
    [
        ({"RANK": "one"}, "RANK: expected a whole number, found 'one'"),
        ({"MASTER_PORT": ""}, "MASTER_PORT: expected a whole number, found ''"),
        ({"RANK": "2"}, "RANK: expected less than WORLD_SIZE 2, found 2"),
        ({"WORLD_SIZE": "0"}, "RANK: expected less than WORLD_SIZE 0, found 1"),
    ],
)
def test_an_environment_that_makes_no_sense(changed: dict[str, str], line: str) -> None:
    """It is the environment's fault, and named."""
    with pytest.raises(ConfigError, match=line):
        read_place(WHOLE | changed)
