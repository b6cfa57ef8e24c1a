"""Rules that imports and exports share for their callers."""

from collections.abc import Mapping, Sequence
from typing import Any

from domain.problems import Forbidden
from handlers.call import Call
from persistence.file_jobs import FileJobs


def refuse_without_role(call: Call, job: str, kind: str, roles: Mapping[str, str]) -> None:
    """Refuse a caller without the further role that jobs of this `kind` need; `roles` has that role by kind.

    `job` is the noun for the refusal, such as `import`.
    """
    role = roles[kind]
    if call.caller is None or not call.caller.holds(role):
        raise Forbidden(f"An {job} of {kind} also needs the role {role}, which you do not hold.")


def count_unfinished(call: Call, jobs: FileJobs[Any], statuses: Sequence[str]) -> int:
    """Count the jobs of the organization with these statuses.

    Waits for other calls that create such a job for the organization, so that this call counts theirs.
    """
    organization_id = call.organization.organization_id
    jobs.lock_creation(call.db, organization_id)
    return jobs.count(call.db, organization_id, statuses)
