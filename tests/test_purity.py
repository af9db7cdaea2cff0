"""Every public function of pure/ runs under a check that it is pure.

The examples in the docstrings are run once more, with the functions of their module
replaced by ones that compare every input tensor before and after, and refuse draws
from a global generator.
"""

import doctest
import functools
import importlib
import inspect
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import speedtronic
from speedtronic.testing.purity import check_pure

PURE = Path(speedtronic.__file__).parent / "pure"
MODULES = sorted(
    "speedtronic." + ".".join(path.relative_to(PURE.parent).with_suffix("").parts)
    for path in PURE.rglob("*.py")
    if path.name != "__init__.py"
)


def checked(function: Callable[..., Any], calls: set[str]) -> Callable[..., Any]:
    @functools.wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        calls.add(function.__name__)
        return check_pure(function, *args, **kwargs)

    return wrapper


def public_functions(module: ModuleType) -> dict[str, Callable[..., Any]]:
    return {
        name: value
        for name, value in vars(module).items()
        if inspect.isfunction(value)
        and value.__module__ == module.__name__
        and not name.startswith("_")
    }


@pytest.mark.parametrize("name", MODULES)
def test_public_functions_are_pure(name: str) -> None:
    """The examples of the module hold with every function checked."""
    module = importlib.import_module(name)
    calls: set[str] = set()
    wrapped = {n: checked(f, calls) for n, f in public_functions(module).items()}
    runner = doctest.DocTestRunner(
        optionflags=doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS, verbose=False
    )
    for example in doctest.DocTestFinder().find(
        module, globs={**vars(module), **wrapped}
    ):
        runner.run(example)

    assert 0 == runner.failures
