"""Imports of opening balances: each row is a mint. The number of statements does not depend on the number of rows."""

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any

from domain.idempotency import ResultsByKey
from domain.imports.export_keys import parse_export_key
from domain.imports.records import UPSERT, RowFault
from domain.ledger.availability import AT_ONCE, Availability
from domain.ledger.postings import Details
from domain.ledger.records import LedgerAccount
from domain.members import Member
from domain.problems import Refusal
from handlers.messages.json_text import digest_of
from handlers.services.configuration import configuration_of
from handlers.services.imports.reading import ImportStep
from handlers.services.imports.rows import ImportRow
from handlers.services.unit_of_work.requests import open_unit
from handlers.services.unit_of_work.unit import UnitOfWork
from persistence import posting

_REASON = "Balances were imported."
# The fields of a row that the body of `mintMemberPoints` has, too.
_OPERATION_FIELDS = ("amount", "qualifyingAmount", "description", "tags", "systemUniqueKey", "externalId")
_FIELD_OF_POINTER = {f"/{name}": name for name in _OPERATION_FIELDS}


@dataclass(frozen=True, slots=True)
class _BalanceRow:
    """A well-formed row; the digest in `details` covers the values that decide what is minted."""

    row: ImportRow
    loyalty_member_id: str
    account: LedgerAccount
    amount: Decimal
    qualifying: Decimal | None
    is_pending: bool
    expires_at: datetime | None
    availability: Availability
    details: Details

    @property
    def key(self) -> str:
        """The key that keeps the row from being posted twice."""
        return self.details.system_unique_key


def import_balances(step: ImportStep) -> None:
    """Mint the balances of rows."""
    accounts = _Accounts(step)
    balance_rows = step.read(lambda row: _read(step, row, accounts))
    if balance_rows:
        _post(step, balance_rows, accounts.all_keys)


class _Accounts:
    """Finds the accounts that rows name, which are accounts of the default ledger.

    `all_keys` are the keys of the accounts of all ledgers.
    """

    def __init__(self, step: ImportStep) -> None:
        self._step, call = step, step.call
        ledger_id = call.organization.default_ledger_id
        all_accounts = configuration_of(call.db, call.organization).accounts.values()
        self.all_keys = {account.ledger_account_key for account in all_accounts}
        accounts = [account for account in all_accounts if account.ledger_id == ledger_id]
        self._default = next((account for account in accounts if account.is_default_account), None)
        self._by_name = {account.alias: account for account in accounts if account.alias is not None}
        self._by_name |= {account.ledger_account_key: account for account in accounts}

    def of(self, values: Mapping[str, Any]) -> LedgerAccount:
        """The account of a row by its values; raises RowFault."""
        if "account" not in values:
            if self._default is None:
                raise RowFault(
                    "The row names no account, and the ledger has no default account.", self._step.name_of("account")
                )
            return self._default
        name = values["account"]
        account = self._by_name.get(name) or self._by_name.get(name.lower())
        if account is None:
            raise RowFault(f"{name[:100]} is no account of the default ledger.", self._step.name_of("account"))
        return account


def _read(step: ImportStep, row: ImportRow, accounts: _Accounts) -> _BalanceRow:
    """Read a row; raises RowFault."""
    values = row.values
    step.check_body(
        "MemberPointsRequest", {name: values[name] for name in _OPERATION_FIELDS if name in values}, _FIELD_OF_POINTER
    )
    account = accounts.of(values)
    expires_at = step.expiry_in(row, "expiresAt")
    earned_at = step.past_moment_in(row, "earnedAt")
    available_at = step.moment_in(row, "availableAt")
    is_pending = bool(values.get("pending", False))
    if is_pending and available_at is not None:
        raise step.fault("availableAt", f"cannot be given with {step.name_of('pending')}: leave one out.")
    name = values["loyaltyMemberId"]
    account_id = account.ledger_account_id
    digest_values: tuple[Any, ...] = (name, account_id, values["amount"], expires_at, earned_at, is_pending)
    amount = Decimal(values["amount"])
    qualifying = Decimal(values["qualifyingAmount"]) if "qualifyingAmount" in values else None
    if not amount and qualifying is None:
        raise step.fault(
            "amount", f"is 0; a row with the amount 0 needs a value in {step.name_of('qualifyingAmount')}."
        )
    # Rows without these columns keep the digest that they had before the columns existed.
    digest_values += tuple(value for value in (qualifying, available_at) if value is not None)
    details = Details(
        system_unique_key=step.key_of(row),
        request_digest=digest_of(digest_values),
        external_id=values.get("externalId"),
        external_event_date=earned_at,
        description=values.get("description"),
        tags=tuple(values["tags"]) if "tags" in values else None,
        # The import shows no activity of the member: the last one in the former system is not known.
        counts_as_activity=False,
    )
    # Members could use these points in the former system, so the account's waiting times do not apply to them.
    availability = AT_ONCE if available_at is None else Availability(available_at)
    return _BalanceRow(row, name, account, amount, qualifying, is_pending, expires_at, availability, details)


def _post(step: ImportStep, balance_rows: Sequence[_BalanceRow], account_keys: Container[str]) -> None:
    """Mint the rows that were not posted before, for the members who exist."""
    unit = UnitOfWork(step.call)
    locked_members = unit.lock({balance_row.loyalty_member_id for balance_row in balance_rows})
    members = {name: member for name, member in locked_members.items() if member.erased_at is None}
    posted_by_key = posting.find_posted(
        unit.db, unit.organization_id, [balance_row.key for balance_row in balance_rows]
    )
    imported_balances = _ImportedBalances(step, unit, balance_rows)
    to_post: list[tuple[_BalanceRow, Member]] = []
    for balance_row in balance_rows:
        try:
            member = step.member_of(balance_row.row, members)
            step.refuse_own_export(balance_row.row, account_keys, member)
            if _register_key(step, balance_row, posted_by_key, imported_balances):
                to_post.append((balance_row, member))
        except RowFault as fault:
            step.failed.append(balance_row.row.to_failed_row(fault.reason, fault.column))
    if to_post:
        _mint(step, unit, to_post)


class _ImportedBalances:
    """Knows which exported balances were imported: for the source of each, the key of one of its rows.

    Only one export of a balance is imported. A later export may have the same points in other rows, with new keys: for
    example, points that waited at the first export and have become available since.
    """

    def __init__(self, step: ImportStep, unit: UnitOfWork, balance_rows: Sequence[_BalanceRow]) -> None:
        self._step = step
        export_keys = [parse_export_key(balance_row.key) for balance_row in balance_rows]
        sources = {export_key.source for export_key in export_keys if export_key is not None and export_key.digest}
        self._keys_by_source = posting.find_keys_by_source(unit.db, unit.organization_id, sources) if sources else {}

    def register_export_key(self, balance_row: _BalanceRow) -> None:
        """Remember the key of a new row if an export made it.

        Raises RowFault if rows of another export of the same balance were imported.
        """
        export_key = parse_export_key(balance_row.key)
        if export_key is None or export_key.digest is None:
            return
        first_key = self._keys_by_source.setdefault(export_key.source, balance_row.key)
        if not first_key.startswith(f"{export_key.source}-{export_key.digest}-"):
            reason = f"Another export of the balance was imported, with the systemUniqueKey {first_key}."
            raise RowFault(
                f"{reason} The balance has changed between the exports.", self._step.name_of("systemUniqueKey")
            )


def _register_key(
    step: ImportStep, balance_row: _BalanceRow, posted_by_key: ResultsByKey[int], imported_balances: _ImportedBalances
) -> bool:
    """Register the key of a row; return True if the row is to be posted.

    Returns False for a row that was posted before, if the import may repeat rows; raises RowFault if it may not.
    """
    digest = balance_row.details.request_digest
    if balance_row.key not in posted_by_key:
        imported_balances.register_export_key(balance_row)
        # The row is posted later, with the other rows; nothing reads its transaction id, so it is 0 here.
        posted_by_key.add(balance_row.key, digest, 0)
        return True
    column = step.name_of("systemUniqueKey")
    if step.job.mode != UPSERT:
        raise RowFault(f"Points were posted with the systemUniqueKey {balance_row.key} before.", column)
    try:
        # Only for the refusal of a key that was used for other values.
        posted_by_key.find(balance_row.key, digest)
    except Refusal as refusal:
        raise RowFault(refusal.detail, column) from None
    return False


def _mint(step: ImportStep, unit: UnitOfWork, rows: Sequence[tuple[_BalanceRow, Member]]) -> None:
    """Mint the amounts of rows; a row whose mint is refused fails, and the others are posted."""
    accounts = {balance_row.account.ledger_account_id for balance_row, _ in rows}
    with open_unit(unit, _REASON, account_ids=accounts):
        for balance_row, member in rows:
            savepoint = unit.ledger.savepoint()
            account = unit.ledger.accounts.get(balance_row.account.ledger_account_id, balance_row.account)
            try:
                unit.ledger.mint(
                    account,
                    member.wallet_id,
                    balance_row.amount,
                    balance_row.details,
                    balance_row.expires_at,
                    balance_row.is_pending,
                    balance_row.qualifying,
                    checks_max_balance=False,
                    availability=balance_row.availability,
                )
            except Refusal as refusal:
                unit.ledger.rollback_to(savepoint)
                step.fail(balance_row.row, refusal.detail)
