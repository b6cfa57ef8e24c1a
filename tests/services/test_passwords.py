"""Checks of passwords that people choose."""

from __future__ import annotations

import threading
from types import SimpleNamespace

from zxcvbn import matching

from handlers.services.passwords import password_fault


def user(name):
    return SimpleNamespace(name=name, nickname=None, user_name=None, email=None, auth_client_id="till")


def test_concurrent_checks_use_the_words_of_their_own_user(monkeypatch):
    estimate = matching.omnimatch
    other = threading.Thread(target=password_fault, args=("kvwmtr-zblorth", user("Ana")))

    def estimate_while_another_thread_checks(*arguments):
        if threading.current_thread() is not other:
            other.start()
            other.join(0.2)
        return estimate(*arguments)

    monkeypatch.setattr(matching, "omnimatch", estimate_while_another_thread_checks)
    assert password_fault("zblorthkvwmtr", user("Zblorth Kvwmtr")) == "is too easy to guess"
    other.join()
