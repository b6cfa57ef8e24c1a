"""Turns of organizations: a worker first serves the organization that has waited longest for its turn."""

from collections.abc import Sequence

Address = tuple[int, int]
"""An organization's id and the id of its job."""


class Turns:
    """The turn in which each organization with waiting jobs was served last."""

    def __init__(self) -> None:
        self._served: dict[int, int] = {}
        self._turn = 0

    def sort(self, waiting: Sequence[Address]) -> list[Address]:
        """Sort waiting jobs by when their organizations were served last; jobs of one organization keep their order.

        Forgets when organizations without a waiting job were served.
        """
        self._served = {address[0]: self._served.get(address[0], 0) for address in waiting}
        return sorted(waiting, key=lambda address: self._served[address[0]])

    def record(self, organization_id: int) -> None:
        """Record that a job of an organization is served now."""
        self._turn += 1
        self._served[organization_id] = self._turn
