"""Imports that wait for a worker: how many of an organization a worker sees, claims and locks."""

from __future__ import annotations

import pytest
from sqlalchemy import text

from handlers.services.imports import work
from persistence import transactions
from persistence.imports import IMPORTS
from persistence.test_clocks import take
from tests.builders.imports import Imports
from tests.builders.test_clocks import Clock

FILE = "loyaltyMemberId\nana\n"
LOCKED_IMPORTS = text(
    "SELECT count(*) FROM pg_locks JOIN imports"
    " ON classid::bigint << 32 | objid::bigint = hashtextextended('import ' || import_id, organization_id)"
    " WHERE locktype = 'advisory' AND pid = pg_backend_pid() AND organization_id = :organization_id"
)


@pytest.fixture
def imports(organization):
    return Imports(organization)


@pytest.fixture
def other_imports(other_organization):
    return Imports(other_organization)


def call_during_step(monkeypatch, imports, act):
    """Call `act` with the database connection of the first step that imports rows for the organization."""
    import_members = work._IMPORT_OF_KIND["members"]

    def act_and_import(step):
        if step.call.organization.organization_id == imports.organization.id:
            monkeypatch.setitem(work._IMPORT_OF_KIND, "members", import_members)
            act(step.call.db)
        return import_members(step)

    monkeypatch.setitem(work._IMPORT_OF_KIND, "members", act_and_import)


def import_all(imports):
    """Do all steps of all imports."""
    importer = imports.importer
    while importer.step():
        pass


def test_a_worker_sees_the_20_longest_waiting_imports_of_an_organization(imports, other_imports, engine):
    paths = [imports.queue(FILE) for _ in range(22)]
    other_path = other_imports.queue(FILE)
    with engine.begin() as db:
        # The first import has waited for the shortest time.
        first_import = {"o": imports.organization.id, "i": int(paths[0].rpartition("/")[2])}
        later = "UPDATE imports SET updated_at = now() WHERE organization_id = :o AND import_id = :i"
        db.execute(text(later), first_import)
        waiting = IMPORTS.find_waiting(db)
    paths_by_organization = {
        organization.id: [f"/imports/{import_id}" for id_, import_id in waiting if id_ == organization.id]
        for organization in (imports.organization, other_imports.organization)
    }
    assert list(paths_by_organization.values()) == [paths[1:21], [other_path]]
    import_all(imports)
    assert {imports.get(path)["status"] for path in paths} == {"done"}


def test_several_workers_import_for_an_organization_at_a_time(imports, monkeypatch):
    paths = [imports.queue(FILE.replace("ana", name)) for name in ("ana", "ben")]
    rows_done = []

    def import_by_another_worker(_):
        import_all(imports)
        rows_done.extend(imports.get(path)["rowsDone"] for path in paths)

    call_during_step(monkeypatch, imports, import_by_another_worker)
    import_all(imports)
    assert rows_done == [0, 1]
    assert [imports.get(path)["rowsDone"] for path in paths] == [1, 1]


def test_a_worker_claims_no_import_while_the_clock_of_its_organization_is_being_advanced(
    api, other_imports, engine, monkeypatch
):
    clock = Clock.new(api)
    imports = Imports(clock.organization)
    paths = [imports.queue(FILE) for _ in range(5)]
    with engine.begin() as db:
        advancing = "UPDATE organizations SET clock_target = clock_now, clock_error = 'x' WHERE organization_id = :id"
        db.execute(text(advancing), {"id": imports.organization.id})
    assert locks_during_import(imports, other_imports, monkeypatch) == 0
    assert {imports.get(path)["status"] for path in paths} == {"queued"}


def test_a_worker_claims_one_import_while_another_transaction_has_the_clock_of_its_organization(
    api, other_imports, engine, monkeypatch
):
    imports = Imports(Clock.new(api).organization)
    paths = [imports.queue(FILE) for _ in range(5)]

    def import_meanwhile(db):
        take(db, imports.organization.id)
        assert locks_during_import(imports, other_imports, monkeypatch) == 1

    transactions.run(engine, import_meanwhile)
    assert {imports.get(path)["status"] for path in paths} == {"queued"}
    import_all(imports)
    assert {imports.get(path)["status"] for path in paths} == {"done"}


def locks_during_import(imports, other_imports, monkeypatch):
    """Import for another organization; return how many imports of `imports` the worker has locked in this step."""
    path, locks = other_imports.queue(FILE), []

    def count_locks(db):
        locks.append(db.execute(LOCKED_IMPORTS, {"organization_id": imports.organization.id}).scalar_one())

    call_during_step(monkeypatch, other_imports, count_locks)
    import_all(other_imports)
    assert other_imports.get(path)["status"] == "done"
    [number] = locks
    return number
