"""Rate limits: one rate for each key, which all processes of a server share.

The counts are in memory that the processes share, because it is mapped before they are forked; so no other server is
needed, and each host has its own counts. A key has one number: the moment at which its whole rate is restored, so that
all its calls could come at once (the generic cell rate algorithm). So a rate needs no windows of time.
"""

import fcntl
import hashlib
import math
import mmap
import os
import secrets
import struct
import tempfile
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from handlers.setting_values import Rate

# A slot has the fingerprint of its key, and the moment at which the whole rate of the key is restored.
_SLOT = struct.Struct("<Qd")
_SLOTS = 1 << 16
# A key is looked for in this number of slots from its first slot on. If other keys have all these slots, it gets the
# slot of the key that is restored first.
_PROBES = 8
# Keys share this number of locks, so that calls seldom wait for the lock of another key.
_STRIPES = 64


@dataclass(frozen=True, slots=True)
class RateState:
    """The state of a key: whether the call is allowed, how many more calls are allowed now, and when one more is.

    `seconds` is the time until then.
    """

    rate: Rate
    is_allowed: bool
    remaining: int
    seconds: int


class Rates:
    """The counts of all keys; created before the processes that share it are forked."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._memory = mmap.mmap(-1, _SLOTS * _SLOT.size)
        # The key of the hash that places keys in slots. Clients choose a part of some keys; since they do not know this
        # one, they cannot choose keys that compete with others for slots.
        self._hash_key = secrets.token_bytes(16)
        # File locks end with their process, even if it is killed, but do not exclude threads of the same process.
        self._file = tempfile.TemporaryFile(prefix="loyalty-rates-")  # noqa: SIM115  (open as long as the counts)
        weakref.finalize(self, self._file.close)
        self._thread_locks = [threading.Lock() for _ in range(_STRIPES)]

    def take(self, key: str, rate: Rate) -> RateState:
        """Count one call of `key` if the rate allows it."""
        return self._check(key, rate, counts=True)

    def peek(self, key: str, rate: Rate) -> RateState:
        """Return the state of the rate for a call of `key`; count nothing."""
        return self._check(key, rate, counts=False)

    def _check(self, key: str, rate: Rate, *, counts: bool) -> RateState:
        """Return the state of the rate for a call of `key`; with `counts`, count the call if it is allowed."""
        rate_key = f"{rate.count}/{rate.seconds}/{key}".encode()
        digest = hashlib.blake2b(rate_key, digest_size=16, key=self._hash_key).digest()
        # 0 is the fingerprint in an unused slot.
        fingerprint = int.from_bytes(digest[:8], "little") or 1
        first_slot = int.from_bytes(digest[8:], "little") % (_SLOTS // _PROBES) * _PROBES
        interval = rate.seconds / rate.count
        with self._lock_slots(first_slot):
            now = self._clock()
            offset, restored_at = self._find(fingerprint, first_slot, now)
            restored_after_call = restored_at + interval
            # The tolerance is for rounding.
            is_allowed = restored_after_call - now <= rate.seconds * (1 + 1e-9)
            if is_allowed and counts:
                restored_at = restored_after_call
                _SLOT.pack_into(self._memory, offset, fingerprint, restored_at)
        remaining = max(0, math.floor((rate.seconds - (restored_at - now)) / interval + 1e-6))
        wait = 0.0 if is_allowed else restored_after_call - now - rate.seconds
        return RateState(rate, is_allowed, remaining, math.ceil(max(wait, interval)))

    def _find(self, fingerprint: int, first_slot: int, now: float) -> tuple[int, float]:
        """The offset of the key's slot, existing or new, and when the key is restored, which is `now` or later."""
        offsets = [(first_slot + n) * _SLOT.size for n in range(_PROBES)]
        slots = [_SLOT.unpack_from(self._memory, offset) for offset in offsets]
        for offset, (owner, restored_at) in zip(offsets, slots, strict=True):
            if owner == fingerprint:
                return offset, max(restored_at, now)
        _, offset = min((restored_at, offset) for offset, (_, restored_at) in zip(offsets, slots, strict=True))
        return offset, now

    @contextmanager
    def _lock_slots(self, first_slot: int) -> Iterator[None]:
        """Exclude other threads and processes from the slots of a key."""
        stripe = first_slot // _PROBES % _STRIPES
        with self._thread_locks[stripe]:
            fcntl.lockf(self._file, fcntl.LOCK_EX, 1, stripe, os.SEEK_SET)
            try:
                yield
            finally:
                fcntl.lockf(self._file, fcntl.LOCK_UN, 1, stripe, os.SEEK_SET)


def rate_headers(rates: dict[str, RateState]) -> list[tuple[bytes, bytes]]:
    """`RateLimit-Policy` and `RateLimit` (draft-ietf-httpapi-ratelimit-headers) of the rates of a call."""
    if not rates:
        return []
    policies = ", ".join(f'"{name}";q={rate.rate.count};w={rate.rate.seconds}' for name, rate in rates.items())
    states = ", ".join(f'"{name}";r={rate.remaining};t={rate.seconds}' for name, rate in rates.items())
    return [(b"ratelimit-policy", policies.encode()), (b"ratelimit", states.encode())]
