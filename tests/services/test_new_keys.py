"""New keys of records."""

import time
import uuid

from handlers.call import new_uuid


def test_a_new_key_is_a_uuid_of_version_7():
    key = uuid.UUID(new_uuid())
    assert (key.version, key.variant) == (7, uuid.RFC_4122)


def test_a_new_key_begins_with_the_time_in_milliseconds():
    before = time.time_ns() // 1_000_000
    milliseconds = uuid.UUID(new_uuid()).int >> 80
    assert before <= milliseconds <= time.time_ns() // 1_000_000


def test_new_keys_of_one_millisecond_differ():
    assert len({new_uuid() for _ in range(10_000)}) == 10_000


def test_a_later_key_is_greater():
    earlier_key = new_uuid()
    time.sleep(0.002)
    assert earlier_key < new_uuid()
