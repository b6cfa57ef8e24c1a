"""Searches of documents: each rule, and random combinations of all, compared with a scan of every document."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from random import Random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.builders.content import Content, item
from tests.builders.statements import count

SCHEMA = {
    "properties": {
        "title": {"type": "string"},
        "price": {"type": "number"},
        "since": {"type": "string", "format": "date-time"},
        "size": {"type": "integer"},
        "anything": {},
    }
}
FACETS = {"colour": {}, "vegan": {"type": "boolean"}, "size": {"type": "number"}, "tags": {"type": "string"}}
WORDS = ("flat", "white", "coffee", "cold", "milk", "oat")


@pytest.fixture(scope="module")
def module_organization(api):
    return api.organization()


@pytest.fixture(scope="module")
def filled_collection(module_organization):
    """A collection of 160 documents with some fields each, and the stored documents."""
    chance = Random(11)
    content = Content.of(module_organization, jsonschema=SCHEMA, facetFields=FACETS, ftsFields=["title", "body"])

    def attrs() -> dict:
        whole = {
            "title": " ".join(chance.choices(WORDS, k=2)),
            "body": chance.choice(WORDS),
            "price": Decimal(chance.randrange(8)) / 2,
            "since": chance.choice(["2026-01-01", "2026-01-01T12:00:00Z", "2026-01-02T00:00:00+02:00", "2026-02-01"]),
            "size": chance.randrange(4),
            "colour": chance.choice(["red", "blue", "green"]),
            "vegan": chance.random() < 0.5,
            "tags": chance.sample(["a", "b", "c"], chance.randrange(3)),
            "anything": chance.choice([1, 2.5, "text", "10", True, None]),
        }
        return {name: value for name, value in whole.items() if chance.random() < 0.8}

    documents = []
    for _ in range(4):
        response = content.batch(
            *(
                item(
                    attrs(),
                    locale=chance.choice(["", "", "es", "pt-br"]),
                    status=chance.choice(["published", "published", "draft"]),
                    **({"slug": chance.choice(["x", "y", "z"])} if chance.random() < 0.6 else {}),
                    **({"fromDate": f"2026-01-0{chance.randrange(1, 9)}T00:00:00Z"} if chance.random() < 0.5 else {}),
                )
                for _ in range(40)
            )
        )
        documents += response["upserted"]
    return content, documents


def moment(text):
    """The moment of a date, or of a time with or without an offset."""
    timestamp = datetime.fromisoformat(text.replace("Z", "+00:00"))
    return timestamp.replace(tzinfo=UTC) if timestamp.tzinfo is None else timestamp


def values(document, field):
    """The values of a field: the items of a list, one value, or none."""
    value = document["attrs"].get(field)
    return value if isinstance(value, list) else [] if value is None else [value]


def scan(documents, *, locale, status, q, facets, ranges):
    """The documents that satisfy all criteria; the last word of `q` may be the beginning of a word."""

    def matches(document):
        words = f"{document['attrs'].get('title', '')} {document['attrs'].get('body', '')}".split()
        whole_words, beginning = q.split()[:-1], (q.split() or [""])[-1]
        return (
            (document["locale"], document["status"]) == (locale, status)
            and all(word in words for word in whole_words)
            and (not q or any(word.startswith(beginning) for word in words))
            and all(
                set(map(facet_text, values(document, field))) & set(chosen_values)
                for field, chosen_values in facets.items()
            )
            and all(within(document, field, *ends) for field, ends in ranges.items())
        )

    return [document for document in documents if matches(document)]


def facet_text(value):
    """The value as the query of a facet names it."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def within(document, field, minimum, maximum):
    """True if a value of the field is in the range; a maximum without a time (10 characters) is a whole day."""

    def inside(value):
        if field != "since":
            return (minimum is None or value >= Decimal(minimum)) and (maximum is None or value <= Decimal(maximum))
        if maximum is None:
            is_before_end = True
        elif len(maximum) == 10:
            is_before_end = moment(value) < moment(maximum) + timedelta(days=1)
        else:
            is_before_end = moment(value) <= moment(maximum)
        return is_before_end and (minimum is None or moment(value) >= moment(minimum))

    return any(inside(value) for value in values(document, field))


def sort_documents(documents, keys):
    """Sort documents by fields, those without a value last; equal ones in the last direction, else newest first."""
    sorted_documents = sorted(
        documents, key=lambda document: document["place"], reverse=not keys or keys[-1][1] == "desc"
    )
    for field, direction in reversed(keys):

        def value(document, field=field):
            record = field in ("slug", "fromDate", "createdAt")
            field_value = document[field] if record else document["attrs"].get(field)
            return moment(field_value) if field == "since" and field_value is not None else field_value

        documents_with_value = [
            document
            for document in sorted_documents
            if value(document) is not None and not isinstance(value(document), list)
        ]
        documents_with_value.sort(key=value, reverse=direction == "desc")
        sorted_documents = documents_with_value + [
            document for document in sorted_documents if document not in documents_with_value
        ]
    return sorted_documents


def _one_or_two(*options):
    """One or two of the options."""
    return st.lists(st.sampled_from(options), min_size=1, max_size=2, unique=True)


def _ends(minimum, maximum):
    """The ends of a range: one of the two, or both."""
    return st.sampled_from([(minimum, None), (None, maximum), (minimum, maximum)])


def _maybe(**strategies):
    """Some of the fields, most often few."""
    return st.fixed_dictionaries({}, optional=strategies)


SORTABLE = ("price", "since", "colour", "size", "slug", "fromDate", "createdAt")
searches = st.fixed_dictionaries(
    {
        "criteria": st.fixed_dictionaries(
            {
                # None is left out of the request.
                "locale": st.sampled_from([None, "", "es", "pt-br"]),
                "status": st.sampled_from([None, "published", "draft"]),
                "q": st.sampled_from(["", "", "fla", "white coff", "mil", "oat c"]),
                "facets": _maybe(
                    colour=_one_or_two("red", "blue"),
                    vegan=_one_or_two("true"),
                    size=_one_or_two("1", "2"),
                    tags=_one_or_two("a", "c"),
                ),
                "ranges": _maybe(
                    price=_ends("1", "2.5"), since=_ends("2026-01-01", "2026-01-01"), size=_ends("1", "2")
                ),
            }
        ),
        "sort": st.lists(
            st.tuples(st.sampled_from(SORTABLE), st.sampled_from(["asc", "desc", ""])),
            max_size=3,
            unique_by=lambda sort_key: sort_key[0],
        ),
        # Each condition as a parameter with the field in its name, or all as lists.
        "by_field_name": st.booleans(),
        "limit": st.sampled_from([3, 7, 200]),
    }
)


def parameters(criteria, sort, by_field_name):
    """The query parameters that express the criteria."""
    query = {name: criteria[name] for name in ("locale", "status", "q") if criteria[name] is not None}
    facets, ranges = criteria["facets"], criteria["ranges"]
    if by_field_name:
        query |= {f"facet.{field}": ",".join(chosen_values) for field, chosen_values in facets.items()}
        for field, ends in ranges.items():
            query |= {f"range.{field}.{end}": v for end, v in zip(("min", "max"), ends, strict=True) if v is not None}
    else:
        if facets:
            query["facet"] = ",".join(
                f"{field}={choice}" for field, chosen_values in facets.items() for choice in chosen_values
            )
        if ranges:
            query["range"] = ",".join(f"{field}:{a or ''}..{b or ''}" for field, (a, b) in ranges.items())
    if sort:
        query["sort"] = ",".join(f"{field}:{direction}".rstrip(":") for field, direction in sort)
    return query


@pytest.mark.slow
@given(searches)
@settings(max_examples=4 * settings.default.max_examples // 10, suppress_health_check=list(HealthCheck))
def test_searches_find_the_same_documents_as_a_full_scan(filled_collection, search):
    content, documents = filled_collection
    documents = [{**document, "place": place} for place, document in enumerate(documents)]
    criteria, sort, limit = search["criteria"], search["sort"], search["limit"]
    if criteria["q"] and not sort:
        # Without a sort, documents are in the order of the best match, which the scan does not know.
        sort = [("price", "asc")]
    query = parameters(criteria, sort, search["by_field_name"])
    effective_criteria = {**criteria, "locale": criteria["locale"] or "", "status": criteria["status"] or "published"}
    expected_documents = sort_documents(scan(documents, **effective_criteria), sort)
    pages = [content.search(**query, limit=limit, page=page) for page in range(len(expected_documents) // limit + 2)]
    keys_found = [document["documentKey"] for page in pages for document in page["items"]]
    assert keys_found == [document["documentKey"] for document in expected_documents], query
    for page in pages:
        assert page["totalCount"] == len(expected_documents)
        for field in FACETS:
            expected_counts = Counter(
                value for document in expected_documents for value in set(values(document, field))
            )
            shown_counts = [(facet["value"], facet["count"]) for facet in page["facets"][field]]
            assert dict(shown_counts) == dict(expected_counts)
            assert [number for _, number in shown_counts] == sorted(expected_counts.values(), reverse=True)


def test_a_field_without_a_type_is_sorted_with_numbers_before_texts(filled_collection):
    content, documents = filled_collection
    for direction in ("asc", "desc"):
        field_values = []
        # These pages contain all published documents in the default locale.
        for page in range(12):
            response = content.search(sort=f"anything:{direction}", limit=7, page=page)
            field_values += [document["attrs"].get("anything") for document in response["items"]]
        expected_counts = Counter(
            str(document["attrs"].get("anything"))
            for document in documents
            if (document["locale"], document["status"]) == ("", "published")
        )
        assert Counter(map(str, field_values)) == expected_counts
        # 0: numbers, 1: texts and booleans, 2: documents without a value
        kinds = [2 if value is None else 1 if isinstance(value, str | bool) else 0 for value in field_values]
        assert kinds == sorted(kinds)
        numbers = [value for value, kind in zip(field_values, kinds, strict=True) if kind == 0]
        assert numbers == sorted(numbers, reverse=direction == "desc")


def test_the_response_repeats_the_query(organization):
    content = Content.of(organization, jsonschema=SCHEMA, facetFields=FACETS, ftsFields=["title"])
    document = content.put({"title": "Flat white", "colour": "red", "size": 2})
    query = {"q": "flat", "facet.colour": "red,blue", "range.size.min": "2.0", "sort": "price:asc", "limit": 5}
    response = content.search(**query)
    assert response == {
        "collection": {key: content.collection[key] for key in ("collectionKey", "name")},
        "query": {
            "q": "flat",
            "locale": "",
            "status": "published",
            "sort": "price:asc",
            "page": 0,
            "limit": 5,
            "facet": {"colour": ["red", "blue"]},
            "range": {"size": {"min": "2.0", "max": None}},
        },
        "totalCount": 1,
        "items": [document],
        "facets": {
            "colour": [{"value": "red", "count": 1}],
            "vegan": [],
            "size": [{"value": 2, "count": 1}],
            "tags": [],
        },
    }
    assert content.search()["query"]["limit"] == 20


@pytest.mark.parametrize(
    ("query", "parameter"),
    [
        ({"range.weight.min": "1"}, "range.weight.min"),
        ({"facet.weight": "1"}, "facet.weight"),
        ({"range": "weight:1..2"}, "range"),
        ({"facet": "weight=1"}, "facet"),
        ({"sort": "weight:asc"}, "sort"),
        ({"sort": "price:up"}, "sort"),
        ({"range.price.min": "cheap"}, "range.price.min"),
        ({"range.since.max": "7"}, "range.since.max"),
        ({"range.title.min": "a"}, "range.title.min"),
        ({"range.price": "7"}, "range.price"),
        ({"range.price.between": "7"}, "range.price.between"),
        ({"range..min": "7"}, "range..min"),
        ({"range": "price:.."}, "range"),
        ({"range": "price"}, "range"),
        ({"range.price.min": "1", "range": "price:2..3"}, "range"),
        ({"facet.size": "big"}, "facet.size"),
        ({"facet.vegan": "yes"}, "facet.vegan"),
        ({"facet.size": ""}, "facet.size"),
        ({"facet.colour": "x" * 256}, "facet.colour"),
        ({"facets.colour": "red"}, "facets.colour"),
        ({"locale": "english"}, "locale"),
        ({"status": "deleted"}, "status"),
        ({"limit": 201}, "limit"),
        ({"page": -1}, "page"),
    ],
)
def test_faults_of_searches_name_their_parameter(organization, query, parameter):
    content = Content.of(organization, jsonschema=SCHEMA, facetFields=FACETS)
    problem = content.search(expect=400, **query)
    assert [error["parameter"] for error in problem["errors"]] == [parameter]


def test_a_value_of_another_type_is_a_text_in_the_facets(organization):
    content = Content.of(organization, facetFields={"size": {"type": "number"}, "vegan": {"type": "boolean"}})
    for size, vegan in ((2, True), ("NaN", "yes"), ("1.50", 1), ("big", "true"), ("1_000", None)):
        content.put({"size": size, "vegan": vegan})
    facets = content.search()["facets"]
    counts = {facet["value"]: facet["count"] for facet in facets["size"]}
    assert counts == {2: 1, "NaN": 1, "1.50": 1, "big": 1, "1_000": 1}
    # The text "true" counts as the boolean.
    assert [(facet["value"], facet["count"]) for facet in facets["vegan"]] == [(True, 2), ("1", 1), ("yes", 1)]
    content.search(expect=400, **{"facet.vegan": "yes"})


def test_every_facet_value_can_be_used_as_a_filter(organization):
    content = Content.of(organization, facetFields={"city": {}})
    cities = ["Paris", "Paris, Texas", "Texas", "", "a=b", "\\", "x,\\,y"]
    for city in cities:
        content.put({"city": city})
    facet_values = [facet["value"] for facet in content.search()["facets"]["city"]]
    assert sorted(facet_values) == sorted(cities)
    # Commas separate values, so they are escaped by a backslash, as are backslashes.
    for city in cities:
        text = city.replace("\\", "\\\\").replace(",", "\\,")
        for query in ({"facet.city": text}, {"facet": f"city={text}"}):
            assert [document["attrs"] for document in content.search(**query)["items"]] == [{"city": city}], query
    # Three values: one with an escaped comma, one without, and the empty one at the end.
    response = content.search(**{"facet.city": "Paris\\, Texas,Texas,"})
    assert {document["attrs"]["city"] for document in response["items"]} == {"Paris, Texas", "Texas", ""}
    assert response["query"]["facet"] == {"city": ["Paris, Texas", "Texas", ""]}


def test_words_are_found_in_the_language_of_the_locale(organization):
    content = Content.of(organization, ftsFields=["title", "parts"])
    english = content.put({"title": "Running waters"}, locale="en")["documentKey"]
    spanish = content.put({"title": "Las tazas rojas"}, locale="es")["documentKey"]
    japanese = content.put({"title": "Running waters"}, locale="ja")["documentKey"]
    default = content.put({"title": "Cold drinks", "parts": ["oats", {"deep": "sugar"}]})["documentKey"]

    def search_keys(q, locale=""):
        """The keys of the documents that a search in the locale finds."""
        return [document["documentKey"] for document in content.search(q=q, locale=locale)["items"]]

    assert search_keys("run water", "en") == search_keys("runs", "en") == search_keys("runn", "en") == [english]
    assert search_keys("taza roja", "es") == search_keys("las taz", "es") == [spanish]
    # Words of a locale without a dictionary are only found unchanged, or by the beginning of the last one.
    assert search_keys("run water", "ja") == []
    assert search_keys("running wat", "ja") == [japanese]
    assert search_keys("drink cold") == search_keys("sugar") == search_keys("oat") == [default]
    assert search_keys("warm") == search_keys("'") == search_keys("!!! & | :*") == search_keys("\\") == []
    assert search_keys("  ") == [default]


def test_the_best_match_comes_first(organization):
    content = Content.of(organization, ftsFields=["title", "body"])
    keys = [
        content.put(attrs)["documentKey"]
        for attrs in (
            {"title": "Tea", "body": "milk"},
            {"title": "Milk", "body": "tea"},
            {"title": "x", "body": "milk"},
        )
    ]
    # The first field counts more. Equal matches are listed newest first.
    assert [document["documentKey"] for document in content.search(q="milk")["items"]] == [keys[1], keys[2], keys[0]]


def test_documents_are_reindexed_when_the_full_text_fields_change(organization):
    content = Content.of(organization, ftsFields=["title"])
    for locale in ("default", "es"):
        content.put({"title": "tazas", "body": "rojas"}, locale=locale)
    assert [content.search(q="roj", locale=locale)["totalCount"] for locale in ("", "es")] == [0, 0]
    content.integration.patch(content.path, {"ftsFields": ["body"]})
    assert [content.search(q="roja", locale=locale)["totalCount"] for locale in ("", "es")] == [1, 1]
    assert [content.search(q="taza", locale=locale)["totalCount"] for locale in ("", "es")] == [0, 0]


def test_searches_find_the_current_values_of_changed_documents(organization):
    content = Content.of(organization, facetFields={"colour": {}})
    document = content.put({"colour": "red"})
    path = f"{content.documents}/{document['documentKey']}"

    def facets(**query):
        """(colour, number of documents) of each colour in the facets."""
        return [(facet["value"], facet["count"]) for facet in content.search(**query)["facets"]["colour"]]

    content.integration.patch(path, {"attrs": {"colour": "blue"}}, locale="")
    assert facets() == [("blue", 1)]
    content.integration.patch(path, {"status": "draft"}, locale="")
    assert (facets(), facets(status="draft")) == ([], [("blue", 1)])
    content.integration.delete(path, locale="", expect=200)
    assert facets(status="draft") == []


def test_a_collection_without_declared_fields_can_be_sorted_by_any_field(organization):
    content = Content.of(organization)
    keys = [content.put({"displayOrder": n})["documentKey"] for n in (10, 9, 100)]
    sorted_keys = [document["documentKey"] for document in content.search(sort="displayOrder")["items"]]
    assert sorted_keys == [keys[1], keys[0], keys[2]]


def test_facets_of_dates_compare_moments(organization):
    content = Content.of(organization, facetFields={"day": {"type": "date"}})
    same_moments = ["2026-03-01T00:00:00Z", "2026-03-01", "2026-03-01T01:00:00+01:00", "2026-03-01T00:00:00Z"]
    for text in (*same_moments, "2026-03-02"):
        content.put({"day": text})
    for text in same_moments:
        assert content.search(**{"facet.day": text})["totalCount"] == 4, text
    assert content.search(**{"facet.day": "2026-03-02T00:00:00.000Z,2026-03-01"})["totalCount"] == 5
    assert content.search()["facets"]["day"] == [
        {"value": "2026-03-01T00:00:00Z", "count": 4},
        {"value": "2026-03-02", "count": 1},
    ]


def test_facets_count_a_document_once_for_each_moment_in_its_list(organization):
    content = Content.of(organization, facetFields={"day": {"type": "date"}})
    content.put({"day": ["2026-03-01", "2026-03-01T00:00:00Z", "2026-03-02", "soon"]})
    content.put({"day": "2026-03-01"})
    assert content.search()["facets"]["day"] == [
        {"value": "2026-03-01", "count": 2},
        {"value": "2026-03-02", "count": 1},
        {"value": "soon", "count": 1},
    ]


def test_facets_of_dates_find_the_most_frequent_moments_among_more_than_a_hundred_texts(organization):
    content = Content.of(organization, facetFields={"day": {"type": "date"}})
    other_moments = [f"2026-01-01T{n // 60:02}:{n % 60:02}:00Z" for n in range(100)]
    same_moment = [f"2026-03-01T{hour:02}:00:00+{hour:02}:00" for hour in range(3)]
    for texts in (other_moments, other_moments, same_moment):
        content.batch(*(item({"day": text}) for text in texts))
    facets = content.search()["facets"]["day"]
    assert facets[0] == {"value": same_moment[0], "count": 3}
    assert facets[1:] == [{"value": text, "count": 2} for text in other_moments[:99]]


def test_long_texts_are_left_out_of_the_facets(organization):
    content = Content.of(organization, facetFields={"text": {}})
    content.put({"text": "x" * 256})
    content.put({"text": "x" * 255})
    response = content.search(**{"facet.text": "x" * 255})
    assert response["totalCount"] == 1
    assert response["facets"]["text"] == [{"value": "x" * 255, "count": 1}]
    assert len(content.search()["facets"]["text"]) == 1


def test_the_number_of_statements_does_not_depend_on_the_results_of_a_search(api, organization):
    content = Content.of(organization, jsonschema=SCHEMA, facetFields=FACETS)
    query = {"range.price.min": "1", "sort": "price:asc,since:desc"}
    content.batch(*(item({"price": n, "colour": str(n), "size": n}) for n in range(10)))
    # The first search fills caches.
    content.search(**query, limit=5)
    statement_count = count(api.engine, lambda: content.search(**query, limit=5))
    content.batch(*(item({"price": n, "colour": str(n), "size": n}) for n in range(100)))
    assert count(api.engine, lambda: content.search(**query, limit=20)) == statement_count


SORTED_TEXTS = [
    "1",
    "Äpfel",
    "Apple",
    "apple",
    "Ecole",
    "ecole",
    "école",
    "naive",
    "naïve",
    "zebra",
    "zoo",
    "ß",
    "ω",
    "Ωm",
]


def test_texts_are_sorted_like_in_a_dictionary_on_all_pages_and_in_facets(organization):
    content = Content.of(organization, jsonschema=SCHEMA, facetFields={"name": {}}, ftsFields=["title"])
    content.batch(*(item({"title": text, "name": text}) for text in Random(1).sample(SORTED_TEXTS, len(SORTED_TEXTS))))

    def titles(**query):
        return [document["attrs"]["title"] for document in content.search(**query)["items"]]

    assert titles(sort="title:asc", limit=50) == SORTED_TEXTS
    assert titles(sort="title:desc", limit=50) == SORTED_TEXTS[::-1]
    pages = [titles(sort="title:asc", limit=5, page=page) for page in range(3)]
    assert pages == [SORTED_TEXTS[:5], SORTED_TEXTS[5:10], SORTED_TEXTS[10:]]
    assert [value["value"] for value in content.search(limit=1)["facets"]["name"]] == SORTED_TEXTS


def test_the_longest_texts_can_be_sorted(organization):
    content = Content.of(organization, jsonschema=SCHEMA, ftsFields=["title"])
    # PostgreSQL expands the first character to eighteen letters and stores the second one in four bytes.
    longest_texts = ["\ufdfa" * 256, "\U00020000" * 256]
    content.batch(*(item({"title": text}) for text in longest_texts))
    documents = content.search(sort="title:asc")["items"]
    assert sorted(document["attrs"]["title"] for document in documents) == sorted(longest_texts)
