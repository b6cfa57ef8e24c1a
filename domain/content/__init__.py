"""Content: collections of documents that members are shown (integration 2.5 and 4.4)."""
