"""Expressions on the wire, as texts and as trees (administration "Expressions")."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from domain.campaigns.warnings import ExpressionWarning
from handlers.messages.base import Shape


@dataclass(frozen=True, slots=True, kw_only=True)
class _Input:
    is_effect_expression: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class TextInput(_Input):
    """An expression as text."""

    expression: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TreeInput(_Input):
    """An expression as a tree."""

    node: Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Texts:
    """Texts to parse; with `annotate`, the trees in the response have types."""

    inputs: Sequence[TextInput]
    annotate: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Trees:
    """Trees to print; with `annotate`, the trees in the response have types."""

    inputs: Sequence[TreeInput]
    annotate: bool = False


WARNING = Shape(ExpressionWarning)
