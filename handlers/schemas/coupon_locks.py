"""Locks of coupons on the wire."""

from handlers.messages.base import Body, Shape
from handlers.services.coupons.lock import LockRequest, LockView

LOCK = Shape(LockView)
LOCK_REQUEST = Body(LockRequest)
