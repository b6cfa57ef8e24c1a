"""The keys of exported rows: each names the record that a row was exported from, so that a row is imported only once.

A key of a badge names the badge and the member, a key of a coupon names the assignment. A balance, the points of a
member in an account, can have several rows. Their keys begin with the source, which names the account and the member.
A digest of the contents of all these rows follows: if any row changes, all keys of the balance change, except for their
source. So an import recognizes an unchanged balance by the keys, and a changed one by the source.
"""

import re
from dataclasses import dataclass

PREFIX = "export-"
_UUID, _DIGITS = "[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", "[0-9]{1,19}"
_DIGEST_LENGTH = 16
# Regular expressions for PostgreSQL, by which `substring` returns the `record_key` of an `ExportKey`.
BALANCE_PATTERN = f"^{PREFIX}({_UUID})-{_DIGITS}-[0-9a-f]{{{_DIGEST_LENGTH}}}-{_DIGITS}$"
BADGE_PATTERN = f"^{PREFIX}({_UUID})-{_DIGITS}$"
COUPON_PATTERN = f"^{PREFIX}({_UUID})$"
_KEY = re.compile(
    f"(?P<source>{PREFIX}(?P<record>{_UUID})(?:-(?P<member>{_DIGITS}))?)"
    f"(?:-(?P<digest>[0-9a-f]{{{_DIGEST_LENGTH}}})-{_DIGITS})?"
)


@dataclass(frozen=True, slots=True)
class ExportKey:
    """The parts of the key of an exported row.

    `record_key` is the key of the account, badge or assignment in the organization of the export, `member_id` the id of
    the member there. Keys of coupons have no member, and only keys of balances have a digest.
    """

    source: str
    record_key: str
    member_id: int | None
    digest: str | None


def parse_export_key(key: str) -> ExportKey | None:
    """The parts of a key; None if it does not have the form of a key of an exported row."""
    match = _KEY.fullmatch(key)
    if match is None:
        return None
    member_id = None if match["member"] is None else int(match["member"])
    return ExportKey(match["source"], match["record"], member_id, match["digest"])


def source_of(record_key: str, member_id: int) -> str:
    """The source of the rows that describe what a member has of a record."""
    return f"{PREFIX}{record_key}-{member_id}"


def balance_keys(source: str, digest: bytes, count: int) -> list[str]:
    """The keys of the `count` rows of a balance.

    They contain the `source` (see `source_of`), and the `digest` of the contents of all these rows.
    """
    return [f"{source}-{digest.hex()[:_DIGEST_LENGTH]}-{number}" for number in range(1, count + 1)]
