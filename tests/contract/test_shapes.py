"""The fields of responses follow from records: all fields except internal ones, unless a shape differs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest

from domain.fields import Internal, Key, Personal, field_name, wire_name
from handlers.messages.base import Body, Plain, Shape, WireSchema


@dataclass(frozen=True, slots=True)
class Wheel:
    wheel_id: int
    size: Decimal


@dataclass(frozen=True, slots=True)
class Cart:
    cart_key: Key
    owner_name: Personal[str | None]
    secret: Internal[bytes]
    price: Decimal
    made_at: datetime
    wheels: Sequence[Wheel]
    spare: Wheel | None
    options: Mapping[str, Any]

    @property
    def is_cheap(self) -> bool:
        return self.price < 10


class _Price(WireSchema):
    price = Plain()
    is_cheap = Plain()


CART = Cart(
    cart_key="a-1",
    owner_name=None,
    secret=b"s",
    price=Decimal("7.50"),
    made_at=datetime(2026, 1, 2, tzinfo=UTC),
    wheels=[Wheel(wheel_id=1, size=Decimal(3))],
    spare=None,
    options={},
)
# What a shape without any option returns.
RESPONSE = {
    "cartKey": "a-1",
    "ownerName": None,
    "price": Decimal("7.5"),
    "madeAt": "2026-01-02T00:00:00Z",
    "wheels": [{"wheelId": 1, "size": 3}],
    "spare": None,
    "options": {},
}


def test_a_response_has_all_fields_of_its_record_except_internal_ones():
    assert Shape(Cart).dump(CART) == RESPONSE


def test_a_decimal_field_is_exact_and_has_no_zeros_at_its_end():
    response = Shape(Cart).dump(CART)
    # A Decimal equals a float of the same value, so the texts of the values are compared.
    assert repr(response["price"]) == "Decimal('7.5')"
    assert repr(response["wheels"][0]["size"]) == "3"


def test_a_shape_omits_and_renames_fields():
    # An optional field is omitted if it is null.
    shape = Shape(Cart, without=("made_at", "wheels"), names={"price": "amount"}, optional=("spare", "owner_name"))
    assert shape.dump(CART) == {"cartKey": "a-1", "amount": Decimal("7.5"), "options": {}}
    assert Shape(Cart, only=("cart_key", "options")).dump(CART) == {"cartKey": "a-1", "options": {}}


def test_the_first_of_several_schemas_defines_a_field():
    response = Shape(_Price, Cart).dump(CART)
    assert response == {**RESPONSE, "isCheap": True}
    # The plain field of _Price keeps the price unchanged; the field of Cart would remove the 0 at its end.
    assert repr(response["price"]) == "Decimal('7.50')"


@pytest.mark.parametrize(
    ("options", "unknown_name"),
    [({"only": ("wheel",)}, "wheel"), ({"without": ("secret",)}, "secret"), ({"names": {"cost": "price"}}, "cost")],
)
def test_a_name_that_no_schema_has_is_refused(options, unknown_name):
    with pytest.raises(ValueError, match=rf"\b{unknown_name}\b"):
        Shape(Cart, **options)


def test_keys_in_requests_are_converted_to_lower_case():
    @dataclass
    class CommandWithKeys:
        cart_key: Key | None = None
        cart_keys: Sequence[Key] = ()

    assert Body(CommandWithKeys).load({"cartKey": "A-1", "cartKeys": ["A-1", "B-2"]}) == CommandWithKeys(
        cart_key="a-1", cart_keys=["a-1", "b-2"]
    )


@pytest.mark.parametrize("name", ["member_id", "name", "max_redeems_per_referred_member_per_code"])
def test_the_name_of_a_field_follows_from_its_name_in_json(name):
    # `wire_name` is the name in JSON, such as memberId.
    assert field_name(wire_name(name)) == name
    assert "_" not in wire_name(name)
