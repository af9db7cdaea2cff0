"""What every attacked parser says of itself."""

from collections.abc import Callable
from random import Random
from typing import Any

import attrs
from properties.fuzz.arena import Arena
from properties.fuzz.mutate import any_bytes

COUNTED = 0.2  # of the inputs, whose calls and memory are counted


@attrs.frozen(kw_only=True)
class Target:
    """A parser of what others wrote, and how to make inputs for it."""

    name: str
    make: Callable[[Random], bytes]  # an input that is nearly valid
    parse: Callable[[bytes, Arena], Any]
    errors: tuple[type[Exception], ...]  # what it documents, and no others
    line: bool = True  # whether an error is a line, or a line per problem
    memory: int = 8 << 20  # bytes that it may take for any input

    def attack(self, random: Random, arena: Arena) -> bytes:
        """One input; it fails unless the answer is a value or a documented error."""
        data = any_bytes(random) if random.random() < 0.15 else self.make(random)
        memory = self.memory if random.random() < COUNTED else None
        try:
            arena.run(lambda: self.parse(data, arena), len(data), memory)
        except self.errors as error:
            told = getattr(error, "problems", [str(error)])
            assert told and all(told)
            assert not self.line or all(line.isprintable() for line in told), told
            assert sum(map(len, told)) < 40 * (len(data) + 1000)
        return data
