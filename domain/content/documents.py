"""Documents: one version for each locale, grouped by key, and the hours of the week at which they are open."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, tzinfo
from typing import Any

from domain.calendar import local_time, not_a_zone, zone_named
from domain.content.collections import ContentCollection, is_uuid, slug_fault
from domain.content.values import MAX_VALUES, searchable_values
from domain.fields import Key
from domain.problems import Conflict, FieldFault

DRAFT, PUBLISHED = "draft", "published"
DEFAULT_LOCALE = ""
DEFAULT_LOCALE_IN_PATHS = "default"
MAX_ATTRS_BYTES = 65_536
MAX_ATTRS_DEPTH = 32
BOOK_FIELD = "couponBookKey"


def locales_for(locale: str) -> list[str]:
    """The locales to be shown for a locale, the best first: `es-AR`, `es`, the default one (RFC 4647, 3.4).

    Unlike in the RFC, case matters: versions are looked up by their exact locale.
    """
    locales = []
    while locale:
        locales.append(locale)
        cut = max(locale.rfind("-"), locale.rfind("_"), 0)
        # A subtag of one letter introduces the next subtag, and has no meaning without it.
        locale = locale[: cut - 2] if cut > 2 and locale[cut - 2] in "-_" else locale[:cut]
    return [*locales, DEFAULT_LOCALE]


class LocaleFixed(Conflict, title="The locale of a version of a document cannot change"):
    """A version of a document keeps its locale; another locale is another version."""


@dataclass(frozen=True, slots=True)
class DocumentAddress:
    """The key or slug by which a path names a document; a document with this key need not exist."""

    key_or_slug: str

    @property
    def key(self) -> str | None:
        """The key, or None for a slug: the form decides which of the two it is."""
        return self.key_or_slug.lower() if is_uuid(self.key_or_slug) else None


@dataclass(frozen=True, slots=True)
class ContentDocument:
    """One locale version of a document."""

    organization_id: int
    content_document_id: int
    content_collection_id: int
    document_key: Key
    locale: str
    slug: str | None
    attrs: Mapping[str, Any]
    status: str
    from_date: datetime | None
    to_date: datetime | None
    audience_keys: tuple[str, ...]
    days_of_week: tuple[str, ...]
    day_of_week_schedule: Mapping[str, Any] | None
    created_at: datetime
    updated_at: datetime


def document_faults(
    collection: ContentCollection, values: Mapping[str, Any], attrs_bytes: int, zones: frozenset[str]
) -> list[FieldFault]:
    """The faults of a document whose single fields are well-formed; `attrs` is checked only if present.

    `attrs_bytes` is the length of `attrs` as JSON, `zones` are the names of all time zones.
    """
    faults = [fault] if (fault := slug_fault(values.get("slug"))) else []
    begin, end = values.get("from_date"), values.get("to_date")
    if begin is not None and end is not None and end < begin:
        faults.append(FieldFault("toDate is before fromDate", pointer="/toDate"))
    faults += schedule_faults(values.get("day_of_week_schedule"), zones)
    if "attrs" in values:
        faults += _attrs_faults(collection, values["attrs"], attrs_bytes)
    return faults


def _attrs_faults(collection: ContentCollection, attrs: Mapping[str, Any], attrs_bytes: int) -> list[FieldFault]:
    """The faults of the fields of a document: too large or too deep ones, and a missing key of a coupon book."""
    faults = []
    if attrs_bytes > MAX_ATTRS_BYTES:
        detail = f"attrs is longer than {MAX_ATTRS_BYTES} bytes as JSON"
        faults.append(FieldFault(detail, pointer="/attrs"))
    if is_deeper(attrs, MAX_ATTRS_DEPTH):
        faults.append(FieldFault(f"attrs is nested deeper than {MAX_ATTRS_DEPTH} levels", pointer="/attrs"))
    if not faults and len(searchable_values(attrs)) > MAX_VALUES:
        detail = f"attrs contains more than {MAX_VALUES} values at its top and in lists there"
        faults.append(FieldFault(detail, pointer="/attrs"))
    if collection.is_coupon and coupon_book_key_of(attrs) is None:
        detail = f"{BOOK_FIELD} is not the key of a coupon book; the contentType of the collection needs one"
        faults.append(FieldFault(detail, pointer=f"/attrs/{BOOK_FIELD}"))
    return faults


def is_deeper(value: Any, levels: int) -> bool:
    """True for a JSON value that is nested deeper than this number of levels."""
    nodes = [value]
    for _ in range(levels):
        containers = [node for node in nodes if isinstance(node, dict | list)]
        nodes = []
        for container in containers:
            nodes += container.values() if isinstance(container, dict) else container
        if not nodes:
            return False
    return any(isinstance(node, dict | list) for node in nodes)


def coupon_book_key_of(attrs: Mapping[str, Any]) -> str | None:
    """The key of the coupon book that a document is about; None if it names none."""
    key = attrs.get(BOOK_FIELD)
    return key.lower() if isinstance(key, str) and is_uuid(key) else None


def derived_values(values: Mapping[str, Any]) -> dict[str, Any]:
    """The values that are stored for searches in addition to a document's fields: open hours and coupon book."""
    derived: dict[str, Any] = {}
    if "day_of_week_schedule" in values:
        schedule = values["day_of_week_schedule"]
        derived["schedule_zone"] = None if schedule is None else schedule["timezone"]
        derived["schedule_hours"] = None if schedule is None else open_hours(schedule)
    if "attrs" in values:
        derived["coupon_book_key"] = coupon_book_key_of(values["attrs"])
    return derived


HOURS_OF_DAY = 24


def hour_of_week(at: datetime, zone: tzinfo) -> int:
    """The hour of the week in a zone: 0 is Monday from 00:00 to 00:59, 167 is Sunday from 23:00."""
    local = local_time(at, zone)
    return local.weekday() * HOURS_OF_DAY + local.hour


def open_hours(schedule: Mapping[str, Any]) -> list[int]:
    """The hours of the week that a schedule's windows cover, sorted; the last hour of a window is included."""
    hours = {
        (window["day"] - 1) * HOURS_OF_DAY + hour
        for window in schedule["schedule"]
        for hour in range(window["fromHour"], window["toHour"] + 1)
    }
    return sorted(hours)


def hours_of_week_now(zones: Iterable[str], at: datetime) -> dict[str, int]:
    """The current hour of the week in each of the zones."""
    return {name: hour_of_week(at, zone_named(name)) for name in zones}


def schedule_faults(schedule: Mapping[str, Any] | None, zones: frozenset[str]) -> list[FieldFault]:
    """Faults of a well-formed schedule; `zones` are the names of all time zones."""
    if schedule is None:
        return []
    faults = []
    if schedule["timezone"] not in zones:
        detail = not_a_zone(schedule["timezone"])
        faults.append(FieldFault(detail, pointer="/dayOfWeekSchedule/timezone"))
    for position, window in enumerate(schedule["schedule"]):
        if window["fromHour"] > window["toHour"]:
            detail = "fromHour is after toHour; split a window across midnight into two windows"
            faults.append(FieldFault(detail, pointer=f"/dayOfWeekSchedule/schedule/{position}/fromHour"))
    return faults
