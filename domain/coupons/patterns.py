"""Codes that are made: drawn from an alphabet, between a prefix and a suffix."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from domain.problems import FieldFault, InvalidRequest

# Capital letters and digits without those that are mistaken for each other (0 O, 1 I L, 2 Z, 5 S, 8 B, U V).
CLEAR_CHARACTERS = "34679ACDEFGHJKMNPQRTWXY"
LEAST_BITS = 40
_LENGTH = 18
_MOST_CHARACTERS = 255


class RandomSource(Protocol):
    """Where chance comes from, such as `secrets.SystemRandom()`: nobody may be able to foretell it."""

    def choices(self, population: str, *, k: int) -> list[str]:
        """So many characters of the alphabet, each as likely as the others."""


@dataclass(frozen=True, slots=True)
class CodePattern:
    """How codes of a book look; the default one has 18 characters of 23, which is 81 bits."""

    length: int = _LENGTH
    alphabet: str = CLEAR_CHARACTERS
    prefix: str = ""
    suffix: str = ""

    @property
    def bits(self) -> float:
        """How hard a code is to guess: the binary logarithm of how many there are."""
        return self.length * math.log2(len(self.alphabet))

    def as_members(self) -> dict[str, Any]:
        """The pattern as it is stored and answered."""
        return {name: getattr(self, name) for name in self.__slots__}

    def draw(self, source: RandomSource) -> str:
        """A code; that it is new in its book is seen to by whoever stores it."""
        return self.prefix + "".join(source.choices(self.alphabet, k=self.length)) + self.suffix


def pattern_of(stored: Mapping[str, Any] | None) -> CodePattern:
    """The pattern of a book; None is the default one."""
    return CodePattern(**(stored or {}))


def check_pattern(given: Mapping[str, Any], pointer: str = "/codePattern") -> CodePattern:
    """The pattern with its defaults; raises InvalidRequest if codes could be guessed, or would be too long."""
    pattern = pattern_of(given)
    faults = []
    if len(set(pattern.alphabet)) < len(pattern.alphabet):
        faults.append(FieldFault("alphabet has the same character twice", pointer=f"{pointer}/alphabet"))
    elif pattern.bits < LEAST_BITS:
        detail = f"length and alphabet come to {pattern.bits:.1f} bits, which could be guessed; {LEAST_BITS} are needed"
        faults.append(FieldFault(detail, pointer=f"{pointer}/length"))
    if len(pattern.prefix) + pattern.length + len(pattern.suffix) > _MOST_CHARACTERS:
        faults.append(FieldFault(f"codePattern makes codes longer than {_MOST_CHARACTERS} characters", pointer=pointer))
    if faults:
        raise InvalidRequest(faults)
    return pattern
