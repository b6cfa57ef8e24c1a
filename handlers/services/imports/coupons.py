"""Imports of coupon codes, and of the coupons of members."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from typing import Any

from domain.coupons.book_rules import refuse_archived
from domain.coupons.books import CouponBook, code_taken, refuse_codes
from domain.currencies import EXACT
from domain.imports.records import CREATE
from domain.members import Member
from domain.problems import Refusal
from handlers.call import INTEGRATION
from handlers.services.coupons.assign_and_use import CouponCommand, CouponRequest, assign_coupons
from handlers.services.imports.reading import ImportStep, RecordsByName
from handlers.services.imports.rows import ImportRow
from persistence.coupons import books, codes
from persistence.coupons.books import BOOKS
from persistence.coupons.usages import USAGES

# The fields of a row by the names that they have in the body of `assignCoupon`.
_FIELD_OF_NAME = {
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
_FIELD_OF_POINTER = {f"/{name}": field for name, field in _FIELD_OF_NAME.items()}


def import_coupons(step: ImportStep) -> None:
    """Assign the coupons of rows."""
    call = step.call
    books_by_name = _books_by_name(step)
    members_by_name = step.find_members()
    own_keys = _find_own_assignments(step)

    def read(row: ImportRow) -> CouponRequest:
        member = step.member_of(row, members_by_name)
        step.refuse_own_export(row, own_keys, member)
        return _assignment_request(step, row, books_by_name.find(row), member)

    new_items = step.read_new(read, USAGES)
    step.execute_all(new_items, lambda requests: assign_coupons([call] * len(requests), requests))


def _find_own_assignments(step: ImportStep) -> set[str]:
    """The keys of the assignments that rows were exported from, if this organization has them."""
    keys = step.record_keys()
    organization_id = step.call.organization.organization_id
    return USAGES.find_values(step.call.db, organization_id, coupon_usage_key=keys) if keys else set()


def _assignment_request(step: ImportStep, row: ImportRow, book: CouponBook, member: Member) -> CouponRequest:
    """The assignment of coupons by a row; raises RowFault."""
    values = row.values
    body: dict[str, Any] = {name: values[field] for name, field in _FIELD_OF_NAME.items() if field in values}
    step.check_body("CouponAssignment", body, _FIELD_OF_POINTER, INTEGRATION)
    expires_at = step.expiry_in(row, "expiresAt")
    command = CouponCommand(
        codes=(values["code"],) if "code" in values else (),
        amount=Decimal(values.get("amount", 1)),
        remaining_value=_remaining_value(step, book, values),
        keys=(step.key_of(row),),
        expires_at=expires_at,
        coupon_data=values.get("couponData"),
        custom_attributes=values.get("customAttributes"),
        external_id=values.get("externalId"),
        description=values.get("description"),
        tags=tuple(values.get("tags", ())),
        # A price in points was paid in the former system.
        points_override=Decimal(values.get("pointsOverride", 0)),
    )
    return CouponRequest(member, book, command)


def _remaining_value(step: ImportStep, book: CouponBook, values: Mapping[str, Any]) -> Decimal | None:
    """The remaining value of all coupons of a row, None for the full value; raises RowFault."""
    if "remainingValue" not in values:
        return None
    remaining_value = Decimal(values["remainingValue"])
    amount = values.get("amount", 1)
    if not book.is_value_coupon or book.face_value is None:
        raise step.fault("remainingValue", "cannot be set: the coupons of this book have no value.")
    # At most one of the coupons is partly used, and none is used up.
    minimum, maximum = (EXACT.multiply(count, book.face_value) for count in (amount - 1, amount))
    if not minimum < remaining_value <= maximum:
        bounds = f"must be more than {minimum:f} and at most {maximum:f} for {amount} coupons."
        raise step.fault("remainingValue", bounds)
    return remaining_value


def _books_by_name(step: ImportStep) -> RecordsByName[CouponBook]:
    """The coupon books that rows name."""
    call = step.call
    named_books = books.find_all_named(call.db, call.organization.organization_id, step.values_of("couponBook"))
    return RecordsByName(
        step, "couponBook", "coupon book", [(book, (book.coupon_book_key, book.name)) for book in named_books]
    )


def import_coupon_codes(step: ImportStep) -> None:
    """Add the codes of rows to their books."""
    call = step.call
    books_by_name = _books_by_name(step)

    def read(row: ImportRow) -> tuple[int, ImportRow]:
        step.check_body("CouponCodes", {"codes": [row.values["code"]]}, {"/codes/0": "code"}, INTEGRATION)
        return books_by_name.find(row).coupon_book_id, row

    by_book: dict[int, list[ImportRow]] = {}
    for book_id, row in step.read(read):
        by_book.setdefault(book_id, []).append(row)
    by_id = {
        book.coupon_book_id: book
        for book in BOOKS.find_all(call.db, call.organization.organization_id, coupon_book_id=by_book)
    }
    for book_id, book_rows in sorted(by_book.items()):
        _add_codes(step, BOOKS.lock(call.db, by_id[book_id]), book_rows)


def _add_codes(step: ImportStep, book: CouponBook, rows: Sequence[ImportRow]) -> None:
    """Add the codes of rows to a locked book; in the mode `upsert`, codes that the book has already count as done."""
    call = step.call
    existing_codes = set(codes.find_taken_codes(call.db, book, [row.values["code"] for row in rows]))
    new_codes: list[str | None] = []
    for row in rows:
        code = row.values["code"]
        try:
            refuse_archived(book)
            if code not in existing_codes:
                refuse_codes(replace(book, coupon_count=book.coupon_count + len(new_codes)), [code])
                existing_codes.add(code)
                new_codes.append(code)
            elif step.job.mode == CREATE:
                raise code_taken(code)
        except Refusal as refusal:
            step.fail(row, refusal.detail, "code")
    if new_codes:
        codes.add_codes(call.db, book, new_codes, call.now)
