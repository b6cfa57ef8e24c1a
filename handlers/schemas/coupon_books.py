"""Coupon books on the wire (integration 2.1, administration "Records": Coupon book)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any

from marshmallow import fields

from domain.coupons.books import CouponBook
from domain.fields import Key
from handlers.call import ADMINISTRATION, INTEGRATION
from handlers.messages.base import Shape, Update
from handlers.services.coupons.validate_book import CouponBookProperties


class _Numbers(fields.Field[Any]):
    """Whole numbers that the administration interface writes as texts, and reads as texts or numbers."""

    def dump(self, value: Any) -> list[str]:
        """The texts of the numbers."""
        return [str(number) for number in value]

    def load(self, value: Any) -> list[int]:
        """The numbers."""
        return [int(number) for number in value]


# The interfaces differ in how they name a loyalty program, and in the form of whole numbers.
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
    is_value_coupon: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class _AdministrationNew(_Administration):
    publishing_status: str
    type: str
    is_value_coupon: bool = False


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
BOOK = {
    INTEGRATION: Shape(_Integration, CouponBook, without=("coupon_count",)),
    ADMINISTRATION: Shape(_Administration, CouponBook, without=("coupon_count", "loyalty_program_key")),
}


def references_response(referring_records: Mapping[str, Any]) -> dict[str, Any]:
    """The response with the records that refer to a book: actions of campaigns, and documents of content."""
    campaigns = [
        {"campaignId": action.campaign_id, "campaignKey": action.campaign_key, "actionId": action.action_id}
        for action in referring_records["campaigns"]
    ]
    documents = [
        {"collectionKey": collection_key, "documentKey": document_key}
        for collection_key, document_key in referring_records["documents"]
    ]
    return {
        "isReferenced": bool(campaigns or documents),
        "references": {"campaigns": campaigns, "documents": documents},
    }
