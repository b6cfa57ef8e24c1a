"""The configuration in memory is that of the database, also after changes of it that were rolled back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass

import pytest

from handlers.http import dispatch
from handlers.operation import all_operations
from handlers.services import configuration
from persistence import organizations, transactions
from tests.builders.audited_calls import make_all
from tests.builders.campaigns import mint
from tests.builders.tracking import GENERIC, Shop, event, running

# These operations are not marked as changes of the configuration, because the queries of accounts raise its version.
ACCOUNT_OPERATIONS = {"createLedgerAccount", "updateLedgerAccount"}


class RolledBack(Exception):
    """Ends a transaction without a commit."""


def plain(value):
    """A value without identities, so that two configurations can be compared."""
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, Mapping):
        return {name: plain(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [plain(part) for part in value]
    if type(value).__module__.startswith(("domain", "handlers")) and not callable(value):
        slots = [name for base in type(value).__mro__ for name in getattr(base, "__slots__", ())]
        return {name: plain(getattr(value, name)) for name in slots or vars(value) if name[0] != "_"}
    return type(value).__name__ if callable(value) else value


def check_cached_configuration(engine, organization_id):
    """Check that the cached configuration of the current version equals a freshly loaded one."""
    with engine.connect() as db:
        organization = organizations.find(db, organization_id)
        cached_configuration = configuration._cache.get(organization_id)
        if cached_configuration is not None and cached_configuration.version == organization.configuration_version:
            assert plain(cached_configuration) == plain(configuration._load(db, organization, None))


@pytest.fixture
def operations_run_twice(organization, monkeypatch):
    """Run every transaction twice, and roll the first run back.

    Returns the ids of audited operations by whether they raised the version of the configuration.
    """
    run, write_entries, operation_ids = transactions.run, dispatch.write_entries, []
    operations: dict[bool, set[str]] = {True: set(), False: set()}

    # The entries of the audit log are written in the transaction of their operation.
    def note_operation(calls, operation_id):
        operation_ids.append(operation_id)
        write_entries(calls, operation_id)

    def run_twice(engine, work):
        def run_and_roll_back(db):
            record_before = organizations.find(db, organization.id)
            operation_ids.clear()
            work(db)
            # An operation that looks for triggers after its change reads the configuration, too.
            configuration.configuration_of(db, record_before)
            record_after = organizations.find(db, organization.id)
            raised_version = record_after.configuration_version > record_before.configuration_version
            operations[raised_version].update(operation_ids)
            raise RolledBack

        configuration._cache.clear()
        try:
            run(engine, run_and_roll_back)
        except RolledBack:
            check_cached_configuration(engine, organization.id)
        result = run(engine, work)
        check_cached_configuration(engine, organization.id)
        return result

    monkeypatch.setattr(transactions, "run", run_twice)
    monkeypatch.setattr(dispatch, "write_entries", note_operation)
    return operations


@pytest.fixture
def organization(api):
    """A test organization, since one operation moves a test clock."""
    return api.organization(environment="test")


@pytest.mark.slow
def test_no_operation_leaves_a_rolled_back_configuration_in_memory(organization, operations_run_twice):
    make_all(organization)
    configuring_operations = {
        operation_id for operation_id, operation in all_operations().items() if operation.changes_configuration
    }
    assert operations_run_twice[True] >= configuring_operations | ACCOUNT_OPERATIONS


def test_events_are_evaluated_by_the_committed_action_after_an_update_was_rolled_back(organization, monkeypatch):
    shop = Shop(organization)
    member = shop.member()
    campaign = shop.campaign(running(mint(5)), eventType=GENERIC)
    [action] = campaign["actions"]
    path = f"/campaigns/{campaign['campaignId']}/actions/{action['actionId']}"
    configuration._cache.clear()

    # The audit entries are written after the change, so this rolls the change back.
    def fail(calls, operation_id):
        raise RolledBack

    with monkeypatch.context() as patch:
        patch.setattr(dispatch, "write_entries", fail)
        shop.administration.put(path, {**running(mint(5)), "status": "disabled"}, expect=500)
    assert [effect["status"] for effect in shop.track_one(event(member))["effects"]] == ["executed"]
    assert shop.balance(member) == 5
