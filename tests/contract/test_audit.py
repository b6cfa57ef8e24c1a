"""Every operation that writes leaves an entry in the audit log, or is listed here with the reason for its exemption."""

from __future__ import annotations

import pytest

import openapi
from handlers.operation import all_operations
from tests.contract.documents import operations

# operationId -> why the operation leaves no entry in the audit log.
NOT_AUDITED = {
    "trackEvents": "events are their own record",
    "trackEventsAsync": "events are their own record",
    "trackEvent": "events are their own record",
    "createPurchaseOrder": "an order comes with an event, which is its record",
    "batchCreatePurchaseOrders": "an order comes with an event, which is its record",
    "createAccessToken": "creates no record",
    "createMemberAccessToken": "creates no record",
    "uploadImportPart": "the import has entries when it is created and when it is started",
    "checkMembersExist": "reads",
    "checkMemberAudiences": "reads",
    "batchGetMembers": "reads",
    "parseExpressions": "reads",
    "formatExpressions": "reads",
    "simulate": "reads",
    "quotePointsPayment": "reads",
}
# The operations that can write: those with another method than GET.
WRITES = {
    operation.operation_id
    for surface in openapi.SURFACES
    for operation in operations(openapi.bundle(surface))
    if operation.method.lower() != "get"
}


@pytest.mark.parametrize("operation_id", sorted(WRITES))
def test_an_operation_that_writes_is_audited_unless_it_is_listed(operation_id: str) -> None:
    leaves_no_entry = all_operations()[operation_id].audit is None
    assert leaves_no_entry == (operation_id in NOT_AUDITED)


def test_reads_are_not_audited() -> None:
    assert [
        name for name, operation in all_operations().items() if operation.audit is not None and name not in WRITES
    ] == []


def test_only_operations_that_write_are_exempt_from_the_audit_log() -> None:
    assert NOT_AUDITED.keys() <= WRITES
