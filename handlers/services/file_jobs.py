"""Rules that imports and exports share for their callers."""

from collections.abc import Mapping

from domain.problems import Forbidden
from handlers.call import Call


def refuse_without_role(call: Call, job: str, kind: str, roles: Mapping[str, str]) -> None:
    """Refuse a caller without the further role that jobs of this `kind` need; `roles` has that role by kind.

    `job` is the noun for the refusal, such as `import`.
    """
    role = roles[kind]
    if call.caller is None or not call.caller.holds(role):
        raise Forbidden(f"An {job} of {kind} also needs the role {role}, which you do not hold.")
