"""On a cluster of Citus, no statement of a call about a member goes to several shards."""

from __future__ import annotations

import os

import pytest
from sqlalchemy import event

from tests.builders.api import running_api
from tests.builders.campaigns import mint
from tests.builders.coupons import CouponBooks
from tests.builders.member_calls import ADMINISTRATION_READS, READS, calls_about
from tests.builders.missions import member_id_of
from tests.builders.tracking import GENERIC, Shop, running


def refuse_several_shards(connection, record):
    """Let Citus refuse the statements that go to several shards."""
    with connection.cursor() as cursor:
        cursor.execute("SET citus.multi_task_query_log_level = error")
    connection.commit()


@pytest.mark.skipif("LOYALTY_TEST_DATABASE_URL" not in os.environ, reason="needs a cluster")
def test_calls_about_a_member_are_executed_by_one_shard(settings):
    with running_api(settings) as api:
        shop = Shop(api.organization())
        shop.campaign(running(mint(5)), eventType=GENERIC)
        book = CouponBooks(shop.organization).make(name="Flat white", type="codeless")
        badge = shop.integration.post("/badges", {"name": "Regular", "maxAmount": 9, "active": True})["badge"]
        api.engine.dispose()
        event.listen(api.engine, "connect", refuse_several_shards)
        shop.organization.member("ana")
        for call in calls_about(shop, "ana", book, badge).values():
            call()
        for path in READS:
            shop.integration.get(f"/members/ana{path}".format(**badge))
        program = f"/loyalty-programs/{shop.organization.defaults.loyalty_program_id}"
        for path in ADMINISTRATION_READS:
            shop.administration.get(path.format(memberId=member_id_of(shop, "ana"), program=program))
