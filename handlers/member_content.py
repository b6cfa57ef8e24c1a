"""The content that members see (integration 4.4, item 12, and 4.5, item 11)."""

from collections.abc import Mapping
from typing import Any

from domain.content.collections import ContentCollection
from domain.members import Member
from handlers.call import Call, Response
from handlers.operation import operation
from handlers.services.content.member_documents import member_content


@operation("listMemberContentDocuments")
@operation("listMemberValidDocuments")
def list_member_content_documents(
    call: Call, member: Member, collection: ContentCollection, query: Mapping[str, Any], headers: Mapping[str, str]
) -> Response:
    """The documents that the member may see: for the member's own app, and for systems that read content."""
    return member_content(call, member, collection, query, headers)
