"""The reference pages: nothing public is without a place there."""

import re
from pathlib import Path

import speedtronic

ROOT = Path(__file__).parents[1]
PURE = ROOT / "src/speedtronic/pure"


def described() -> set[str]:
    text = "".join(p.read_text() for p in (ROOT / "docs/reference").glob("*.md"))
    return set(re.findall(r"automodule:: speedtronic\.([\w.]+)", text))


def pure_modules() -> set[str]:
    """All but packages, and the config sections, which have a page of their own."""
    paths = [p.relative_to(PURE.parent) for p in PURE.rglob("*.py")]
    return {
        ".".join(path.with_suffix("").parts)
        for path in paths
        if path.name != "__init__.py" and "config" not in path.parts
    }


def test_every_pure_module_is_described() -> None:
    """Users read the pure core as much as they call it."""
    assert set() == pure_modules() - described()


def test_every_public_name_is_listed() -> None:
    """With the module where it is described."""
    page = (ROOT / "docs/reference/public.md").read_text()
    for name in speedtronic.__all__:
        home = getattr(speedtronic, name).__module__

        assert f"| `{name}` | {{py:obj}}`{home}.{name}` |" in page
        assert home.removeprefix("speedtronic.") in described()
