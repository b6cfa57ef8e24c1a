"""Periodic jobs for the organization of a test."""

from __future__ import annotations

import pytest

from handlers.server.job_runs import JobRun


def do_jobs_only_for(monkeypatch: pytest.MonkeyPatch, organization_id: int) -> None:
    """Let jobs do their work for one organization: that for the organizations of all tests takes seconds."""
    monkeypatch.setattr(JobRun, "_find_ids", lambda *_: [organization_id])
