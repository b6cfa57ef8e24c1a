"""The queue of events that wait for a worker."""

from sqlalchemy import BigInteger, Column, Index, PrimaryKeyConstraint, SmallInteger, Table, text

from persistence.tables.base import instant, metadata, refers_to

# A row of its own, and not columns of the event: it is short, and gone when the event is done.
queued_events = Table(
    "queued_events",
    metadata,
    Column("organization_id", BigInteger, nullable=False),
    Column("loyalty_event_id", BigInteger, nullable=False),
    Column("member_id", BigInteger, nullable=False),
    # Where the event stands in its member's line: an id of an event, its own until it goes to the end of the line.
    Column("place", BigInteger, nullable=False),
    Column("attempts", SmallInteger, nullable=False),
    instant("next_attempt_at", nullable=False),
    instant("queued_at", nullable=False),
    # When the last attempt had failed; until then, and after requeueing, null.
    instant("dead_at"),
    PrimaryKeyConstraint("organization_id", "loyalty_event_id"),
    # The only index of what waits: by the statistics of an empty queue, the planner would take any other for as good.
    Index("ix_queued_events_line", "organization_id", "member_id", "place", postgresql_where=text("dead_at IS NULL")),
    Index(
        "ix_queued_events_dead",
        "organization_id",
        "loyalty_event_id",
        postgresql_where=text("dead_at IS NOT NULL"),
    ),
    refers_to("events", "loyalty_event_id"),
)
