"""Changes of members."""

from typing import Any

from domain.members import Member, merged, merged_profile
from handlers.messages.base import Changes, values_of


def changed_values(before: Member, changes: Changes[Any]) -> dict[str, Any]:
    """The values of a member after a change: the profile and the wishes for notifications are merged."""
    update = changes.of(before)
    values = values_of(update)
    if "profile" in changes.sent:
        values["profile"] = merged_profile(before.profile, update.profile)
    if "notifications" in changes.sent:
        values["notifications"] = merged(before.notifications, update.notifications)
    return values
