"""Checks of a trigger's settings."""

from collections.abc import Iterator, Mapping
from typing import Any

from domain.problems import FieldFault
from domain.triggers import ENTITY_CHANGE
from domain.webhooks.receivers import header_fault, repeated_header
from domain.webhooks.signatures import key_of


def faults_of_trigger(type_: str, settings: Mapping[str, Any], secret: str | None) -> list[FieldFault]:
    """All faults of a trigger's secret, headers and subjects; event types are not looked up."""
    return [
        *_faults_of_secret(secret),
        *_faults_of_headers(settings["headers"]),
        *_faults_of_subjects(type_, settings),
    ]


def _faults_of_secret(secret: str | None) -> Iterator[FieldFault]:
    if secret is not None:
        try:
            key_of(secret)
        except ValueError as error:
            yield FieldFault(f"secret {error}", pointer="/settings/secret")


def _faults_of_headers(headers: Mapping[str, str | None]) -> Iterator[FieldFault]:
    for name, value in headers.items():
        fault = header_fault(name)
        if fault is not None:
            yield FieldFault(f"headers has {name}, which {fault}", pointer="/settings/headers")
        elif value is None:
            yield FieldFault(f"headers has null for {name}, and no value of it is stored", pointer="/settings/headers")
    repeated = repeated_header(headers)
    if repeated is not None:
        yield FieldFault(f"headers has {repeated} twice, in letters of any case", pointer="/settings/headers")


def _faults_of_subjects(type_: str, settings: Mapping[str, Any]) -> Iterator[FieldFault]:
    if settings["eventTypes"] and type_ == ENTITY_CHANGE:
        yield FieldFault(f"eventTypes does not go with the type {type_}", pointer="/settings/eventTypes")
    if settings["entities"] and type_ != ENTITY_CHANGE:
        yield FieldFault(f"entities does not go with the type {type_}", pointer="/settings/entities")
