"""Use cases of content: collections' schemas and the documents in them."""
