"""Triggers that also work if the tables are distributed by Citus.

Then every shard has the trigger. It reads and writes the shards of other tables that have the same organizations, and
finds their names when it runs. No statement has a percent sign, which drivers read as a placeholder.
"""

import re
from collections.abc import Sequence
from textwrap import dedent

# The name of a shard is that of its table and a number. Shards of the same hash range are on the same node.
SHARD_BESIDE = """
CREATE OR REPLACE FUNCTION shard_beside(shard regclass, wanted text) RETURNS text LANGUAGE plpgsql STABLE AS $$
DECLARE
    name text;
BEGIN
    SELECT quote_ident(n.nspname) || '.' || quote_ident(wanted || '_' || beside.shardid) INTO STRICT name
    FROM pg_class c
    JOIN pg_namespace n ON n.oid = c.relnamespace
    JOIN pg_dist_shard own ON own.shardid = CAST(substring(c.relname FROM '[0-9]+$') AS bigint)
    JOIN pg_dist_shard beside ON beside.shardminvalue = own.shardminvalue
    JOIN pg_class whole ON whole.oid = beside.logicalrelid
    WHERE c.oid = shard AND whole.relnamespace = n.oid AND whole.relname = wanted;
    RETURN name;
END $$
"""


def on_shards_too(table: str, statement: str, *, before: str = "", into: str = "", values: Sequence[str] = ()) -> str:
    """PL/pgSQL that executes a statement in a trigger of `table`, or of any of its shards.

    The statement has the names of tables in braces, such as {events}. `before` is the PL/pgSQL before the statement,
    such as `OPEN rows FOR`. `into` names the variables for the result, `values` the variables in the statement. Only
    shards execute the statement as a text, which is planned each time.
    """
    statement = dedent(statement).strip()
    text = statement.replace("'", "''")
    for position, name in enumerate(values, start=1):
        text = re.sub(rf"\b{name}\.", f"(${position}).", text)
        text = re.sub(rf"\b{name}\b", f"${position}", text)
    text = re.sub(r"\{(\w+)\}", r"' || shard_beside(TG_RELID, '\1') || '", text)
    plain = re.sub(r"\{(\w+)\}", r"\1", statement)
    into = f" INTO {into}" if into else ""
    using = f" USING {', '.join(values)}" if values else ""
    return f"""IF TG_TABLE_NAME = '{table}' THEN
        {before}{plain}{into};
    ELSE
        {before}EXECUTE '{text}'{into}{using};
    END IF;"""
