"""Acting at the desks by request: badges, coupons, missions, with all that follows, in one unit of work."""

from __future__ import annotations

from collections.abc import Callable, Collection
from datetime import datetime
from typing import TypeVar

from domain.events import FULL
from domain.members import refuse_erased
from handlers.call import Call
from handlers.services.unit_of_work.orders import OrderWork
from handlers.services.unit_of_work.reversals import Reversals
from handlers.services.unit_of_work.unit import UnitOfWork
from handlers.services.unit_of_work.work import Participants

T = TypeVar("T")


class _ByRequest(UnitOfWork):
    """What a request does at the desks, with what comes of it."""

    def run(
        self, member_ids: Collection[int], act: Callable[[Participants], T], reason: str, moments: Collection[datetime]
    ) -> T:
        """Lock the members, do it, evaluate what is to be reported, and store all of it."""
        members = self._lock((), member_ids)
        for member_id in member_ids:
            if member_id in members:
                refuse_erased(members[member_id])
        orders = OrderWork(self._db, self._organization_id, (), self._now, (), ())
        work = self._begin((), orders, Reversals(self._db, self._organization_id, ()), True, moments)
        if work.participants is None or work.derivation is None:
            raise AssertionError("desks are open where they are asked for")
        answer = act(work.participants)
        self._report([*work.derivation.take_derived(), *work.participants.take_derived()], None, reason, work)
        self._write(work)
        return answer


def at_desks(
    call: Call,
    member_ids: Collection[int],
    act: Callable[[Participants], T],
    reason: str,
    moments: Collection[datetime] = (),
) -> T:
    """Let `act` work at the desks of these members, all locked; answers what it answers.

    `reason` is what the events that come of it say about why they were reported; `moments` are when something happens
    that does not happen now. A Refusal of `act` undoes the call.
    """
    unit = _ByRequest(call.db, call.organization, FULL, call.now, call.new_key, call.request_id)
    return unit.run(member_ids, act, reason, moments)
