"""Programs with members and a history, for a look at everything: each fills an empty test organization."""
