"""Units of work for requests: open a unit, let the request change its participants, evaluate the events, and flush."""

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Generic, TypeVar

from domain.members import refuse_erased
from domain.problems import Refusal
from handlers.call import Call, Execution
from handlers.services.unit_of_work.evaluation import evaluate_changes, evaluate_derived
from handlers.services.unit_of_work.unit import UnitOfWork

T = TypeVar("T")


@contextmanager
def open_unit(unit: UnitOfWork, reason: str | None = None, **options: Any) -> Iterator[None]:
    """Open a unit for a request, after its members or wallets were locked; flush it at the end of the block.

    `reason` is the reason in the derived events, None if the block changes nothing: what is due has its own reasons.
    `options` are the arguments of `UnitOfWork.open_for_request`. If the block raises, nothing is stored.
    """
    _open(unit, **options)
    yield
    evaluate_changes(unit, reason)
    unit.flush()


def _open(unit: UnitOfWork, **options: Any) -> None:
    """Open a unit for a request, and evaluate the events of what was due."""
    due_events = unit.open_for_request(**options)
    if unit.execution.is_quiet and (due_events or unit.ledger.steps or unit.has_lapsed_tiers):
        _settle_due(unit)
        due_events = unit.open_for_request(**options)
    if due_events:
        evaluate_derived(unit, due_events)


def _settle_due(unit: UnitOfWork) -> None:
    """Settle and report what was due for the wallets of a quiet unit, which reports nothing itself."""
    reporting_unit = UnitOfWork(replace(unit.execution, is_quiet=False))
    reporting_unit.lock_wallets(unit.ledger_ids, unit.configuration.accounts, loads_owners=True)
    with open_unit(reporting_unit):
        pass
    unit.read_members_again()


@contextmanager
def unit_of_work(
    execution: Execution,
    member_ids: Collection[int],
    reason: str,
    reported_types: Collection[str] = (),
) -> Iterator[UnitOfWork]:
    """Lock members and open a unit of work for a request; flush it at the end of the block.

    `reason` is the reason in the derived events; `reported_types` is as in `UnitOfWork`. Raises MemberErased. If the
    block raises, nothing is stored.
    """
    unit = UnitOfWork(execution, reported_types=reported_types)
    _lock_members(unit, member_ids)
    with open_unit(unit, reason):
        yield unit


def _lock_members(unit: UnitOfWork, member_ids: Collection[int]) -> None:
    """Lock the members with these ids, if they exist; raises MemberErased."""
    unit.lock(member_ids=member_ids)
    for member_id in member_ids:
        _refuse_erased(unit, member_id)


def _refuse_erased(unit: UnitOfWork, member_id: int) -> None:
    """Raise MemberErased for a locked member that was erased; accept an id without a member."""
    member = unit.members.get(member_id)
    if member is not None:
        refuse_erased(member)


@dataclass(frozen=True, slots=True)
class RequestedChange(Generic[T]):
    """A change of one member by a call: `apply` carries it out, and `reason` is the reason in the derived events.

    If `apply` raises a Refusal, it has changed nothing.
    """

    call: Call
    member_id: int
    reason: str
    apply: Callable[[UnitOfWork], T]


def apply_batch(
    changes: Sequence[RequestedChange[T]],
    prepare: Callable[[UnitOfWork], None] = lambda unit: None,
    moments: Collection[datetime] = (),
) -> list[T | Refusal]:
    """Apply the changes of calls of one organization and moment in one unit of work, one after the other.

    `prepare` loads what the changes need, before the first one is applied; `moments` are the moments of changes that
    do not happen now. Returns the result or the refusal of each change.
    """
    outcomes: list[T | Refusal] = []
    unit = UnitOfWork(changes[0].call)
    unit.lock(member_ids={change.member_id for change in changes})
    _open(unit, moments=moments)
    prepare(unit)
    for change in changes:
        try:
            _refuse_erased(unit, change.member_id)
            outcomes.append(change.apply(unit))
        except Refusal as refusal:
            outcomes.append(refusal)
        evaluate_changes(unit, change.reason, origin=change.call.origin)
    unit.flush()
    return outcomes
