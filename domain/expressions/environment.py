"""The environment of an expression: variables, and functions of the host."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from domain.expressions.errors import EvaluationError
from domain.expressions.runtime import Budget, accepts, name_of
from domain.expressions.types import Type

Functions = Mapping[str, Callable[..., Any]]
"""The Python callables of the host functions by name. Each must be pure, since an evaluation may call it twice."""


@dataclass(frozen=True, slots=True)
class HostFunction:
    """A function that the caller supplies when an expression runs.

    A call charges `cost` units; if it is `metered`, the callable takes the budget before its arguments and charges the
    rest. `label` renders a call for people, with `{0}`, `{1}`... for the arguments; without one the name is shown.
    """

    name: str
    parameters: tuple[Type, ...]
    result: Type
    label: str = ""
    cost: int = 4
    metered: bool = False

    def call(self, functions: Functions, budget: Budget, *values: Any) -> Any:
        """Call the callable of this name; its arguments and its result must have the declared types."""
        if not all(map(accepts, self.parameters, values)):
            types = ", ".join(map(name_of, values))
            raise EvaluationError("null" if None in values else "type", f"{self.name}() cannot be used on ({types})")
        budget.charge(self.cost)
        try:
            function = functions[self.name]
            result = function(budget, *values) if self.metered else function(*values)
        except EvaluationError:
            raise
        except Exception as error:
            raise EvaluationError("function", f"{self.name}() has no result for these arguments") from error
        if not accepts(self.result, result):
            raise EvaluationError("function", f"{self.name}() returned {name_of(result)}, not {self.result}")
        return result


@dataclass(frozen=True)
class Environment:
    """The variables with their types, their names for people, and the host functions."""

    variables: Mapping[str, Type]
    labels: Mapping[str, str] = field(default_factory=dict)
    functions: Mapping[str, HostFunction] = field(default_factory=dict)

    def __init__(
        self,
        variables: Mapping[str, Type],
        labels: Mapping[str, str] | None = None,
        functions: Iterable[HostFunction] = (),
    ) -> None:
        object.__setattr__(self, "variables", MappingProxyType(dict(variables)))
        object.__setattr__(self, "labels", MappingProxyType(dict(labels or {})))
        object.__setattr__(self, "functions", MappingProxyType({function.name: function for function in functions}))
