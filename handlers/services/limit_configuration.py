"""The limit of an organization's configuration, which each process keeps in memory and reloads after each change."""

from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy import Connection

from domain.problems import FieldFault, InvalidRequest
from persistence.configuration_sizes import BYTES_OF_RECORD, configuration_bytes

MAX_CONFIGURATION_BYTES = 16 * 1024 * 1024


@contextmanager
def limit_configuration(db: Connection, organization_id: int) -> Iterator[None]:
    """Raise InvalidRequest after the block if it has made the configuration larger than the maximum.

    A configuration that is too large already can become smaller.
    """
    before = configuration_bytes(db, organization_id)
    yield
    size = configuration_bytes(db, organization_id)
    if size > max(before, MAX_CONFIGURATION_BYTES):
        detail = (
            f"The organization's configuration would have {size:,} bytes, more than the maximum of "
            f"{MAX_CONFIGURATION_BYTES:,}. Each record counts {BYTES_OF_RECORD:,} bytes in addition to its texts and "
            "JSON. Make matchers, rules or texts shorter, or deactivate campaigns or audiences."
        )
        raise InvalidRequest([FieldFault(detail, pointer="")])
