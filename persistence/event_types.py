"""The custom event types of organizations."""

from domain.event_types import CustomEventType
from domain.problems import NameTaken
from persistence.records import Records
from persistence.tables.events import custom_event_types as table

EVENT_TYPES = Records(
    table,
    CustomEventType,
    conflicts={
        "pk_custom_event_types": (NameTaken, "A custom event type with the apiCode {api_code} already exists."),
    },
)
