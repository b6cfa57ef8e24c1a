"""Errors of malformed token requests in the form of RFC 6749 (section 5.2), not as problems."""

from domain.problems import InvalidRequest

MEDIA_TYPE = "application/json"
TOKEN_OPERATION = "integration:createAccessToken"


def oauth_error(refusal: InvalidRequest) -> dict[str, str]:
    """The error object of a token request that the document does not accept."""
    faults = {fault.pointer: fault.detail for fault in refusal.faults}
    grant_fault = faults.get("/grant_type")
    if grant_fault is not None and not grant_fault.endswith(" is missing."):
        error = "unsupported_grant_type"
    elif set(faults) == {"/scope"}:
        error = "invalid_scope"
    else:
        error = "invalid_request"
    # Section 5.2 allows printable ASCII without quotation mark and backslash.
    detail = refusal.detail.replace('"', "'").replace("\\", "/")
    return {"error": error, "error_description": detail.encode("ascii", "replace").decode()}
