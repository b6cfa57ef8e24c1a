"""Generated codes: drawn from an alphabet, between a prefix and a suffix."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from domain.problems import FieldFault, InvalidRequest

# Capital letters and digits without those that look alike (0 O, 1 I L, 2 Z, 5 S, 8 B, U V).
CLEAR_CHARACTERS = "34679ACDEFGHJKMNPQRTWXY"
LEAST_BITS = 40
_LENGTH = 18
_MOST_CHARACTERS = 255


class RandomSource(Protocol):
    """A source of random values that nobody can predict, such as `secrets.SystemRandom()`."""

    def choices(self, population: str, *, k: int) -> list[str]:
        """The given number of characters of the alphabet, each with the same probability."""


@dataclass(frozen=True, slots=True)
class CodePattern:
    """The pattern of a book's codes; the default one has 18 characters of 23, which is 81 bits."""

    length: int = _LENGTH
    alphabet: str = CLEAR_CHARACTERS
    prefix: str = ""
    suffix: str = ""

    @property
    def bits(self) -> float:
        """The entropy of a code: the binary logarithm of the number of possible codes."""
        return self.length * math.log2(len(self.alphabet))

    def as_members(self) -> dict[str, Any]:
        """The pattern as stored and returned."""
        return {name: getattr(self, name) for name in self.__slots__}

    def draw(self, source: RandomSource) -> str:
        """A random code; the caller that stores it ensures that it is new in its book."""
        return self.prefix + "".join(source.choices(self.alphabet, k=self.length)) + self.suffix


def pattern_of(stored: Mapping[str, Any] | None) -> CodePattern:
    """The pattern of a book; None is the default one."""
    return CodePattern(**(stored or {}))


def check_pattern(given: Mapping[str, Any], pointer: str = "/codePattern") -> CodePattern:
    """The pattern with its defaults; raises InvalidRequest if codes were easy to guess or too long."""
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
