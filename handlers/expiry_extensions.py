"""Extensions of the expiry of points."""

from handlers.call import Call
from handlers.operation import operation
from handlers.schemas.expiry_extensions import EXTENSION_RESULT
from handlers.services.ledger.extend_expiry import ExtensionRequest, ExtensionResult
from handlers.services.ledger.extend_expiry import extend_expiry as extend


@operation("extendExpiry", response=EXTENSION_RESULT.dump, audit="expiry-extension")
def extend_expiry(call: Call, body: ExtensionRequest) -> ExtensionResult:
    """Extend the expiry of lots of an account."""
    return extend(call, body)
