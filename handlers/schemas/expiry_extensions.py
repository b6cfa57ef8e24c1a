"""Extensions of the expiry of points on the wire."""

from handlers.messages.base import Shape
from handlers.services.ledger.extend_expiry import ExtensionResult

EXTENSION_RESULT = Shape(ExtensionResult)
