"""Find the callable that ``package.module:factory`` in a config names.

Models, datasets, tokenizers and metric hooks are named so. The working folder is on
the import path, as it is for ``python -m``, so that a file beside the config will do.
"""

import difflib
import importlib
import os
import pkgutil
import sys
import traceback
from collections.abc import Callable, Iterable
from types import ModuleType
from typing import Any

from speedtronic.errors import ConfigError


def resolve(spec: str, what: str) -> Callable[..., Any]:
    """The callable of a spec.

    Args:
        spec: ``package.module:factory``; the factory may be nested, as ``Class.make``.
        what: the config path that holds the spec, for messages.

    Raises:
        ConfigError: one line: there is no such module or name (with the nearest one),
            importing it failed (with the place), or it cannot be called.

    >>> resolve("math:sqrt", "model.name")(9.0)
    3.0
    >>> resolve("math:sqr", "model.name")
    Traceback (most recent call last):
    speedtronic.errors.ConfigError: model.name: module 'math' has no 'sqr', did you mean
    'sqrt'?
    """
    module_name, _, path = spec.partition(":")
    names = [*module_name.split("."), *path.split(".")]
    if not all(name.isidentifier() for name in names):
        raise ConfigError(
            f"{what}: expected package.module:factory, found {spec!r}, such as"
            " 'my_models:build' for the function build in my_models.py"
        )
    found: Any = _import(module_name, spec, what)
    owner = f"module {module_name!r}"
    for name in path.split("."):
        if not hasattr(found, name):
            near = nearest(name, dir(found))
            raise ConfigError(f"{what}: {owner} has no {name!r}{near}")
        found, owner = getattr(found, name), repr(name)
    if not callable(found):
        raise ConfigError(
            f"{what}: {spec!r} is {type(found).__name__}, expected a function or class"
        )
    return found  # type: ignore[no-any-return]


def nearest(name: str, known: Iterable[str]) -> str:
    """A question for the end of a message, empty if nothing is near.

    >>> nearest("n_hed", ["n_head", "d_ff"])
    ", did you mean 'n_head'?"
    """
    close = difflib.get_close_matches(name, list(known), n=1)
    return f", did you mean {close[0]!r}?" if close else ""


def failure(error: BaseException) -> str:
    """An error of the user's own code in one line, with its type and place.

    >>> try:
    ...     {}["a"]
    ... except KeyError as error:
    ...     print(failure(error))
    KeyError: 'a' (... line 2)
    """
    said = " ".join(str(error).split())
    kind = type(error).__name__
    frames = traceback.extract_tb(error.__traceback__)
    place = f"{frames[-1].filename}, line {frames[-1].lineno}" if frames else "unknown"
    return f"{kind}: {said} ({place})" if said else f"{kind} ({place})"


def _import(name: str, spec: str, what: str) -> ModuleType:
    folder = os.getcwd()
    if folder not in sys.path:
        sys.path.insert(0, folder)
    importlib.invalidate_caches()  # the file may be newer than the last look
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        absent = error.name or ""
        if name != absent and not name.startswith(absent + "."):
            raise ConfigError(f"{what}: importing {name!r} failed: {error}") from error
        parent, _, leaf = absent.rpartition(".")
        near = nearest(leaf, _siblings(parent))
        where = f" in {parent!r}" if parent else f" in {folder} or installed"
        raise ConfigError(
            f"{what}: {spec!r} needs the module {leaf!r}, found none{where}{near}"
        ) from error
    except (Exception, SystemExit) as error:
        told = failure(error)
        raise ConfigError(f"{what}: importing {name!r} failed: {told}") from error


def _siblings(parent: str) -> list[str]:
    path = getattr(sys.modules.get(parent), "__path__", None) if parent else None
    if parent and path is None:  # the parent is no package
        return []
    return [found.name for found in pkgutil.iter_modules(path)]
