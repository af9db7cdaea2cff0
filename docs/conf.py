"""Sphinx reads this: MyST pages and docstrings to HTML, without a network.

Warnings are errors (``-n -W``), so every name of ours in a signature must lead to a
page. Mathematics is written in Unicode and code: MathJax would be fetched from a CDN.
"""

import importlib.metadata
from typing import Any

import attrs

project = "Speedtronic"
author = "The Speedtronic authors"
release = importlib.metadata.version("speedtronic")

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
exclude_patterns = ["_build"]
html_theme = "furo"
html_title = f"Speedtronic {release}"
html_copy_source = False
myst_heading_anchors = 3  # links such as faq.md#resuming work

autodoc_default_options = {
    "members": True,
    "undoc-members": True,
    "member-order": "bysource",
}
default_role = "code"  # single quotes in docstrings are code, not references
python_use_unqualified_type_names = True

# Types of other projects have no page here, and their inventories are on the network.
nitpick_ignore_regex = [
    (r"py:.*", r"(torch|nn|Tensor|attrs|numpy|np|rich)(\..*)?"),
    (r"py:.*", r"(argparse|collections|concurrent|contextlib|io|os|pathlib|types)\..*"),
    (r"py:.*", r"typing\..*"),
    # Shapes in docstrings, such as i64[B, T], are written for people.
    (r"py:.*", r"[iuf](8|16|32|64)|bool"),
    # Type variables are not objects that could have a page.
    (r"py:.*", r"(.*\.)?[A-Z]"),
]

# A field may have the name of a builtin type, such as `bytes`.
suppress_warnings = ["ref.python"]


def fields_as_signature(
    _app: Any, what: str, _name: str, shown: Any, _options: Any, *_signature: Any
) -> tuple[str, str | None] | None:
    """The fields of an attrs class; a state's own ``__init__`` takes ``**given``."""
    if what != "class" or not attrs.has(shown):
        return None
    fields = [f.name for f in attrs.fields(shown) if f.init]
    return f"(*, {', '.join(fields)})" if fields else "()", None


def setup(app: Any) -> None:
    """Called by Sphinx."""
    app.connect("autodoc-process-signature", fields_as_signature)
