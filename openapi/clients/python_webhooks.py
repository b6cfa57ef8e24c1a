"""Verifies the messages that triggers post (Standard Webhooks)."""

from __future__ import annotations

import base64
import hmac
import json
import time
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

# A message with an older or a later date may be a copy of an earlier message.
_TOLERANCE_SECONDS = 300


class InvalidWebhook(Exception):
    """The message is not from the server, or was not sent within five minutes."""


def verify_webhook(secret: str, headers: Mapping[str, str], body: bytes) -> Any:
    """Parse a message after its signature is found to be right; raises InvalidWebhook.

    `secret` is that of the trigger, with its `whsec_`; `body` has the bytes that came.
    """
    values = {name.lower(): value for name, value in headers.items()}
    timestamp = values.get("webhook-timestamp", "")
    if not (timestamp.isascii() and timestamp.isdigit()) or abs(time.time() - int(timestamp)) > _TOLERANCE_SECONDS:
        raise InvalidWebhook("webhook-timestamp is missing, or more than five minutes away.")
    key = base64.b64decode(secret.removeprefix("whsec_"))
    signed = f"{values.get('webhook-id', '')}.{timestamp}.".encode() + body
    signature = "v1," + base64.b64encode(hmac.digest(key, signed, "sha256")).decode()
    # A secret that is being replaced signs beside the new one.
    candidates = values.get("webhook-signature", "").split(" ")
    if not any(hmac.compare_digest(candidate.encode(), signature.encode()) for candidate in candidates):
        raise InvalidWebhook("webhook-signature is not that of the message.")
    return json.loads(body, parse_float=Decimal)
