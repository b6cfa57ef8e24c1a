"""Which messages a trigger gets."""

from __future__ import annotations

import pytest

from domain.triggers import Subscription


def subscription(kind="EntityChangeWebhook", *, event_types=(), entities=()):
    """The subscription of a trigger; empty lists select all events and entities."""
    return Subscription(1, kind, frozenset(event_types), frozenset(entities))


def test_a_trigger_subscribes_to_its_event_types_or_to_all():
    assert subscription("WebHook").includes_event("member-created")
    assert subscription("WebHook", event_types=["member-created"]).includes_event("member-created")
    assert not subscription("WebHook", event_types=["member-updated"]).includes_event("member-created")


@pytest.mark.parametrize(
    ("trigger", "is_included"),
    [
        (subscription(), True),
        (subscription(entities=["member"]), True),
        (subscription(entities=["campaign"]), False),
        (subscription("WebHook"), False),
        (subscription("WebHook", entities=["member"]), False),
    ],
)
def test_changes_of_records_go_to_triggers_of_their_type(trigger, is_included):
    assert trigger.includes_entity("member") is is_included


@pytest.mark.parametrize(
    ("trigger", "is_included"),
    [
        (subscription(entities=["user-invitation"]), True),
        (subscription(), False),
        (subscription(entities=["member"]), False),
        (subscription("WebHook", entities=["user-invitation"]), False),
    ],
)
def test_invitations_go_only_to_triggers_that_name_them(trigger, is_included):
    assert trigger.includes_invitations is is_included
