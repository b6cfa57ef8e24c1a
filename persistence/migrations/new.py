"""For contributors: write the migration that leads from the existing ones to the tables in code.

`make revision MESSAGE="Add the colour of badges"` runs it on an empty database of its own. Read what it wrote before
you commit it: renamed columns and data to be moved are beyond what can be found out.
"""

import sys
import tempfile
from pathlib import Path

from alembic import command
from alembic.script import ScriptDirectory

from persistence import embedded, schema
from persistence.engine import create_engine

# The revision of version 1.0.0. Versions before it had lower ones.
_FIRST = 1000


def write(message: str, home: Path) -> None:
    """Write one migration file; `home` is the folder for its temporary, empty database."""
    with embedded.server(home, options={"fsync": "off"}) as url:
        engine = create_engine(url, threads=1)
        schema.migrate(engine)
        with engine.connect() as connection:
            config = schema.alembic_config(connection)
            head = ScriptDirectory.from_config(config).get_current_head()
            number = int(head) + 1 if head else _FIRST
            command.revision(config, message=message, autogenerate=True, rev_id=f"{number:04d}")
        engine.dispose()


if __name__ == "__main__":
    if len(sys.argv) != 2 or not sys.argv[1].strip():
        sys.exit('usage: python -m persistence.migrations.new "What the migration does"')
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as directory:
        Path(directory).chmod(0o755)  # for the user that PostgreSQL runs as where root works
        write(sys.argv[1], Path(directory) / "home")
