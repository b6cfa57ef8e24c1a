from __future__ import annotations

import openapi
from handlers.messages.validation import Schemas


def test_equal_schemas_share_one_validator() -> None:
    schemas = Schemas("integration", openapi.bundle("integration"))
    validator = schemas.validator({"$ref": "#/components/schemas/Problem"})
    assert schemas.validator({"$ref": "#/components/schemas/Problem"}) is validator
    assert not validator.accepts("text")
    assert schemas.validator({"type": "string"}).accepts("text")
