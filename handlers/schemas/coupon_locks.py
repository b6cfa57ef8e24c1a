"""Locks of coupons on the wire."""

from handlers.messages.base import Shape
from handlers.services.coupons.lock import LockView

LOCK = Shape(LockView)
