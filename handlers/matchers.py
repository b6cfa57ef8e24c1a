"""Item matchers (administration "Matchers and effects")."""

from domain.matchers import Matcher, compile_matcher
from handlers.audit_trail import Audited
from handlers.call import Call
from handlers.messages.base import Merged, values_of, wrapped
from handlers.messages.lists import listed
from handlers.operation import declare_get, declare_list, operation
from handlers.schemas.matchers import MATCHER, MatcherProperties
from handlers.services.organizations.reset import refuse_other_organization
from persistence.matchers import MATCHERS

_AUDITED = Audited("matcher", "matcher_id", MATCHER)


declare_list("listMatchers", MATCHERS.find_page, listed(MATCHER))


@operation("createMatcher", response=wrapped("matcher", MATCHER), audit=_AUDITED, changes_configuration=True)
def create_matcher(call: Call, body: MatcherProperties) -> Matcher:
    """Create a matcher; expressions can name it by its key at once."""
    _refuse_unusable(call, body)
    values = {"matcher_key": call.new_key(), **values_of(body)}
    return MATCHERS.add(call.db, call.organization.organization_id, values, call.now)


declare_get("getMatcher", "matcher", wrapped("matcher", MATCHER))
declare_get("getMatcherByKey", "matcher", wrapped("matcher", MATCHER))


@operation(
    "updateMatcher",
    response=wrapped("matcher", MATCHER),
    audit=_AUDITED.changing("matcher"),
    changes_configuration=True,
)
def update_matcher(call: Call, matcher: Matcher, body: Merged[MatcherProperties]) -> Matcher:
    """Change a matcher; all processes use the change from their next event on."""
    _refuse_unusable(call, body)
    return MATCHERS.store(call.db, matcher, values_of(body), call.now)


def _refuse_unusable(call: Call, body: MatcherProperties) -> None:
    """Refuse another organization than the path's, and conditions that cannot be compiled."""
    refuse_other_organization(call, body.organization_id)
    compile_matcher(body.matcher)
