"""Turns of organizations: a worker first serves the organization that has waited longest for its turn."""

from collections.abc import Sequence

# The id of an organization, and the id of its job.
Address = tuple[int, int]


class Turns:
    """The turn in which each organization with waiting jobs was served last."""

    def __init__(self) -> None:
        # The number of the last turn of each organization, by its id; 0 for an organization that had none.
        self._last_turns: dict[int, int] = {}
        self._turn = 0

    def sort(self, waiting_jobs: Sequence[Address]) -> list[Address]:
        """Sort waiting jobs by when their organizations were served last; jobs of one organization keep their order.

        Forgets when organizations without a waiting job were served.
        """
        self._last_turns = {
            organization_id: self._last_turns.get(organization_id, 0) for organization_id, _ in waiting_jobs
        }

        def last_turn(address: Address) -> int:
            organization_id, _ = address
            return self._last_turns[organization_id]

        return sorted(waiting_jobs, key=last_turn)

    def record(self, organization_id: int) -> None:
        """Record that a job of an organization is served now."""
        self._turn += 1
        self._last_turns[organization_id] = self._turn
