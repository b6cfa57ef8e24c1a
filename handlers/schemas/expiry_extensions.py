"""Extensions of the expiry of points on the wire."""

from handlers.messages.base import Body, Shape
from handlers.services.ledger.extend_expiry import Extended, ExtensionRequest

EXTENSION = Body(ExtensionRequest)
EXTENDED = Shape(Extended)
