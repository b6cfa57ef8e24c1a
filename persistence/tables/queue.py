"""The queue of events that wait for a worker."""

from sqlalchemy import BigInteger, Column, PrimaryKeyConstraint, SmallInteger, Table

from persistence.tables.base import index, instant, metadata, refers_to

# A row of its own, and not columns of the event: it is short, and gone when the event is done.
queued_events = Table(
    "queued_events",
    metadata,
    Column("organization_id", BigInteger, nullable=False),
    Column("loyalty_event_id", BigInteger, nullable=False),
    Column("member_id", BigInteger, nullable=False),
    # The event's position in its member's line: at first its own id, a greater one after it was queued again.
    Column("place", BigInteger, nullable=False),
    Column("attempts", SmallInteger, nullable=False),
    instant("next_attempt_at", nullable=False),
    instant("queued_at", nullable=False),
    # The time of the last failure; null before it, and after requeueing.
    instant("dead_at"),
    PrimaryKeyConstraint("organization_id", "loyalty_event_id"),
    # The only index of what waits: by the statistics of an empty queue, the planner would take any other for as good.
    index("ix_queued_events_line", "member_id", "place", where="dead_at IS NULL"),
    index("ix_queued_events_dead", "loyalty_event_id", where="dead_at IS NOT NULL"),
    refers_to("events", "loyalty_event_id"),
)
