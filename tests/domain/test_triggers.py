"""Which messages a trigger gets."""

from __future__ import annotations

import pytest

from domain.triggers import Subscription


def subscription(type="EntityChangeWebhook", *, event_types=(), entities=()):
    """The subscription of a trigger; empty lists select all events and entities."""
    return Subscription(1, type, frozenset(event_types), frozenset(entities))


def test_a_trigger_subscribes_to_its_event_types_or_to_all():
    assert subscription("WebHook").includes_event("member-created")
    assert subscription("WebHook", event_types=["member-created"]).includes_event("member-created")
    assert not subscription("WebHook", event_types=["member-updated"]).includes_event("member-created")


@pytest.mark.parametrize(
    ("trigger", "is_included"),
    [
        pytest.param(subscription(entities=[]), True, id="all entities"),
        pytest.param(subscription(entities=["member"]), True, id="names members"),
        pytest.param(subscription(entities=["campaign"]), False, id="another entity"),
        pytest.param(subscription(type="WebHook", entities=[]), False, id="trigger of events"),
        pytest.param(
            subscription(type="WebHook", entities=["member"]), False, id="trigger of events that names members"
        ),
    ],
)
def test_changes_of_members_go_to_triggers_of_entities_that_select_members(trigger, is_included):
    assert trigger.includes_entity("member") is is_included


@pytest.mark.parametrize(
    ("trigger", "is_included"),
    [
        pytest.param(subscription(entities=["user-invitation"]), True, id="names invitations"),
        pytest.param(subscription(entities=[]), False, id="all entities"),
        pytest.param(subscription(entities=["member"]), False, id="another entity"),
        pytest.param(subscription(type="WebHook", entities=["user-invitation"]), False, id="trigger of events"),
    ],
)
def test_invitations_go_only_to_triggers_of_entities_that_name_them(trigger, is_included):
    assert trigger.includes_invitations is is_included
