"""The configuration of organizations as files, without the command line."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sqlalchemy import Engine

from handlers.http.local import LocalApi
from handlers.server.configuration_files import changes
from handlers.server.configuration_files.yaml_files import read_folder, texts_of
from persistence import transactions
from tests.builders.api import Api


def export(engine: Engine, api: LocalApi, organization_id: int) -> dict[str, str]:
    """The text of each configuration file by its name."""
    return texts_of(
        transactions.run(engine, lambda db: changes.export_records(api, api.calls_within(db, organization_id)))
    )


def write(folder: Path, texts: Mapping[str, str]) -> None:
    """Write files of these names and texts."""
    for name, text in texts.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def apply(engine: Engine, api: LocalApi, organization_id: int, folder: Path) -> Any:
    """Apply the files of a folder to an organization; returns the changes."""
    files = read_folder(folder)
    return transactions.run(engine, lambda db: changes.apply(api, api.calls_within(db, organization_id), files))


def copy_configuration(api: Api, source_id: int, target_id: int, folder: Path) -> tuple[dict[str, str], dict[str, str]]:
    """Export one organization to a folder, apply the files to another; return the exported texts of both."""
    local = LocalApi(api.settings, api.engine, "operator")
    texts = export(api.engine, local, source_id)
    write(folder, texts)
    apply(api.engine, local, target_id, folder)
    return texts, export(api.engine, local, target_id)
