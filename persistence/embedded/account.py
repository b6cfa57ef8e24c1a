"""The account that PostgreSQL runs as: PostgreSQL refuses root, so root hands the work to another user."""

import os
import pwd
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from persistence.embedded.errors import EmbeddedError

_UNPRIVILEGED = ("postgres", "nobody")


@dataclass(frozen=True)
class Account:
    """A user that root becomes for the programs of PostgreSQL."""

    name: str
    uid: int
    gid: int

    def process_options(self) -> dict[str, Any]:
        """The arguments of `subprocess` to start a process as this user, without root's groups."""
        return {"user": self.uid, "group": self.gid, "extra_groups": []}

    def can(self, test: str, path: Path) -> bool:
        """True if this user has the access to a path that `test` names: an option of test(1), such as -x."""
        return subprocess.run(["test", test, path], cwd="/", **self.process_options()).returncode == 0


def account_of_cluster(data: Path) -> Account | None:
    """The account that runs the cluster in the folder `data`; None if the caller runs it, which must not be root.

    For root, it is the owner of the folder, or for a new folder the first of the `_UNPRIVILEGED` accounts that exists.
    Raises EmbeddedError if there is no such account, or if the folder belongs to another user than the caller.
    """
    if os.geteuid() != 0:
        if data.exists() and data.stat().st_uid != os.geteuid():
            raise EmbeddedError(f"{data} belongs to another user; use a LOYALTY_HOME of your own")
        return None
    if data.exists() and data.stat().st_uid != 0:
        return _account_of_uid(data.stat().st_uid)
    for name in _UNPRIVILEGED:
        try:
            return _account_of(pwd.getpwnam(name))
        except KeyError:
            continue
    raise EmbeddedError(
        f"PostgreSQL does not run as root, and this machine has no user {' or '.join(_UNPRIVILEGED)}: "
        "create one of these users, or set LOYALTY_DATABASE_URL"
    )


def _account_of_uid(uid: int) -> Account:
    """The account with a user id."""
    try:
        return _account_of(pwd.getpwuid(uid))
    except KeyError:
        # In a container, the files may belong to a user id without a name.
        return Account(f"uid {uid}", uid, uid)


def _account_of(entry: pwd.struct_passwd) -> Account:
    return Account(entry.pw_name, entry.pw_uid, entry.pw_gid)
