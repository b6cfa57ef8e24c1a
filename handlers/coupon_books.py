"""Coupon books and their codes (integration 4.1; administration "Coupon books and codes")."""

from collections.abc import Mapping
from typing import Any

from domain.coupons.book_rules import refuse_archived
from domain.coupons.books import CODELESS, CodesNotAccepted, Coupon, CouponBook, code_taken, refuse_codes
from domain.triggers import COUPON_BOOK, CREATED, UPDATED
from handlers.audit_trail import Audited
from handlers.call import ADMINISTRATION, INTEGRATION, Call
from handlers.messages.base import Changes, wrapped
from handlers.messages.lists import listed, listed_by_cursor, results
from handlers.operation import declare_get, declare_list, operation
from handlers.schemas.coupon_books import BOOK, CHANGED_BOOK, NEW_BOOK, StatusChange, references_response
from handlers.schemas.coupons import COUPON, CodeChange, NewCodes
from handlers.services.coupons.limit_books import limit_books
from handlers.services.coupons.validate_book import CouponBookProperties, checked_book_values
from handlers.services.webhooks.outbox import queue_entity_change
from persistence.content import documents
from persistence.coupons import book_references, books, codes
from persistence.coupons.books import BOOKS
from persistence.paging import Page, Paged

_BOOK_RESPONSE = {surface: wrapped("couponBook", shape) for surface, shape in BOOK.items()}

_AUDITED = Audited("coupon-book", "coupon_book_id", BOOK[ADMINISTRATION])
_AUDITED_CHANGE = _AUDITED.changing(is_found_by_handler=True)


declare_list("listCouponBooks", books.find_page, {surface: listed(shape) for surface, shape in BOOK.items()})


@operation("createCouponBook", body=NEW_BOOK, response=_BOOK_RESPONSE, audit=_AUDITED)
def create_coupon_book(call: Call, body: Changes[CouponBookProperties]) -> CouponBook:
    """Create a book; a codeless book gets its only coupon, which has no code."""
    values = {"coupon_book_key": call.new_key(), **checked_book_values(call, body, before=None)}
    with limit_books(call):
        book = BOOKS.add(call.db, call.organization.organization_id, values, call.now)
    if book.type == CODELESS:
        codes.add_codes(call.db, book, [None], call.now)
    return _notify_triggers(call, book, CREATED)


declare_get("getCouponBook", "book", _BOOK_RESPONSE)


@operation("updateCouponBook", body=CHANGED_BOOK, response=_BOOK_RESPONSE, audit=_AUDITED_CHANGE)
def update_coupon_book(call: Call, book: CouponBook, body: Changes[CouponBookProperties]) -> CouponBook:
    """Change the fields that are sent; the resulting book must be consistent."""
    with limit_books(call):
        book = BOOKS.lock(call.db, book)
        refuse_archived(book)
        call.audit.keep_before(book)
        values = checked_book_values(call, body, book)
        changed_book = BOOKS.store(call.db, book, values, call.now)
    return _notify_triggers(call, changed_book, UPDATED)


# `changes_configuration` makes processes forget the cached content of members, which depends on the status.
@operation("updateCouponBookStatus", response=_BOOK_RESPONSE, audit=_AUDITED_CHANGE, changes_configuration=True)
def update_coupon_book_status(call: Call, book: CouponBook, body: StatusChange) -> CouponBook:
    """Publish, withdraw or archive a book; archiving is final."""
    book = BOOKS.lock(call.db, book)
    refuse_archived(book)
    call.audit.keep_before(book)
    changed_book = BOOKS.store(call.db, book, {"publishing_status": body.publishing_status}, call.now)
    return _notify_triggers(call, changed_book, UPDATED)


def _notify_triggers(call: Call, book: CouponBook, action: str) -> CouponBook:
    """Queue the messages about a changed book; return it."""
    queue_entity_change(call, COUPON_BOOK, action, lambda: BOOK[INTEGRATION](book))
    return book


@operation("checkCouponBookReferences", response=references_response)
def check_coupon_book_references(call: Call, book: CouponBook) -> Mapping[str, Any]:
    """Find the records that refer to the book."""
    return {
        "campaigns": book_references.find_assigning_actions(call.db, book),
        "documents": documents.find_documents_about(call.db, book),
    }


@operation("listCouponBookCoupons", response=listed_by_cursor(COUPON))
def list_coupon_book_coupons(call: Call, book: CouponBook, query: Mapping[str, Any]) -> Paged[Coupon]:
    """A page of the book's coupons."""
    return codes.find_page_of_book(call.db, book, Page.of(query))


@operation("addCouponBookCoupons", response=results(COUPON, "codes"), audit="coupon-book")
def add_coupon_book_coupons(call: Call, book: CouponBook, body: NewCodes) -> list[Coupon]:
    """Add codes to a book, all or none, in a fixed number of statements."""
    book = BOOKS.lock(call.db, book)
    refuse_archived(book)
    refuse_codes(book, body.codes)
    existing_codes = codes.find_taken_codes(call.db, book, body.codes)
    if existing_codes:
        raise code_taken(existing_codes[0])
    coupons = codes.add_codes(call.db, book, body.codes, call.now)
    ids = [coupon.coupon_id for coupon in coupons]
    after = {"couponsAdded": len(ids), "firstCouponId": min(ids), "lastCouponId": max(ids)}
    call.audit.add("coupon-book", book.coupon_book_id, after=after)
    return coupons


declare_get("getCouponCode", "coupon", wrapped("couponCode", COUPON))


@operation(
    "updateCouponCode",
    response=_BOOK_RESPONSE,
    # Serializes changes of the coupon, but adds no entry: the result is the book. The handler adds the coupon's entry.
    audit=Audited("coupon", "coupon_id", COUPON).changing("coupon", records=lambda book: ()),
)
def update_coupon_code(call: Call, book: CouponBook, coupon: Coupon, body: CodeChange) -> CouponBook:
    """Change the code of a coupon; return its book."""
    if book.type == CODELESS:
        raise CodesNotAccepted("The coupon book is of the type codeless: its coupon has no code that could change.")
    # Change the coupon before the book is locked, in the same order as assignments lock both.
    codes.store_code(call.db, coupon, body.code, call.now)
    after = {"couponBookId": book.coupon_book_id, "code": body.code}
    call.audit.add(
        "coupon", coupon.coupon_id, before={"couponBookId": book.coupon_book_id, "code": coupon.code}, after=after
    )
    book = BOOKS.lock(call.db, book)
    refuse_archived(book)
    return book
