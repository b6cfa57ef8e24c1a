"""Creates, stores and checks passwords of people and secrets of programs.

A secret that the server creates has 256 bits, so one round of SHA-256 is enough to store it. Passwords that people
choose are stored by argon2id, which is slow on purpose and runs outside of database transactions.
"""

import hashlib
import hmac
import re
import secrets
import threading
from functools import cache
from typing import Protocol

from argon2 import PasswordHasher
from argon2.exceptions import InvalidHashError, VerificationError

MIN_LENGTH, MAX_LENGTH = 10, 128
# The beginning of every secret that the server creates. Only this prefix decides whether argon2 is used, no matter
# what is stored, so the time of a response does not reveal which users exist.
SECRET_PREFIX = "lsk_"
_SHA256 = "sha256:"
# The minimum of the scores 0 to 4 of zxcvbn.
_MIN_SCORE = 3
# Only these first characters are estimated: 24 symbols that can replace letters take 0.3 seconds, 40 a second.
_ESTIMATED_LENGTH = 24
_SEPARATORS = re.compile(r"[\W_]+")

_HASHER = PasswordHasher()
# The library keeps the words of the user in a variable of its module, so two threads cannot use it at the same time.
_ESTIMATE_LOCK = threading.Lock()


class HasKnownTexts(Protocol):
    """A user with the texts that others know about the user; they make a password easier to guess."""

    @property
    def name(self) -> str:
        """The name."""

    @property
    def nickname(self) -> str | None:
        """The nickname."""

    @property
    def user_name(self) -> str | None:
        """The user name."""

    @property
    def email(self) -> str | None:
        """The email address."""

    @property
    def auth_client_id(self) -> str:
        """The client id."""


def new_secret() -> str:
    """A secret of 256 bits, for a program or as a temporary password."""
    return SECRET_PREFIX + secrets.token_urlsafe(32)


def hash_secret(secret: str) -> str:
    """The stored form of a secret that the server created."""
    return _SHA256 + hashlib.sha256(secret.encode()).hexdigest()


def hash_password(password: str) -> str:
    """The stored form of a password that a person chose."""
    return _HASHER.hash(password)


def is_generated(password: str) -> bool:
    """True if the text has the form of a secret that the server generated; checking such a secret is fast."""
    return password.startswith(SECRET_PREFIX)


def matches(stored_hash: str | None, password: str) -> bool:
    """True if `password` matches `stored_hash`.

    `stored_hash` is None for an unknown user. The time of the check reveals nothing about a client: unknown users take
    as long as wrong passwords, and a generated secret takes as long for people, who have none, as for programs.
    """
    if is_generated(password):
        expected_hash = stored_hash if stored_hash is not None and stored_hash.startswith(_SHA256) else hash_secret("")
        return hmac.compare_digest(expected_hash, hash_secret(password))
    if stored_hash is None or stored_hash.startswith(_SHA256):
        stored_hash = _dummy_hash()
    return _verify(stored_hash, password)


def is_outdated(stored_hash: str) -> bool:
    """True if a password should be hashed and stored again, since its hash was created with other parameters."""
    return not stored_hash.startswith(_SHA256) and _HASHER.check_needs_rehash(stored_hash)


def password_fault(password: str, user: HasKnownTexts) -> str | None:
    """The fault of a password that a person chose, as the end of a sentence; None if it is strong enough for `user`."""
    if not MIN_LENGTH <= len(password) <= MAX_LENGTH:
        return f"does not have {MIN_LENGTH} to {MAX_LENGTH} characters"
    if is_generated(password):
        return f"begins with {SECRET_PREFIX}, as only secrets that the server made do"
    from zxcvbn import zxcvbn

    with _ESTIMATE_LOCK:
        estimate = zxcvbn(password[:_ESTIMATED_LENGTH], user_inputs=_known_words(user))
    if estimate["score"] < _MIN_SCORE:
        hint = estimate["feedback"]["warning"].rstrip(".")
        return "is too easy to guess" + (f": {hint[0].lower()}{hint[1:]}" if hint else "")
    return None


def _known_words(user: HasKnownTexts) -> list[str]:
    """The texts that others know about a user, cut like the estimated password, and the words in them."""
    texts = filter(None, (user.name, user.nickname, user.user_name, user.email, user.auth_client_id))
    known_words: list[str] = []
    for text in texts:
        words = _SEPARATORS.split(text[:100])
        known_words += [text[:_ESTIMATED_LENGTH], *filter(None, words)]
    return known_words


def _verify(stored_hash: str, password: str) -> bool:
    try:
        return _HASHER.verify(stored_hash, password)
    except (VerificationError, InvalidHashError):
        return False


@cache
def _dummy_hash() -> str:
    """A hash to check the passwords of unknown users against, so that it takes as long as for known users."""
    return _HASHER.hash("")
