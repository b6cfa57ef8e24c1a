"""Imports of coupon codes, and of the coupons that members have."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from typing import Any

from domain.coupons.book_rules import refuse_archived
from domain.coupons.books import CouponBook, code_taken, refuse_codes
from domain.imports.records import CREATE, FailedRow, ImportJob, RowFault
from domain.members import Member
from domain.problems import Refusal
from handlers.call import INTEGRATION, Call
from handlers.services.coupons.assign_and_use import CouponCommand, CouponRequest, assign_coupons
from handlers.services.imports.reading import (
    RecordsByName,
    do_all,
    find_members,
    key_of,
    member_of,
    read_new_rows,
    read_rows,
    values_of,
)
from handlers.services.imports.rows import ImportRow, NameOf, check_body, moment_in
from persistence.coupons import books, codes
from persistence.coupons.books import BOOKS
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
    names, members_by_name = book_names(call, rows), find_members(call, rows)

    def read(row: ImportRow) -> CouponRequest:
        return _request(call, job, row, names.of(row, name_of), member_of(row, members_by_name, name_of), name_of)

    new_items = read_new_rows(call, job, rows, failed, name_of, read, USAGES)
    do_all(new_items, failed, lambda requests: assign_coupons([call] * len(requests), requests))
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
        remaining_value=_remaining_value(book, values, name_of),
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
    return CouponRequest(member, book, command)


def _remaining_value(book: CouponBook, values: Mapping[str, Any], name_of: NameOf) -> Decimal | None:
    """The rest of the value coupons of a row, None for all of it; raises RowFault."""
    if "remainingValue" not in values:
        return None
    name, remaining, amount = name_of("remainingValue"), Decimal(values["remainingValue"]), values.get("amount", 1)
    if not book.is_value_coupon or book.face_value is None:
        raise RowFault(f"{name} cannot be set: the coupons of this book have no value.", name)
    least, most = (amount - 1) * book.face_value, amount * book.face_value
    if not least < remaining <= most:
        raise RowFault(f"{name} is not more than {least:f} and at most {most:f}, as that of {amount} coupons is.", name)
    return remaining


def book_names(call: Call, rows: Sequence[ImportRow]) -> RecordsByName[CouponBook]:
    """The coupon books that rows name."""
    books_by_name = books.find_all_named(call.db, call.organization.organization_id, values_of(rows, "couponBook"))
    return RecordsByName(
        "couponBook", "coupon book", [(book, (book.coupon_book_key, book.name)) for book in books_by_name]
    )


def import_coupon_codes(call: Call, job: ImportJob, rows: Sequence[ImportRow], name_of: NameOf) -> list[FailedRow]:
    """Add the codes of rows to their books; returns the rows that failed."""
    failed: list[FailedRow] = []
    names = book_names(call, rows)

    def read(row: ImportRow) -> tuple[int, ImportRow]:
        check_body("CouponCodes", {"codes": [row.values["code"]]}, {"/codes/0": "code"}, name_of, INTEGRATION)
        return names.of(row, name_of).coupon_book_id, row

    by_book: dict[int, list[ImportRow]] = {}
    for book_id, row in read_rows(job, rows, failed, name_of, read):
        by_book.setdefault(book_id, []).append(row)
    by_id = {
        book.coupon_book_id: book
        for book in BOOKS.find_all(call.db, call.organization.organization_id, coupon_book_id=by_book)
    }
    for book_id, book_rows in sorted(by_book.items()):
        _add(call, job, BOOKS.lock(call.db, by_id[book_id]), book_rows, failed, name_of)
    return failed


def _add(
    call: Call, job: ImportJob, book: CouponBook, rows: Sequence[ImportRow], failed: list[FailedRow], name_of: NameOf
) -> None:
    """Add the codes of rows to a locked book; in the mode `upsert` codes that it has are done."""
    existing_codes = set(codes.find_taken(call.db, book, [row.values["code"] for row in rows]))
    new: list[str | None] = []
    for row in rows:
        code = row.values["code"]
        try:
            refuse_archived(book)
            if code not in existing_codes:
                refuse_codes(replace(book, coupon_count=book.coupon_count + len(new)), [code])
                existing_codes.add(code)
                new.append(code)
            elif job.mode == CREATE:
                raise code_taken(code)
        except Refusal as refusal:
            failed.append(row.failed(refusal.detail, name_of("code")))
    if new:
        codes.add_codes(call.db, book, new, call.now)
