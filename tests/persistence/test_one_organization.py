"""The tests watch for statements that are not limited to one organization; here is what the watch reports."""

from __future__ import annotations

import pytest

from persistence import connections
from tests.builders import one_organization


@pytest.mark.parametrize(
    ("statement", "is_across"),
    [
        ("SELECT name FROM members WHERE member_id = %s", True),
        ("SELECT m.name FROM members m JOIN events e USING (organization_id, member_id) WHERE m.member_id = 5", True),
        ("UPDATE members SET active = false WHERE member_id = ANY(%s)", True),
        ("DELETE FROM queued_events", True),
        ("SELECT name FROM members WHERE organization_id = %s AND member_id = %s", False),
        ("SELECT 1 FROM events e WHERE e.organization_id = CAST(:organization_id AS bigint)", False),
        (
            "INSERT INTO events (loyalty_event_id, organization_id) SELECT a, b FROM json_to_recordset('') AS x(a int)",
            False,
        ),
        ("INSERT INTO events (loyalty_event_id, organization_id) SELECT 5, organization_id FROM badges", True),
        ("SELECT user_id FROM users WHERE auth_client_id = %s", False),
        ("SELECT members FROM unnest(%s) AS members", False),
    ],
)
def test_a_statement_about_records_without_an_organization_is_across_organizations(statement, is_across):
    assert one_organization.is_across(statement) == is_across


@pytest.mark.parametrize(
    ("sub_select", "is_across"),
    [
        ("SELECT 1 FROM events e WHERE e.organization_id = m.organization_id AND (e.member_id = m.member_id)", True),
        ("SELECT 1 FROM events e WHERE e.organization_id = %s AND (e.member_id = m.member_id)", False),
        ("SELECT 1 FROM events e WHERE (e.organization_id = %s AND e.member_id = m.member_id)", False),
        ("SELECT 1 FROM events WHERE organization_id = %s UNION ALL SELECT 1 FROM badges", True),
        ("SELECT 1 WHERE EXISTS (SELECT FROM events e WHERE e.organization_id = m.organization_id)", True),
        ("SELECT count(*) FROM unnest(m.codes) AS events", False),
    ],
)
def test_a_sub_select_without_the_organization_as_a_value_is_across_organizations(sub_select, is_across):
    condition = "m.organization_id = %s"
    assert one_organization.is_across(f"SELECT ({sub_select}) FROM members m WHERE {condition}") == is_across
    assert (
        one_organization.is_across(f"SELECT 1 FROM members m WHERE {condition} AND EXISTS ({sub_select})") == is_across
    )
    lateral = f"CROSS JOIN LATERAL ({sub_select}) x"
    assert one_organization.is_across(f"SELECT 1 FROM members m {lateral} WHERE {condition}") == is_across


@pytest.mark.parametrize(
    ("statement", "is_across"),
    [
        ("SELECT 1 FROM (SELECT * FROM events) e WHERE e.organization_id = %s", False),
        ("SELECT 1 FROM (SELECT * FROM events) e", True),
        ("SELECT 1 FROM (SELECT * FROM events WHERE organization_id = %s) e", False),
        ("SELECT 1 FROM (SELECT * FROM events WHERE organization_id = %s) wallets", False),
        (
            "SELECT 1 FROM (SELECT * FROM events WHERE organization_id = %s) e JOIN badges b USING (organization_id)",
            True,
        ),
    ],
)
def test_a_derived_table_gets_the_organization_of_its_query(statement, is_across):
    assert one_organization.is_across(statement) == is_across


def test_statements_of_the_product_across_organizations_are_reported(monkeypatch):
    messages = []
    # Instead of the connection, and of the watch over this run.
    monkeypatch.setattr(connections, "_transmit", lambda cursor, message, parameters=None: messages.append(message))
    monkeypatch.setattr(one_organization, "_is_of_a_test", lambda: False)
    message = "BEGIN; SELECT 1 FROM badges WHERE organization_id = 5; SELECT count(*) FROM badges WHERE name = 'a;b'"
    with one_organization.watched() as statements:
        connections._transmit(None, message)
    # Texts are reported without their content.
    assert statements == {"SELECT count(*) FROM badges WHERE name = ''"}
    assert messages == [message]
