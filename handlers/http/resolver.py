"""connexion's resolver: maps every operation, named by surface and operationId, to one dispatcher."""

from collections.abc import Callable
from typing import Any

from connexion.exceptions import ResolverError
from connexion.operations import AbstractOperation
from connexion.resolver import Resolution, Resolver


class SurfaceResolver(Resolver):  # type: ignore[misc]
    """Names the operations of one document `surface:operationId`.

    Both documents may have the same operationId.
    """

    def __init__(self, surface: str, dispatch: Callable[..., Any]) -> None:
        super().__init__()
        self._surface = surface
        self._dispatch = dispatch

    def resolve(self, operation: AbstractOperation) -> Resolution:
        """The dispatcher, for any operation; raises ResolverError for one without an operationId."""
        if not operation.operation_id:
            raise ResolverError(f"{operation.method} {operation.path} has no operationId")
        return Resolution(self._dispatch, f"{self._surface}:{operation.operation_id}")
