"""The configuration of the worked examples, copied by files to empty organizations."""

from __future__ import annotations

import pytest

from tests.builders.configuration_files import copy_configuration
from tests.http.test_campaign_examples import SECTIONS, follow


@pytest.mark.stress
@pytest.mark.parametrize("title", SECTIONS)
def test_an_empty_organization_gets_the_same_configuration_by_files(api, organization, title, tmp_path):
    follow(organization, SECTIONS[title])
    source_texts, target_texts = copy_configuration(api, organization.id, api.organization().id, tmp_path)
    assert target_texts == source_texts
