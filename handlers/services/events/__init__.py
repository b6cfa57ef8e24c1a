"""Use cases of events: tracking, queueing, evaluating later, cancelling."""
