"""Imports of coupon codes: any number of rows by a few statements for each book."""

from collections.abc import Sequence
from dataclasses import replace

from domain.coupons.books import CouponBook, code_taken, refuse_archived, refuse_codes
from domain.imports.records import CREATE, FailedRow, ImportJob
from domain.problems import Refusal
from handlers.call import INTEGRATION, Call
from handlers.services.imports.checks import NameOf, check_body
from handlers.services.imports.reading import Names, read_rows, values_of
from handlers.services.imports.rows import ImportRow
from persistence.coupons import books, codes
from persistence.coupons.books import BOOKS


def book_names(call: Call, rows: Sequence[ImportRow]) -> Names[CouponBook]:
    """The coupon books that rows name."""
    named = books.find_all_named(call.db, call.organization.organization_id, values_of(rows, "couponBook"))
    return Names("couponBook", "coupon book", [(book.coupon_book_key, book.name, book) for book in named])


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
    for book_id, of_book in sorted(by_book.items()):
        _add(call, job, BOOKS.lock(call.db, by_id[book_id]), of_book, failed, name_of)
    return failed


def _add(
    call: Call, job: ImportJob, book: CouponBook, rows: Sequence[ImportRow], failed: list[FailedRow], name_of: NameOf
) -> None:
    """Add the codes of rows to a locked book; in the mode `upsert` codes that it has are done."""
    known = set(codes.find_taken(call.db, book, [row.values["code"] for row in rows]))
    new: list[str | None] = []
    for row in rows:
        code = row.values["code"]
        try:
            refuse_archived(book)
            if code not in known:
                refuse_codes(replace(book, coupon_count=book.coupon_count + len(new)), [code])
                known.add(code)
                new.append(code)
            elif job.mode == CREATE:
                raise code_taken(code)
        except Refusal as refusal:
            failed.append(row.failed(refusal.detail, name_of("code")))
    if new:
        codes.add_codes(call.db, book, new, call.now)
