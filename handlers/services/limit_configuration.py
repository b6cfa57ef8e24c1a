"""The lock and the limit of the configuration of an organization, which processes keep in memory."""

from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy import Connection

from domain.organizations import Organization
from domain.problems import FieldFault, InvalidRequest
from persistence import organizations
from persistence.configuration_sizes import BYTES_OF_RECORD, configuration_bytes

MAX_CONFIGURATION_BYTES = 16 * 1024 * 1024


def lock_configuration(db: Connection, organization: Organization) -> Organization:
    """Increment the version of the configuration, and read the organization again; return it.

    No other call can change the configuration until this one ends. What this one reads from now on has the changes of
    the calls for which it has waited.
    """
    organizations.increment_configuration_version(db, organization.organization_id)
    return organizations.find(db, organization.organization_id) or organization


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
