"""Imports of coupons that members have: each row is an assignment, and all of them are one unit of work."""

from collections.abc import Sequence
from decimal import Decimal
from typing import Any

from domain.coupons.books import CouponBook
from domain.imports.records import FailedRow, ImportJob, RowFault
from domain.members import Member
from handlers.call import INTEGRATION, Call
from handlers.services.coupons.assign_and_use import CouponCommand, CouponRequest, assign_by_requests
from handlers.services.imports.checks import NameOf, check_body, moment_in
from handlers.services.imports.coupon_codes import book_names
from handlers.services.imports.reading import (
    do_all,
    find_members,
    key_of,
    member_of,
    read_rows,
    unused,
)
from handlers.services.imports.rows import ImportRow
from persistence.coupons.usages import USAGES

# The fields of a row by those of `assignCoupon`.
_OF_OPERATION = {
    "code": "code",
    "amount": "amount",
    "pointsOverride": "pointsOverride",
    "couponData": "couponData",
    "usageData": "customAttributes",
    "externalId": "externalId",
    "description": "description",
    "tags": "tags",
    "systemUniqueKey": "systemUniqueKey",
}
_FIELDS = {f"/{name}": field for name, field in _OF_OPERATION.items()}


def import_coupons(call: Call, job: ImportJob, rows: Sequence[ImportRow], name_of: NameOf) -> list[FailedRow]:
    """Assign the coupons of rows; returns the rows that failed."""
    failed: list[FailedRow] = []
    names, known = book_names(call, rows), find_members(call, rows)

    def read(row: ImportRow) -> tuple[ImportRow, CouponRequest]:
        return row, _request(call, job, row, names.of(row, name_of), member_of(row, known, name_of), name_of)

    asked = read_rows(job, rows, failed, name_of, read)
    keys = [key_of(job, row) for row, _ in asked]
    used = USAGES.find_all(call.db, call.organization.organization_id, system_unique_key=keys)
    left = unused(job, asked, (usage.system_unique_key for usage in used), failed, name_of)
    do_all(left, failed, assign_by_requests)
    return failed


def _request(
    call: Call, job: ImportJob, row: ImportRow, book: CouponBook, member: Member, name_of: NameOf
) -> CouponRequest:
    """The assignment that a row asks for; raises RowFault."""
    values = row.values
    body: dict[str, Any] = {name: values[field] for name, field in _OF_OPERATION.items() if field in values}
    check_body("CouponAssignment", body, _FIELDS, name_of, INTEGRATION)
    expires_at = moment_in(values, "expiresAt", name_of, call.organization.zone, is_end=True)
    if expires_at is not None and expires_at <= call.now:
        raise RowFault(f"{name_of('expiresAt')} is not in the future.", name_of("expiresAt"))
    command = CouponCommand(
        codes=(values["code"],) if "code" in values else (),
        amount=Decimal(values.get("amount", 1)),
        keys=(key_of(job, row),),
        expires_at=expires_at,
        coupon_data=values.get("couponData"),
        custom_attributes=values.get("customAttributes"),
        external_id=values.get("externalId"),
        description=values.get("description"),
        tags=tuple(values.get("tags", ())),
        # What the member paid for it was paid before.
        points_override=Decimal(values.get("pointsOverride", 0)),
    )
    return CouponRequest(call, member, book, command)
