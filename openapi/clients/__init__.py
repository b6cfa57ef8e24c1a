"""Clients for Python and TypeScript, generated from both OpenAPI documents.

`operations.py` reads the operations of an OpenAPI document, `python.py` and `typescript.py` write types and methods,
and `python_runtime.py` and `typescript_runtime.js` are copied into the packages: they send the requests.
`python -m openapi.clients FOLDER ARCHIVES` writes everything.
"""
