"""Records are values: they do not change, have only declared fields, and are equal if their fields are equal."""

from __future__ import annotations

import importlib
import pkgutil
from dataclasses import is_dataclass

import pytest

import domain
from domain.fields import field_name, wire_name

# They collect the results of a unit of work, and so they change.
COLLECTING = {"Allocation", "Evaluation", "ReferralUsageState"}
# It computes further fields from the declared ones.
WITHOUT_SLOTS = {"Environment"}
# Types of objects refer to each other, so comparing their fields would not end.
COMPARED_BY_IDENTITY = {"ObjectOf"}

# Every class that declares fields, except tuples, protocols and refusals.
RECORDS = {
    value
    for module in pkgutil.walk_packages(domain.__path__, "domain.")
    for value in vars(importlib.import_module(module.name)).values()
    if isinstance(value, type)
    and value.__module__.startswith("domain.")
    and vars(value).get("__annotations__")
    and not issubclass(value, tuple | Exception)
    and not getattr(value, "_is_protocol", False)
}


def test_the_records_are_found():
    assert len(RECORDS) > 150


@pytest.mark.parametrize("record", sorted(RECORDS, key=lambda record_class: record_class.__qualname__))
def test_a_record_is_frozen_and_compared_by_its_fields_and_has_slots(record):
    assert is_dataclass(record)
    assert record.__dataclass_params__.frozen is (record.__name__ not in COLLECTING)
    assert record.__dataclass_params__.eq is (record.__name__ not in COMPARED_BY_IDENTITY)
    assert ("__slots__" in vars(record)) is (record.__name__ not in WITHOUT_SLOTS)


@pytest.mark.parametrize(
    ("field", "on_the_wire"), [("name", "name"), ("ledger_account_id", "ledgerAccountId"), ("e2e_id", "e2eId")]
)
def test_a_field_has_its_name_in_camel_case_in_json(field, on_the_wire):
    assert (wire_name(field), field_name(on_the_wire)) == (on_the_wire, field)
