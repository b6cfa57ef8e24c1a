"""The configuration of organizations as files, without the command line."""

from __future__ import annotations

from pathlib import Path

from handlers.http.local import LocalApi
from handlers.server.configuration_files.changes import apply, exported
from handlers.server.configuration_files.yaml_files import dump, file_names, read_folder
from persistence import transactions
from tests.builders.api import Api, Organization


def configuration_texts(api: Api, organization: Organization) -> dict[str, str]:
    """The text of each configuration file by its name."""
    local = LocalApi(api.settings, api.engine, "operator")
    found = transactions.run(api.engine, lambda db: exported(local, local.within(db, organization.id)))
    return {name: dump(ref, found[ref]) for ref, name in file_names(found).items()}


def copy_configuration(api: Api, source: Organization, target: Organization, folder: Path) -> dict[str, str]:
    """Write the files of one organization to a folder and apply them to another; returns their texts."""
    texts = configuration_texts(api, source)
    for name, text in texts.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text)
    local, files = LocalApi(api.settings, api.engine, "operator"), read_folder(folder)
    transactions.run(api.engine, lambda db: apply(local, local.within(db, target.id), files))
    return texts
