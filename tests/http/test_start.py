"""The start of the application, which trusts the documents of the product and no others."""

from __future__ import annotations

import pytest
from connexion.exceptions import InvalidSpecification
from connexion.spec import Specification

from handlers.http.app import build_app, create_app
from handlers.settings import Settings
from tests.http.support import Recorder


@pytest.mark.slow
def test_the_documents_of_the_product_are_not_validated_again(engine, monkeypatch):
    validated_documents = []
    monkeypatch.setattr(
        Specification, "_validate_spec", classmethod(lambda cls, document: validated_documents.append(document))
    )
    create_app(Settings(), engine)
    assert validated_documents == []


@pytest.mark.slow
def test_an_invalid_document_is_refused_even_after_a_start_without_validation(engine):
    create_app(Settings(), engine)
    document = {"openapi": "3.0.3", "info": {"title": "No responses", "version": "1"}, "paths": {"/x": {"get": {}}}}
    with pytest.raises(InvalidSpecification, match="responses"):
        build_app({"integration": document}, Recorder(), lambda token: None, Settings())
