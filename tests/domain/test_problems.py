"""Faults and refusals in the form of responses."""

from __future__ import annotations

import pytest

from domain.problems import (
    Conflict,
    FieldFault,
    Forbidden,
    InvalidRequest,
    NotFound,
    TooBusy,
    TooManyRequests,
    Unauthorized,
)


@pytest.mark.parametrize(
    ("detail", "sentence"), [("It is red", "It is red."), ("It is red.", "It is red."), ("Is it red?", "Is it red?")]
)
def test_a_fault_is_a_sentence(detail, sentence):
    assert FieldFault(detail).detail == sentence


def test_the_body_of_a_fault_lacks_fields_without_a_value():
    assert FieldFault("Red", pointer="/a").as_element() == {"detail": "Red.", "pointer": "/a"}
    placed_fault = FieldFault("Red", parameter="p", code="c", start=0, end=3)
    assert placed_fault.as_element() == {"detail": "Red.", "parameter": "p", "code": "c", "start": 0, "end": 3}


@pytest.mark.parametrize(
    ("fault_count", "detail"),
    # The text of each fault is its number.
    [
        (1, "0."),
        (3, "0. 1. 2."),
        (4, "0. 1. 2. And 1 more."),
        (9, "0. 1. 2. And 6 more."),
    ],
)
def test_the_detail_of_an_invalid_request_has_its_first_three_faults(fault_count, detail):
    refusal = InvalidRequest([FieldFault(str(number)) for number in range(fault_count)])
    assert refusal.detail == detail
    assert len(refusal.faults) == fault_count
    assert refusal.extension_fields["errors"] == [{"detail": f"{number}."} for number in range(fault_count)]


def test_an_invalid_request_may_have_its_own_detail():
    assert InvalidRequest([FieldFault("Red")], "All is red.").detail == "All is red."


@pytest.mark.parametrize(
    ("class_of_refusal", "status"),
    [
        (InvalidRequest, 400),
        (Unauthorized, 401),
        (Forbidden, 403),
        (NotFound, 404),
        (Conflict, 409),
        (TooManyRequests, 429),
        (TooBusy, 503),
    ],
)
def test_a_refusal_is_a_problem_with_a_status(class_of_refusal, status):
    # An invalid request has a list of faults, any other refusal a text.
    problem = class_of_refusal([] if class_of_refusal is InvalidRequest else "Why.").as_problem()
    assert problem["status"] == status
    assert problem["type"] == f"/problems/{class_of_refusal.slug}"
    assert problem["title"] == class_of_refusal.title


def test_a_refusal_may_have_further_fields():
    assert Conflict("Why.", available=5).as_problem() == {
        "type": "/problems/conflict",
        "title": "The request conflicts with the current state",
        "status": 409,
        "detail": "Why.",
        "available": 5,
    }


def test_the_slug_of_a_refusal_is_the_name_of_its_class():
    class MugIsBroken(Conflict, title="The mug is broken"):
        pass

    class SpoonIsBent(NotFound, title="The spoon is bent", slug="spoon-bent"):
        pass

    # A class without a title is no new type of problem.
    class StillConflict(Conflict):
        pass

    assert (MugIsBroken.slug, MugIsBroken.title) == ("mug-is-broken", "The mug is broken")
    # A slug may be set, and the kind is that of the class above.
    assert (SpoonIsBent.slug, SpoonIsBent.kind) == ("spoon-bent", "not_found")
    assert (StillConflict.slug, StillConflict.title) == (Conflict.slug, Conflict.title)
