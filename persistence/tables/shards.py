"""Triggers that also hold where the tables are distributed by Citus.

There every shard has the trigger, which reads and writes the shards next to its own, of the same organizations.
Their names are found when it runs. No statement holds a percent sign, which drivers take for a parameter.
"""

import re
from collections.abc import Sequence
from textwrap import dedent

# A shard has the name of its table and a number. On its node are the shards of other tables with the same hash range.
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

    The statement names tables in braces, as {events}. `before` precedes it, as `OPEN rows FOR`; `into` names the
    variables for the result, `values` those in the statement. A text is planned each time, so it is one on shards only.
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
