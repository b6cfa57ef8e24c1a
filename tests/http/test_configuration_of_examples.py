"""The organizations of the worked examples, moved by files to empty ones."""

from __future__ import annotations

import pytest

from handlers.http.local import LocalApi
from handlers.server.configuration_files.changes import apply, exported
from handlers.server.configuration_files.yaml_files import dump, file_names, read_folder
from persistence import transactions
from tests.http.test_campaign_examples import SECTIONS, follow


@pytest.mark.stress
@pytest.mark.parametrize("title", SECTIONS)
def test_files_make_an_empty_organization_the_same(api, organization, title, tmp_path):
    follow(organization, SECTIONS[title])
    local, target = LocalApi(api.settings, api.engine, "operator"), api.organization()

    def texts(organization_id):
        found = transactions.run(api.engine, lambda db: exported(local, local.within(db, organization_id)))
        return {name: dump(ref, found[ref]) for ref, name in file_names(found).items()}

    written = texts(organization.id)
    for name, text in written.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    files = read_folder(tmp_path)
    transactions.run(api.engine, lambda db: apply(local, local.within(db, target.id), files))
    assert texts(target.id) == written
