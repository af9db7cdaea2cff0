"""Tokenizers: text to ids and back."""

from typing import Any, Protocol

import numpy as np

Array = np.ndarray[Any, Any]


class Tokenizer(Protocol):
    """What the data part asks of a tokenizer."""

    vocab_size: int  # ids are below it
    end_of_document: int | None  # the mark after each document
    identity: str  # two tokenizers with the same identity give the same ids

    def encode(self, text: str) -> list[int]:
        """The ids of a text, without any mark."""
        ...

    def decode(self, ids: list[int]) -> str:
        """The text of ids."""
        ...

    def encode_documents(self, texts: list[bytes]) -> list[Array]:
        """The ids of several pieces of UTF-8 text."""
        ...


class ByteTokenizer:
    """UTF-8 bytes as ids: 256 of them, and the mark if there is one.

    >>> tokens = ByteTokenizer()
    >>> tokens.encode("aé"), tokens.decode([97, 195, 169])
    ([97, 195, 169], 'aé')
    """

    def __init__(self, end_of_document: int | None = None) -> None:
        self.end_of_document = end_of_document
        self.vocab_size = max(256, 1 + (end_of_document or 0))
        self.identity = f"bytes, mark {end_of_document}"

    def encode(self, text: str) -> list[int]:
        """The bytes of the text."""
        return list(text.encode())

    def decode(self, ids: list[int]) -> str:
        """The text of the bytes; what is not UTF-8 becomes U+FFFD."""
        return bytes(i for i in ids if i < 256).decode("utf-8", "replace")

    def encode_documents(self, texts: list[bytes]) -> list[Array]:
        """The bytes themselves, without a copy."""
        return [np.frombuffer(text, np.uint8) for text in texts]
