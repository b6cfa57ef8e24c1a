"""Coupon books on the wire (integration 2.1, administration "Records": Coupon book)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any

from marshmallow import fields

from domain.calendar import instant_of
from domain.coupons.books import CouponBook
from domain.fields import Key
from handlers.call import ADMINISTRATION, INTEGRATION
from handlers.messages.base import Body, Shape, Update
from handlers.services.coupons.validate_book import CouponBookProperties
from persistence.coupons.book_lists import BookFilter


class _Numbers(fields.Field[Any]):
    """Whole numbers that this surface writes as texts, and reads as both."""

    def _serialize(self, value: Any, attr: Any, obj: Any, **kwargs: Any) -> Any:
        return [str(number) for number in value]

    def _deserialize(self, value: Any, attr: Any, data: Any, **kwargs: Any) -> Any:
        return [int(number) for number in value]


_WholeNumbers = Annotated[Sequence[int], _Numbers]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Integration(CouponBookProperties):
    loyalty_program_key: Key | None = None
    days_of_week: Sequence[int] = ()
    tiers: Sequence[int] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Administration(CouponBookProperties):
    loyalty_program_id: int | None = None
    days_of_week: _WholeNumbers = ()
    tiers: _WholeNumbers = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class _IntegrationNew(_Integration):
    publishing_status: str
    type: str


@dataclass(frozen=True, slots=True, kw_only=True)
class _AdministrationNew(_Administration):
    publishing_status: str
    type: str


@dataclass(frozen=True, slots=True, kw_only=True)
class _IntegrationChange(_Integration):
    extra_fields: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class _AdministrationChange(_Administration):
    extra_fields: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class StatusChange:
    """The new publishing status of a book."""

    publishing_status: str


NEW_BOOK = {INTEGRATION: Update(_IntegrationNew), ADMINISTRATION: Update(_AdministrationNew)}
CHANGED_BOOK = {INTEGRATION: Update(_IntegrationChange), ADMINISTRATION: Update(_AdministrationChange)}
BOOK_STATUS = Body(StatusChange)
BOOK = {
    INTEGRATION: Shape(_Integration, CouponBook, without=("coupon_count",)),
    ADMINISTRATION: Shape(_Administration, CouponBook, without=("coupon_count", "loyalty_program_key")),
}


def references(referring: Mapping[str, Any]) -> dict[str, Any]:
    """The records that refer to a book: actions of campaigns, by id and key, and documents."""
    campaigns = [
        {"campaignId": campaign_id, "campaignKey": campaign_key, "actionId": action_id}
        for campaign_id, campaign_key, action_id in referring["campaigns"]
    ]
    documents = [
        {"collectionKey": collection_key, "documentKey": document_key}
        for collection_key, document_key in referring["documents"]
    ]
    return {
        "isReferenced": bool(campaigns or documents),
        "references": {"campaigns": campaigns, "documents": documents},
    }


_FILTERS = {
    "search": "search",
    "tags": "tags",
    "tagsAny": "tags_any",
    "status": "statuses",
    "locale": "locale",
    "tiers": "tiers",
    "categories": "categories",
    "productCategories": "product_categories",
    "locations": "locations",
    "paymentMethods": "payment_methods",
    "channels": "channels",
    "channelsMatch": "channels_match",
    "daysOfWeek": "days_of_week",
    "loyaltyProgramId": "loyalty_program_id",
    "externalId": "external_id",
    "externalKey": "external_key",
    "type": "type",
    "couponBookId": "coupon_book_id",
}
_KEY_FILTERS = {"loyaltyProgramKey": "loyalty_program_key", "couponBookKey": "coupon_book_key"}
_KEY_LIST_FILTERS = {"audiences": "audience_keys", "tierKeys": "tier_keys"}
_MOMENT_FILTERS = {
    "validFromDate": "valid_from",
    "validToDate": "valid_to",
    "validFromDateMin": "valid_from_min",
    "validToDateMax": "valid_to_max",
}


def book_filter(query: Mapping[str, Any], **more: Any) -> BookFilter:
    """The filter that the query parameters of a list of books describe."""
    filters = {inside: query[wire] for wire, inside in _FILTERS.items() if wire in query}
    filters |= {inside: query[wire].lower() for wire, inside in _KEY_FILTERS.items() if wire in query}
    filters |= {
        inside: [key.lower() for key in query[wire]] for wire, inside in _KEY_LIST_FILTERS.items() if wire in query
    }
    filters |= {inside: instant_of(query[wire]) for wire, inside in _MOMENT_FILTERS.items() if wire in query}
    return BookFilter(**filters, **more)
