"""Coupon books on the wire (integration 2.1, administration "Records": Coupon book)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from marshmallow import fields

from domain.calendar import instant_of
from handlers.messages.base import Exact, Instant, Plain, Shape, WireSchema
from persistence.coupons.book_lists import BookFilter


class _Numbers(fields.Field[Any]):
    """Whole numbers that this surface writes as texts, and reads as both."""

    def _serialize(self, value: Any, attr: Any, obj: Any, **kwargs: Any) -> Any:
        return [str(each) for each in value]

    def _deserialize(self, value: Any, attr: Any, data: Any, **kwargs: Any) -> Any:
        return [int(each) for each in value]


class _Keys(fields.Field[Any]):
    """Generated keys, in lower case."""

    def _serialize(self, value: Any, attr: Any, obj: Any, **kwargs: Any) -> Any:
        return value

    def _deserialize(self, value: Any, attr: Any, data: Any, **kwargs: Any) -> Any:
        return [each.lower() for each in value]


class _Key(fields.Field[Any]):
    """A generated key, in lower case."""

    def _serialize(self, value: Any, attr: Any, obj: Any, **kwargs: Any) -> Any:
        return value

    def _deserialize(self, value: Any, attr: Any, data: Any, **kwargs: Any) -> Any:
        return value.lower()


class _Writable(WireSchema):
    external_id = Plain()
    current_version_id = Plain()
    name = Plain()
    description = Plain()
    subtitle = Plain()
    picture_url = Plain()
    detail_picture_url = Plain()
    images = Plain(load_default=dict)
    ranking_index = Exact()
    discount_amount = Exact()
    discount_type = Plain()
    max_coupon_count = Plain()
    max_assigned_per_member = Plain()
    max_assigned_per_coupon = Plain()
    valid_from_date = Instant()
    valid_to_date = Instant()
    max_discount_per_period = Exact()
    discount_period_type = Plain()
    max_usages_per_period = Plain()
    usage_period_type = Plain()
    timezone = Plain()
    max_discount_per_use = Exact()
    assignment_required_points = Exact()
    usage_required_points = Exact()
    required_points_config = Plain(metadata={"omit_none": True})
    tags = Plain(load_default=list)
    audience_keys = _Keys(load_default=list)
    locations = Plain(load_default=list)
    categories = Plain(load_default=list)
    product_categories = Plain(load_default=list)
    payment_methods = Plain(load_default=list)
    channels = Plain(load_default=list)
    content_schema_id = Plain()
    content_schema_version_id = Plain()
    custom_attributes = Plain(load_default=dict)
    condition = Plain(load_default=dict)
    tier_keys = _Keys(load_default=list)
    code_pattern = Plain(metadata={"omit_none": True})
    locale = Plain()
    content = Plain(load_default=dict)
    is_default_locale = Plain()
    default_locale = Plain()


class _Integration(_Writable):
    loyalty_program_key = _Key()
    days_of_week = Plain(load_default=list)
    tiers = Plain(load_default=list)


class _Administration(_Writable):
    loyalty_program_id = Plain()
    days_of_week = _Numbers(load_default=list)
    tiers = _Numbers(load_default=list)


class _New(WireSchema):
    publishing_status = Plain()
    type = Plain()


class _Changed(WireSchema):
    extra_fields = Plain(load_default=dict)


class _IntegrationNew(_Integration, _New):
    pass


class _AdministrationNew(_Administration, _New):
    pass


class _IntegrationChange(_Integration, _Changed):
    pass


class _AdministrationChange(_Administration, _Changed):
    pass


class _Record(_New, _Changed):
    organization_id = Plain()
    coupon_book_id = Plain()
    coupon_book_key = Plain()
    loyalty_program_id = Plain()
    total_assigned = Exact()
    total_usages = Exact()
    created_at = Instant()
    updated_at = Instant()


class _IntegrationRecord(_Integration, _Record):
    pass


class _AdministrationRecord(_Administration, _Record):
    pass


class _Status(WireSchema):
    publishing_status = Plain()


NEW_BOOK = {
    "integration": Shape(_IntegrationNew, complete=True),
    "administration": Shape(_AdministrationNew, complete=True),
}
CHANGED_BOOK = {"integration": Shape(_IntegrationChange), "administration": Shape(_AdministrationChange)}
BOOK_STATUS = Shape(_Status)
BOOK = {"integration": Shape(_IntegrationRecord), "administration": Shape(_AdministrationRecord)}


def references(found: Mapping[str, Any]) -> dict[str, Any]:
    """The records that refer to a book: actions of campaigns, by id and key, and documents."""
    campaigns = [
        {"campaignId": campaign_id, "campaignKey": campaign_key, "actionId": action_id}
        for campaign_id, campaign_key, action_id in found["campaigns"]
    ]
    documents = [
        {"collectionKey": collection_key, "documentKey": document_key}
        for collection_key, document_key in found["documents"]
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
    found = {inside: query[wire] for wire, inside in _FILTERS.items() if wire in query}
    found |= {inside: query[wire].lower() for wire, inside in _KEY_FILTERS.items() if wire in query}
    found |= {
        inside: [key.lower() for key in query[wire]] for wire, inside in _KEY_LIST_FILTERS.items() if wire in query
    }
    found |= {inside: instant_of(query[wire]) for wire, inside in _MOMENT_FILTERS.items() if wire in query}
    return BookFilter(**found, **more)
