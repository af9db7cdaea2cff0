"""Changes of valid inputs: the more valid the input, the deeper a change gets.

Everything is drawn from one `random.Random`, so a seed says which input it was.
"""

import json
import struct
from collections.abc import Callable, Sequence
from random import Random
from typing import Any

NAMES = (
    "",
    ".",
    "..",
    "../../canary",
    "/etc/passwd",
    "nodes/../../canary",
    "a/b",
    "a\\..\\b",
    "con",
    "nul.json",
    "C:\\x",
    "~root",
    ".hidden",
    "a.",
    "A",
    "a" * 300,
    "x\x00y",
    "x\ny",
    "\x1b[2J",
    "\u202etxt",
    "\uff11",
    "\u0661",
    "\U0001f4a5",
    "%s%n",
    "{0.__class__}",
    "__class__",
    "$(touch pwned)",
    "`touch pwned`",
    "eval:touch",
    "os:system",
    "subprocess:run",
    "hf_" + "a" * 34,
    "params['\\x']",
    "params['a' + 'b']",
    "params['a', 'b']",
    "params['\\q']",
    "params['" + "(" * 300 + "']",
    "buffers['\\N{DIGIT ONE}']",
)
NUMBERS = (
    0,
    -1,
    1,
    2,
    255,
    2**31,
    2**53,
    2**53 + 1,
    2**63 - 1,
    2**63,
    2**64,
    10**99,
    -(10**99),
    0.5,
    -0.0,
    1e308,
    5e-324,
)
RAW = (  # texts that stand where a JSON value should
    "1e999",
    "-1e999",
    "NaN",
    "Infinity",
    "9" * 400,
    "9" * 5000,
    "01",
    "1_0",
    "0x1f",
    "+1",
    "1.",
    "tru",
    "'a'",
    '"\\ud800"',
    '"\\udc00\\ud800"',
    '"\\u0000"',
    "[" * 70 + "]" * 70,
    "[" * 3000 + "]" * 3000,
    '{"a":' * 3000 + "1" + "}" * 3000,
    "[" * 3000,
    "[" + "0," * 3000 + "0]",
    "/* */ 1",
    "",
)
_HOLE = "@hole@"


def any_bytes(random: Random, most: int = 400) -> bytes:
    """Bytes without any form, or of a small alphabet that has some."""
    size = random.randrange(most)
    if random.random() < 0.5:
        return random.randbytes(size)
    letters = b'{}[]":,\\ \n0123456789.eE-+truefalsn"a'
    return bytes(random.choice(letters) for _ in range(size))


def scalar(random: Random) -> Any:
    """A value that readers get wrong."""
    kind = random.randrange(6)
    if kind == 0:
        return _apart(random.choice((None, True, False, [], {}, [[]], {"": {}})))
    if kind in (1, 2):
        return random.choice(NAMES)
    if kind == 3:
        return random.randrange(-(2**70), 2**70)
    return random.choice(NUMBERS)


def places(value: Any) -> list[tuple[Any, Any]]:
    """Every place in a plain value, as its container and key."""
    found: list[tuple[Any, Any]] = []
    waiting = [value]
    while waiting:
        inner = waiting.pop()
        if isinstance(inner, dict):
            keys: Sequence[Any] = list(inner)
        else:
            keys = range(len(inner)) if isinstance(inner, list) else ()
        found += [(inner, key) for key in keys]
        waiting += [inner[key] for key in keys]
    return found


def change_value(random: Random, value: Any, more: Sequence[Any] = ()) -> Any:
    """A copy of a plain value with a few changes.

    Args:
        random: where they are drawn from.
        value: of JSON's types.
        more: values that are worth a try in this place.
    """
    top = {"top": json.loads(json.dumps(value))}
    for _ in range(1 + random.randrange(3)):
        found = places(top)
        if not found:
            return None
        container, key = random.choice(found[1:] or found)
        _change(random, container, key, more)
    return top.get("top")


def _change(random: Random, container: Any, key: Any, more: Sequence[Any]) -> None:
    old = container[key]
    kind = random.randrange(11)
    if kind == 0:
        del container[key]
    elif kind == 1 and isinstance(container, dict):
        container[random.choice(NAMES)] = container.pop(key)
    elif kind == 2 and isinstance(container, dict):
        container[random.choice((*NAMES, "extra"))] = scalar(random)
    elif kind == 3 and isinstance(container, list):
        container[key:key] = [_apart(old) for _ in range(random.choice((1, 2, 30)))]
    elif kind == 4:
        container[key] = [old]
    elif kind == 5:
        other, place = random.choice(places(container))
        container[key] = _apart(other[place])
        other[place] = _apart(old)
    elif kind == 6 and isinstance(old, str):
        container[key] = _change_text(random, old)
    elif kind == 6 and type(old) in (int, float):
        tweaks = (old + 1, old - 1, -old, old * 10, float(old), str(old), bool(old))
        container[key] = random.choice(tweaks)
    elif kind == 7 and more:
        container[key] = _apart(random.choice(more))
    elif kind == 8:
        container[key] = _HOLE
    else:
        container[key] = scalar(random)


def _apart(value: Any) -> Any:
    """A copy, so that no later change of one place is one of another."""
    return json.loads(json.dumps(value))


def _change_text(random: Random, text: str) -> str:
    at = random.randrange(len(text) + 1)
    part = random.choice((*NAMES, "0", "f", "-", text, text.upper()))
    return random.choice((text[:at] + part + text[at:], text[:at], text[at:], part))


def to_text(random: Random, value: Any, *, canonical: bool) -> bytes:
    """JSON of a changed value; its holes get texts that are no JSON, or evil JSON."""
    if canonical:
        text = json.dumps(value, sort_keys=True, separators=(",", ":"))
    else:
        text = json.dumps(value, ensure_ascii=random.random() < 0.9)
    while f'"{_HOLE}"' in text:
        text = text.replace(f'"{_HOLE}"', random.choice(RAW), 1)
    if random.random() < 0.05 and text.startswith('{"'):  # a key twice
        key = text[1 : text.index('"', 2) + 1]
        text = "{" + key + ":0," + text[1:]
    return text.encode("utf-8", "surrogatepass")


def change_json(
    random: Random,
    value: Any,
    seal: Callable[[Any], bytes] | None = None,
    more: Sequence[Any] = (),
) -> bytes:
    """The text of a plain value with a few changes.

    Args:
        random: where they are drawn from.
        value: of JSON's types.
        seal: writes the changed value as its own writer would, sums included; most
            changes are of no use without.
        more: as of `change_value`.
    """
    changed = change_value(random, value, more)
    if seal is not None and random.random() < 0.8:
        try:
            return seal(changed)
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
            pass
    data = to_text(random, changed, canonical=random.random() < 0.7)
    return change_bytes(random, data) if random.random() < 0.1 else data


def change_bytes(random: Random, data: bytes) -> bytes:
    """Bytes with a few changes: bits, pieces, lengths."""
    changed = bytearray(data)
    for _ in range(1 + random.randrange(3)):
        at = random.randrange(len(changed) + 1)
        end = min(len(changed), at + random.choice((1, 1, 4, 8, 50)))
        kind = random.randrange(7)
        if kind == 0 and at < len(changed):
            changed[at] ^= 1 << random.randrange(8)
        elif kind == 1:
            del changed[at:end]
        elif kind == 2:
            changed[at:at] = random.randbytes(random.choice((1, 3, 20)))
        elif kind == 3:
            changed[at:at] = changed[at:end]
        elif kind == 4:
            del changed[at:]
        elif kind == 5:
            number = random.choice((0, 1, 2**31, 2**32 - 1, 2**63, 2**64 - 1, 10**8))
            place = random.choice((0, 0, at))
            changed[place : place + 8] = struct.pack("<Q", number)
        else:
            changed[at:end] = random.choice(NAMES).encode("utf-8", "surrogatepass")
    return bytes(changed)


def change_header(random: Random, data: bytes) -> bytes:
    """A safetensors file with changes of its header, its length or its tensors."""
    if random.random() < 0.2:
        return change_bytes(random, data)
    (size,) = struct.unpack("<Q", data[:8])
    header, tensors = json.loads(data[8 : 8 + size]), data[8 + size :]
    more = ("F64", "I64", "BOOL", "F4", "F8_E8M0", "C64", [0], [1] * 70, [0, 2**62])
    changed = change_value(random, header, more)
    text = to_text(random, changed, canonical=False)
    length = len(text)
    if random.random() < 0.1:
        length = random.choice((0, 1, 2**63, 10**8, len(text) - 1, len(text) + 1))
    if random.random() < 0.1:
        tensors = change_bytes(random, tensors)
    return struct.pack("<Q", length) + text + tensors
