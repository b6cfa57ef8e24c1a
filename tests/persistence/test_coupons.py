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

        def record(connection, cursor, statement, parameters, context, many):
            statements.append((statement, parameters))

        event.listen(db, "before_cursor_execute", record)
        coupons = holdings.claim_free_codes(db, book, count=2, excluded_ids=[], at=shop.now, lock=True)
        event.remove(db, "before_cursor_execute", record)
        assert [coupon.code for coupon in coupons] == ["C-0", "C-1"]
        db.execute(text("SET LOCAL enable_seqscan = off"))
        claim, parameters = statements[0]
        plan = "\n".join(db.exec_driver_sql(f"EXPLAIN {claim}", parameters).scalars())
    assert "ix_coupons_unassigned" in plan, plan
    assert "Sort" not in plan, plan
