"""Messages to the receivers of triggers: queued in the outbox, sent later."""
