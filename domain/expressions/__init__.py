"""Expressions: the rules and amounts that people write, in the syntax of CEL with exact decimals.

`parse` or `from_tree` create a tree, `check` finds its types, `compile_expression` creates a program, and `explain`
reports the values of all parts. An unusable expression raises `ExpressionError` with every fault and its place, a
failing evaluation `EvaluationError`. The language is described in docs/expressions.md.
"""

from domain.expressions.check import Analysis, check
from domain.expressions.environment import Environment, Functions, HostFunction
from domain.expressions.errors import CostExceeded, EvaluationError, ExpressionError, Fault, TimeExceeded
from domain.expressions.explain import CharacterBudget, Trace, explain, reason
from domain.expressions.jsontree import from_tree, to_tree
from domain.expressions.labels import label
from domain.expressions.limits import DEFAULT_COST, EVENT_COST, MAX_TEXTS
from domain.expressions.parse import parse
from domain.expressions.program import Program, compile_expression, to_text
from domain.expressions.runtime import Budget, Deadline, TypeValue
from domain.expressions.tree import Node
from domain.expressions.types import (
    BOOL,
    DECIMAL,
    DURATION,
    DYN,
    INT,
    NULL,
    STRING,
    TIMESTAMP,
    Field,
    ListOf,
    MapOf,
    ObjectOf,
    Type,
)

__all__ = [
    "BOOL",
    "DECIMAL",
    "DEFAULT_COST",
    "DURATION",
    "DYN",
    "EVENT_COST",
    "INT",
    "MAX_TEXTS",
    "NULL",
    "STRING",
    "TIMESTAMP",
    "Analysis",
    "Budget",
    "CharacterBudget",
    "CostExceeded",
    "Deadline",
    "Environment",
    "EvaluationError",
    "ExpressionError",
    "Fault",
    "Field",
    "Functions",
    "HostFunction",
    "ListOf",
    "MapOf",
    "Node",
    "ObjectOf",
    "Program",
    "TimeExceeded",
    "Trace",
    "Type",
    "TypeValue",
    "check",
    "compile_expression",
    "explain",
    "from_tree",
    "label",
    "parse",
    "reason",
    "to_text",
    "to_tree",
]
