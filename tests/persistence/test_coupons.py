"""How the codes of coupon books are found."""

from __future__ import annotations

from sqlalchemy import event, text

from persistence.coupons import holdings
from tests.builders.coupon_shop import CouponShop


def test_the_next_free_codes_are_found_without_reading_the_other_codes(engine):
    shop = CouponShop.new(engine)
    book = shop.book("list")
    shop.add_codes(book, [f"C-{n}" for n in range(3000)])
    with engine.begin() as db:
        db.execute(text("ANALYZE coupons"))
        statements = []
        listener = lambda c, cursor, statement, parameters, *rest: statements.append((statement, parameters))  # noqa: E731
        event.listen(db, "before_cursor_execute", listener)
        coupons = holdings.claim_free_codes(db, book, 2, excluded_ids=[], at=shop.now, lock=True)
        event.remove(db, "before_cursor_execute", listener)
        assert [coupon.code for coupon in coupons] == ["C-0", "C-1"]
        db.execute(text("SET LOCAL enable_seqscan = off"))
        plan = "\n".join(row[0] for row in db.exec_driver_sql("EXPLAIN " + statements[0][0], statements[0][1]))
    assert "ix_coupons_unassigned" in plan, plan
    assert "Sort" not in plan, plan
