"""Ledger rules enforced by the database itself, against unbalanced, added, changed or deleted rows.

`metadata.create_all` adds them after the tables. No statement has a percent sign, which drivers read as a placeholder.
"""

from domain.ledger.records import SETTLED
from persistence.tables.base import execute_on
from persistence.tables.ledger import ledger_entries
from persistence.tables.shards import SHARD_BESIDE, on_shards_too

# Checked at the commit, since entries are written after their transaction. Updates are checked, too: a unit of work may
# add entries to each transaction that it has inserted or updated, for example by a capture.
_SUM_OF_ENTRIES = """
SELECT coalesce(sum(amount), 0), count(*) FROM {ledger_entries}
WHERE organization_id = new.organization_id AND ledger_transaction_id = new.ledger_transaction_id"""

_BALANCED = f"""
CREATE OR REPLACE FUNCTION ledger_transaction_is_balanced() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    difference numeric;
    entries bigint;
    fault text;
BEGIN
    {on_shards_too("ledger_transactions", _SUM_OF_ENTRIES, into="difference, entries", values=("new",))}
    IF difference <> 0 THEN
        fault := 'has entries that sum to ' || difference || ', not to zero';
    ELSIF new.amount > 0 AND new.status = {SETTLED} AND entries < 2 THEN
        fault := 'moves ' || new.amount || ' with ' || entries || ' entries';
    ELSE
        RETURN NULL;
    END IF;
    RAISE EXCEPTION USING ERRCODE = 'check_violation', TABLE = 'ledger_transactions',
        CONSTRAINT = 'ledger_transaction_is_balanced',
        MESSAGE = 'ledger transaction ' || new.ledger_transaction_id || ' of organization ' || new.organization_id
            || ' ' || fault;
END $$
"""

_BALANCED_TRIGGER = """
CREATE CONSTRAINT TRIGGER ledger_transaction_is_balanced AFTER INSERT OR UPDATE ON ledger_transactions
DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION ledger_transaction_is_balanced()
"""

# The `xmin` of a row that this database transaction has written is the transaction's id, or the id of one of its
# savepoints. `xmin` has only the low half of an id; the id of a savepoint is later than that of its transaction, and
# still in progress. Each ledger transaction is looked up individually (OFFSET keeps the planner from joining): a
# connection plans this once, maybe while the table is new, and would go on reading the whole table. With the account in
# the condition, the index of the account is as good as the primary key, whichever the planner chooses.
_WRITERS = """
SELECT n.organization_id, n.ledger_transaction_id, CAST(CAST(t.writer AS text) AS bigint) AS writer
FROM (SELECT DISTINCT organization_id, ledger_account_id, ledger_transaction_id FROM added) n
LEFT JOIN LATERAL (
    SELECT xmin AS writer FROM {ledger_transactions}
    WHERE organization_id = n.organization_id AND ledger_account_id = n.ledger_account_id
        AND ledger_transaction_id = n.ledger_transaction_id OFFSET 0
) t ON true
WHERE t.writer IS DISTINCT FROM CAST(pg_current_xact_id() AS xid)"""

_ADDED_AT_ONCE = f"""
CREATE OR REPLACE FUNCTION ledger_entries_come_with_their_transaction() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    own bigint := CAST(CAST(pg_current_xact_id() AS text) AS bigint);
    low_half CONSTANT bigint := 4294967296;
    others refcursor;
    other record;
    later bigint;
BEGIN
    {on_shards_too("ledger_entries", _WRITERS, before="OPEN others FOR ")}
    LOOP
        FETCH others INTO other;
        EXIT WHEN NOT FOUND;
        IF other.writer IS NULL THEN
            RAISE EXCEPTION USING ERRCODE = 'check_violation', TABLE = 'ledger_entries',
                CONSTRAINT = 'ledger_entries_come_with_their_transaction',
                MESSAGE = 'ledger transaction ' || other.ledger_transaction_id || ' of organization '
                    || other.organization_id || ' is of another account than its entry';
        END IF;
        later := mod(other.writer - mod(own, low_half) + low_half, low_half);
        IF later > low_half / 2
            OR pg_xact_status(CAST(CAST(own + later AS text) AS xid8)) IS DISTINCT FROM 'in progress' THEN
            RAISE EXCEPTION USING ERRCODE = 'check_violation', TABLE = 'ledger_entries',
                CONSTRAINT = 'ledger_entries_come_with_their_transaction',
                MESSAGE = 'ledger transaction ' || other.ledger_transaction_id || ' of organization '
                    || other.organization_id || ' is complete: it takes no further entries';
        END IF;
    END LOOP;
    CLOSE others;
    RETURN NULL;
END $$
"""

_ADDED_AT_ONCE_TRIGGER = """
CREATE TRIGGER ledger_entries_come_with_their_transaction AFTER INSERT ON ledger_entries
REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION ledger_entries_come_with_their_transaction()
"""

_IS_OF_A_TEST = """
SELECT environment = 'test' FROM {organizations} WHERE organization_id = old.organization_id"""

_NEVER_CHANGED = f"""
CREATE OR REPLACE FUNCTION ledger_entries_stay() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    is_of_a_test boolean;
BEGIN
    IF TG_LEVEL = 'ROW' THEN
        {on_shards_too("ledger_entries", _IS_OF_A_TEST, into="is_of_a_test", values=("old",))}
        IF is_of_a_test THEN
            RETURN old;
        END IF;
    END IF;
    RAISE EXCEPTION USING ERRCODE = 'check_violation', TABLE = 'ledger_entries', CONSTRAINT = 'ledger_entries_stay',
        MESSAGE = 'ledger entries are never changed and never removed';
END $$
"""

_NEVER_CHANGED_TRIGGER = """
CREATE TRIGGER ledger_entries_stay BEFORE UPDATE OR TRUNCATE ON ledger_entries
FOR EACH STATEMENT EXECUTE FUNCTION ledger_entries_stay()
"""

# The entries of a test organization are removed when it is reset.
_NEVER_REMOVED_TRIGGER = """
CREATE TRIGGER ledger_entries_stay_each BEFORE DELETE ON ledger_entries
FOR EACH ROW EXECUTE FUNCTION ledger_entries_stay()
"""

execute_on(
    "after_create",
    # The last of the guarded tables to be created: it refers to the others.
    ledger_entries,
    *(SHARD_BESIDE, _BALANCED, _BALANCED_TRIGGER, _ADDED_AT_ONCE, _ADDED_AT_ONCE_TRIGGER),
    *(_NEVER_CHANGED, _NEVER_CHANGED_TRIGGER, _NEVER_REMOVED_TRIGGER),
)
