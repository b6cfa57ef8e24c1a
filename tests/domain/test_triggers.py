"""Which messages a trigger gets."""

from __future__ import annotations

import pytest

from domain.triggers import Listener


def listener(kind="EntityChangeWebhook", event_types=(), entities=()):
    return Listener(1, kind, frozenset(event_types), frozenset(entities))


def test_a_trigger_subscribes_to_its_event_types_or_to_all():
    assert listener("WebHook").hears_event("member-created")
    assert listener("WebHook", ["member-created"]).hears_event("member-created")
    assert not listener("WebHook", ["member-updated"]).hears_event("member-created")


@pytest.mark.parametrize(
    ("trigger", "hears"),
    [
        (listener(), True),
        (listener(entities=["member"]), True),
        (listener(entities=["campaign"]), False),
        (listener("WebHook"), False),
        (listener("WebHook", entities=["member"]), False),
    ],
)
def test_changes_of_records_go_to_triggers_of_their_type(trigger, hears):
    assert trigger.hears_entity("member") is hears


@pytest.mark.parametrize(
    ("trigger", "hears"),
    [
        (listener(entities=["user-invitation"]), True),
        (listener(), False),
        (listener(entities=["member"]), False),
        (listener("WebHook", entities=["user-invitation"]), False),
    ],
)
def test_invitations_go_only_to_triggers_that_name_them(trigger, hears):
    assert trigger.hears_invitations is hears
