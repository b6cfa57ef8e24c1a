"""How the files of imports and the rows of exports that have ended are removed: a limited number of pieces at once."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from sqlalchemy import event, text

from domain.exports import ABANDONED_AFTER
from handlers.server.jobs import run_job
from handlers.services.exports import write
from handlers.services.exports.write import ExportWriter
from persistence import exports, file_jobs, imports, transactions
from persistence.imports import IMPORTS
from tests.builders.imports import Imports
from tests.builders.jobs import do_jobs_only_for
from tests.builders.tracking import Shop

AT_ONCE = 3
# The header and 7 rows, each in a block of its own.
ROWS = 7
BLOCK_BYTES = len("loyaltyMemberId\n")


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch):
    """Blocks of 16 bytes, parts of exports with one row, and statements that remove 3 of them."""
    monkeypatch.setattr(file_jobs, "PIECES_AT_ONCE", AT_ONCE)
    monkeypatch.setattr(imports, "BLOCK_BYTES", BLOCK_BYTES)
    monkeypatch.setattr(write, "ROWS_IN_PART", 1)


@pytest.fixture
def shop(api, monkeypatch):
    shop = Shop(api.organization())
    do_jobs_only_for(monkeypatch, shop.organization.id)
    return shop


@pytest.fixture
def removals(api, shop):
    """The number of pieces of the organization that each statement has removed, without statements that found none."""
    counts: list[int] = []

    def record(_connection: Any, cursor: Any, statement: str, parameters: Any, *_: Any) -> None:
        is_removal = statement.startswith(("DELETE FROM import_blocks", "DELETE FROM export_parts"))
        if is_removal and cursor.rowcount and parameters["organization_id_1"] == shop.organization.id:
            counts.append(cursor.rowcount)

    event.listen(api.engine, "after_cursor_execute", record)
    yield counts
    event.remove(api.engine, "after_cursor_execute", record)


@pytest.fixture
def queued_import(shop):
    """The path of a queued import, whose file has 8 blocks."""
    names = [f"member-{number}".ljust(BLOCK_BYTES - 1, "x") for number in range(ROWS)]
    return Imports(shop.organization).queue("\n".join(["loyaltyMemberId", *names, ""]))


def count_blocks(shop):
    return len(shop.rows("import_blocks", "1"))


def stored_bytes(shop):
    return transactions.run(shop.engine, lambda db: IMPORTS.stored_bytes(db, shop.organization.id))


def run(shop, job):
    return run_job(shop.engine, shop.organization.api.settings, job)


def test_the_file_of_an_import_that_has_ended_is_removed_piece_by_piece(shop, queued_import, removals):
    importer = Imports(shop.organization).importer
    while importer.step():
        pass
    assert Imports(shop.organization).get(queued_import)["status"] == "done"
    # The end of the import removes the first blocks, and the job the others.
    assert (removals, count_blocks(shop)) == ([3], 5)
    # As long as a block is stored, the file counts for the maximum of the organization.
    assert stored_bytes(shop) == 8 * BLOCK_BYTES
    run(shop, "remove-uploads")
    assert (removals, count_blocks(shop)) == ([3, 3, 2], 0)
    assert shop.rows("import_parts") == []
    assert stored_bytes(shop) == 0


def test_the_file_of_a_cancelled_import_is_removed_piece_by_piece(shop, queued_import, removals):
    assert shop.administration.post(f"{queued_import}/cancel", expect=200)["import"]["status"] == "cancelled"
    assert removals == [3]
    run(shop, "remove-uploads")
    assert (removals, count_blocks(shop)) == ([3, 3, 2], 0)


def test_the_files_of_abandoned_imports_are_removed_piece_by_piece(shop, removals):
    imports_of_shop = Imports(shop.organization)
    path = imports_of_shop.begin()
    imports_of_shop.upload(path, b"x" * 8 * BLOCK_BYTES)
    with shop.engine.begin() as db:
        db.execute(
            text("UPDATE imports SET updated_at = updated_at - interval '25 hours' WHERE organization_id = :o"),
            {"o": shop.organization.id},
        )
    run(shop, "remove-uploads")
    assert imports_of_shop.get(path)["status"] == "failed"
    assert (removals, count_blocks(shop)) == ([3, 3, 2], 0)


def test_a_part_that_replaces_another_one_is_stored_whole(shop, removals):
    imports_of_shop = Imports(shop.organization)
    path = imports_of_shop.begin()
    imports_of_shop.upload(path, b"x" * 8 * BLOCK_BYTES)
    imports_of_shop.upload(path, b"y" * 2 * BLOCK_BYTES)
    assert (removals, count_blocks(shop)) == ([3, 3, 2], 2)


def test_an_import_that_cannot_be_ended_does_not_stop_those_of_others(shop, queued_import, api, monkeypatch):
    other_imports = Imports(api.organization())
    other_path = other_imports.queue("loyaltyMemberId\nben\n")
    import_id, remove = int(queued_import.rpartition("/")[2]), IMPORTS.remove_content

    def fail_for_one(db, job):
        if job.import_id == import_id:
            db.execute(text("SELECT 1 / 0"))
        return remove(db, job)

    importer = other_imports.importer
    with monkeypatch.context() as patch:
        patch.setattr(IMPORTS, "remove_content", fail_for_one)
        for _ in range(10):
            assert importer.step()
        assert other_imports.get(other_path)["status"] == "done"
        assert Imports(shop.organization).get(queued_import)["status"] == "running"
    while importer.step():
        pass
    assert Imports(shop.organization).get(queued_import)["status"] == "done"


class TestExports:
    @pytest.fixture
    def path(self, shop):
        """The path of an export with 8 parts that is done."""
        for _ in range(8):
            shop.member()
        export = shop.administration.post("/exports", {"kind": "members"})["export"]
        writer = ExportWriter(shop.engine, shop.organization.api.settings, is_stopping=lambda: False)
        while writer.step():
            pass
        return f"/exports/{export['exportId']}"

    def test_the_rows_of_a_cancelled_export_are_removed_piece_by_piece(self, shop, path, removals):
        assert shop.administration.post(f"{path}/cancel", expect=200)["export"]["status"] == "cancelled"
        assert removals == [3]
        run(shop, "expire-exports")
        assert removals == [3, 3, 2]
        assert shop.rows("export_parts") == []

    def test_the_rows_of_an_expired_export_are_removed_piece_by_piece(self, shop, path, removals):
        with shop.engine.begin() as db:
            db.execute(
                text("UPDATE exports SET finished_at = finished_at - interval '8 days' WHERE organization_id = :o"),
                {"o": shop.organization.id},
            )
        run(shop, "expire-exports")
        assert shop.administration.get(path)["export"]["status"] == "expired"
        assert removals == [3, 3, 2]

    def test_an_abandoned_export_begins_again_when_its_rows_are_removed(self, shop, path, removals):
        export_id, later = int(path.rpartition("/")[2]), datetime.now(UTC) + 2 * ABANDONED_AFTER
        with shop.engine.begin() as db:
            db.execute(
                text("UPDATE exports SET status = 'running' WHERE organization_id = :o"), {"o": shop.organization.id}
            )

        def claim():
            return transactions.run(shop.engine, lambda db: exports.claim(db, shop.organization.id, export_id, later))

        assert [claim(), claim()] == [None, None]
        assert claim().status == "running"
        assert removals == [3, 3, 2]
