"""Use cases of content: schemas of collections and the documents in them."""
