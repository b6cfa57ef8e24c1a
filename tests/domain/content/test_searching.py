"""Parameters of searches, checked against the declared fields of the collection."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal

import pytest

from domain.content.searching import Bounds, SearchReader, SortKey, sort_of
from domain.problems import InvalidRequest
from tests.domain.content.test_content_values import collection

# A collection with the fields colour, price, vegan, since and any.
DRINKS = collection(
    facet_fields={"colour": {}, "price": {"type": "number"}},
    jsonschema={
        "properties": {
            "vegan": {"type": "boolean"},
            "since": {"type": "string", "format": "date"},
            "any": {},
        }
    },
)
# A collection whose JSON Schema describes no fields.
OPEN = collection(facet_fields={"colour": {}})


def faults(reader):
    """The parameter and the text of every fault."""
    try:
        reader.refuse_faults()
    except InvalidRequest as refusal:
        return [(fault.parameter, fault.detail) for fault in refusal.faults]
    return []


def read_sort(text, of=DRINKS):
    """The sort keys of a text, and (parameter, text) of each fault."""
    reader = SearchReader(of)
    return reader.sort(text), faults(reader)


def read_facets(of=DRINKS, **values_by_field):
    """The values of each facet, and (parameter, text) of each fault."""
    reader = SearchReader(of)
    facets = reader.facets(
        {name: [(f"facets[{name}]", value) for value in values] for name, values in values_by_field.items()}
    )
    return facets, faults(reader)


def read_range(name, of=DRINKS, **ends):
    """The bounds of the field `name`, and (parameter, text) of each fault."""
    reader = SearchReader(of)
    ranges = reader.ranges({name: {end: (f"{end}[{name}]", text) for end, text in ends.items()}})
    return ranges, faults(reader)


def test_documents_are_sorted_by_fields_of_the_record_and_of_the_collection():
    assert read_sort("createdAt:desc,price:asc,colour,any") == (
        (
            SortKey("createdAt", is_descending=True, is_of_record=True),
            SortKey("price", is_descending=False, is_of_record=False, type="number"),
            SortKey("colour", is_descending=False, is_of_record=False, type="string"),
            SortKey("any", is_descending=False, is_of_record=False),
        ),
        [],
    )
    assert read_sort(None) == ((), [])
    assert read_sort("") == ((), [])


def test_documents_are_not_sorted_by_an_unknown_field():
    _, sort_faults = read_sort("prize:desc")
    text = "The field prize is neither in facetFields nor in jsonschema of the collection. Did you mean price?"
    assert sort_faults == [("sort", text)]
    with pytest.raises(InvalidRequest):
        sort_of(DRINKS, "prize")
    assert sort_of(DRINKS, "slug") == (SortKey("slug", is_descending=False, is_of_record=True),)


def test_a_collection_that_describes_no_fields_is_sorted_by_any_field():
    assert read_sort("anything", OPEN) == ((SortKey("anything", is_descending=False, is_of_record=False),), [])


def test_facets_are_compared_with_values_of_their_type():
    facets, facet_faults = read_facets(
        colour=["red", "blue", "red"], price=["3.50", "12"], vegan=["true"], since=["2026-01-02"], any=["2.0", "x"]
    )
    assert facet_faults == []
    assert facets == {
        "colour": ("red", "blue"),
        "price": ("3.5", "12"),
        "vegan": ("true",),
        "since": ("2026-01-02",),
        # A field of unknown type may hold a text or a number.
        "any": ("2.0", "2", "x"),
    }


@pytest.mark.parametrize(
    ("name", "value", "detail"),
    [
        ("price", "cheap", "cheap is not a number: send a number to compare price with."),
        ("vegan", "yes", "vegan is compared with true or false, not with yes."),
        ("since", "lately", "lately is not a date: send a date to compare since with."),
        ("colour", "x" * 256, "colour is compared with 256 characters: send at most 255."),
        ("since", "2026-02-30", "2026-02-30 is not a date: send a date to compare since with."),
        ("price", "c" * 60, f"{'c' * 50} is not a number: send a number to compare price with."),
        ("vegan", "c" * 60, f"vegan is compared with true or false, not with {'c' * 50}."),
        ("since", "c" * 60, f"{'c' * 50} is not a date: send a date to compare since with."),
    ],
)
def test_a_value_that_is_not_of_the_type_of_its_facet_is_refused(name, value, detail):
    _, facet_faults = read_facets(**{name: [value]})
    assert facet_faults == [(f"facets[{name}]", detail)]


def test_a_facet_is_compared_with_up_to_255_characters():
    _, facet_faults = read_facets(colour=["x" * 255])
    assert facet_faults == []


def test_an_unknown_facet_is_refused_even_if_the_json_schema_describes_no_fields():
    facets, facet_faults = read_facets(OPEN, color=["red"], colour=["red"])
    text = "The field color is neither in facetFields nor in jsonschema of the collection. Did you mean colour?"
    assert facets == {"colour": ("red",)}
    assert facet_faults == [("facets[color]", text)]


def test_an_unknown_field_is_reported_at_its_first_parameter_and_the_next_one_is_read():
    reader = SearchReader(DRINKS)
    assert reader.facets({"color": [("facets[color][0]", "red"), ("facets[color][1]", "blue")]}) == {}
    ends = {"prize": {"min": ("min[prize]", "1")}, "price": {"min": ("min[price]", "1")}}
    assert reader.ranges(ends) == (Bounds("price", "number", minimum=Decimal(1)),)
    assert [parameter for parameter, _ in faults(reader)] == ["facets[color][0]", "min[prize]"]


def test_a_range_has_numbers_or_dates_as_bounds():
    assert read_range("price", min="1.5", max="3") == (
        (Bounds("price", "number", minimum=Decimal("1.5"), maximum=Decimal(3)),),
        [],
    )
    assert read_range("price", min="1.5")[0] == (Bounds("price", "number", minimum=Decimal("1.5")),)
    start, end = datetime(2026, 1, 2, tzinfo=UTC), datetime(2026, 1, 3, 12, tzinfo=UTC)
    assert read_range("since", min="2026-01-02", max="2026-01-03T12:00:00Z")[0] == (
        Bounds("since", "date", minimum=start, maximum=end),
    )


def test_a_date_as_the_upper_bound_includes_the_whole_day():
    assert read_range("since", max="2026-01-02")[0] == (
        Bounds("since", "date", before=datetime(2026, 1, 3, tzinfo=UTC)),
    )
    # No day follows the last one.
    last_day = datetime(9999, 12, 31, tzinfo=UTC)
    assert read_range("since", max="9999-12-31")[0] == (Bounds("since", "date", maximum=last_day),)


def test_bounds_decide_the_type_of_a_field_of_unknown_type():
    assert read_range("any", min="1", max="2")[0] == (Bounds("any", "number", minimum=Decimal(1), maximum=Decimal(2)),)
    [bounds], _ = read_range("any", min="2026-01-02")
    assert bounds.type == "date"
    _, [(parameter, _)] = read_range("any", min="1", max="2026-01-02")
    assert parameter == "min[any]"


@pytest.mark.parametrize(
    ("name", "ends", "parameter", "detail"),
    [
        ("colour", {"max": "b"}, "max[colour]", "colour is a string; only numbers and dates have ranges."),
        ("vegan", {"min": "true"}, "min[vegan]", "vegan is a boolean; only numbers and dates have ranges."),
        ("price", {"min": "low", "max": "2"}, "min[price]", "A bound of price must be a number; low is not."),
        ("price", {"min": "l" * 60}, "min[price]", f"A bound of price must be a number; {'l' * 50} is not."),
        (
            "l" * 120,
            {"max": "2"},
            f"max[{'l' * 96}",
            f"The field {'l' * 100} is neither in facetFields nor in jsonschema of the collection.",
        ),
        (
            "since",
            {"max": "soon"},
            "max[since]",
            "A bound of since must be a date or date-time (RFC 3339); soon is not.",
        ),
        (
            "prize",
            {"max": "2"},
            "max[prize]",
            "The field prize is neither in facetFields nor in jsonschema of the collection. Did you mean price?",
        ),
    ],
)
def test_a_range_of_an_unsuitable_field_or_bound_is_refused(name, ends, parameter, detail):
    assert read_range(name, **ends) == ((), [(parameter, detail)])


def test_all_faults_are_collected_and_long_parameters_cut():
    reader = SearchReader(DRINKS)
    reader.sort("prize,colr")
    reader.add_fault("p" * 200, "Too long")
    assert [parameter for parameter, _ in faults(reader)] == ["sort", "sort", "p" * 100]
