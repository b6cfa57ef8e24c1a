"""Every operation that writes is in the audit log, or is listed here with the reason why it is not."""

from __future__ import annotations

import pytest

import openapi
from handlers.operation import all_operations
from tests.contract.documents import operations

# operationId -> why it leaves nothing in the audit log.
NOT_AUDITED = {
    "trackEvents": "events are their own record",
    "trackEventsAsync": "events are their own record",
    "trackEvent": "events are their own record",
    "createPurchaseOrder": "an order comes with an event, which is its record",
    "batchCreatePurchaseOrders": "an order comes with an event, which is its record",
    "createAccessToken": "makes no record",
    "createMemberAccessToken": "makes no record",
    "uploadImportPart": "the import is in it when it begins and when it is started",
    "checkMembersExist": "reads",
    "checkMemberAudiences": "reads",
    "batchGetMembers": "reads",
    "parseExpressions": "reads",
    "formatExpressions": "reads",
    "simulate": "reads",
    "quotePointsPayment": "reads",
}
WRITES = {
    operation.operation_id
    for surface in openapi.SURFACES
    for operation in operations(openapi.bundle(surface))
    if operation.method.lower() != "get"
}


@pytest.mark.parametrize("operation_id", sorted(WRITES))
def test_writes_are_audited(operation_id: str) -> None:
    assert (all_operations()[operation_id].audit is None) == (operation_id in NOT_AUDITED)


def test_reads_are_not_audited() -> None:
    assert [
        name
        for name, all_operation in all_operations().items()
        if all_operation.audit is not None and name not in WRITES
    ] == []


def test_the_reasons_are_those_of_operations_that_write() -> None:
    assert NOT_AUDITED.keys() <= WRITES
