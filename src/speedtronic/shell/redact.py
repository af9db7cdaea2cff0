"""Access tokens taken out of text before anybody sees it.

A secret that is declared as one is a `Secret` and never shows itself; this is for the
token that was typed in the wrong place, such as behind ``--set`` or in a message of
the Hub.
"""

import re

_TOKEN = re.compile(r"(?<![A-Za-z0-9])(hf|api_org)_[A-Za-z0-9]{20,}")


def redact(text: str) -> str:
    """The text with ``***`` for every Hugging Face token in it.

    >>> redact("denied for hf_abcdefghijklmnopqrstuvwxyz")
    'denied for hf_***'
    >>> redact("hf_transformer_baseline")
    'hf_transformer_baseline'
    """
    return _TOKEN.sub(r"\1_***", text)
