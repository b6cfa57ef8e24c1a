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
    check_of_ana = threading.Thread(target=password_fault, args=("kvwmtr-zblorth", user("Ana")))

    def estimate_while_another_thread_checks(*arguments):
        if threading.current_thread() is not check_of_ana:
            check_of_ana.start()
            check_of_ana.join(0.2)
        return estimate(*arguments)

    monkeypatch.setattr(matching, "omnimatch", estimate_while_another_thread_checks)
    # The password consists of the user's name, which is no word for any other user.
    assert password_fault("zblorthkvwmtr", user("Zblorth Kvwmtr")) == "is too easy to guess"
    check_of_ana.join()
