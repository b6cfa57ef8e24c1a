"""Moves changes into the totals of reports: a limited number of each organization in turn."""

import logging
from collections.abc import Callable
from functools import partial

from sqlalchemy import Engine

from persistence import transactions
from persistence.reports.totals import find_waiting_organizations, move_changes

_log = logging.getLogger("loyalty.reports")


class ReportTotals:
    """The progress of one worker through the changes of all organizations, each in a transaction of its own."""

    def __init__(self, engine: Engine, is_stopping: Callable[[], bool] = lambda: False) -> None:
        self._engine = engine
        self._is_stopping = is_stopping
        # The organizations whose last attempt failed: only the first of several failures is logged.
        self._failing_ids: set[int] = set()

    def step(self) -> bool:
        """Move the next changes of each organization; False if none has more of them.

        If this fails for some organizations, it is still done for the others. Raises the error of an unavailable
        database.
        """
        has_more = False
        for organization_id in transactions.run(self._engine, find_waiting_organizations):
            if self._is_stopping():
                break
            try:
                has_more |= transactions.run(self._engine, partial(move_changes, organization_id=organization_id))
            except Exception as error:
                if transactions.is_unavailable(error):
                    raise
                if organization_id not in self._failing_ids:
                    _log.exception("changes of the organization %d were not added to its totals", organization_id)
                self._failing_ids.add(organization_id)
            else:
                self._failing_ids.discard(organization_id)
        return has_more
