"""API keys of partners, with which they report payments (integration 5, items 2 and 4)."""

from domain.calendar import instant_text
from domain.partners import PartnerApiKey
from handlers.audit_trail import Audited
from handlers.call import Call
from handlers.messages.base import values_of
from handlers.messages.lists import listed
from handlers.operation import declare_list, operation
from handlers.schemas.partner_api_keys import KEY, KeyProperties
from handlers.schemas.partner_api_keys import new_key as new_key_response
from handlers.services.partners.authentication import HINT_LENGTH, hash_of, new_key
from persistence import partners
from persistence.partners import PARTNER_API_KEYS

_ENTITY = "partner-api-key"
# The result is the record and the text of the key, which the audit log must not have.
_AUDITED = Audited(_ENTITY, "partner_api_key_id", KEY, records=lambda results: results[:1])


declare_list("listPartnerApiKeys", PARTNER_API_KEYS.find_page, listed(KEY))


@operation("createPartnerApiKey", response=new_key_response, audit=_AUDITED)
def create_partner_api_key(call: Call, body: KeyProperties) -> tuple[PartnerApiKey, str]:
    """Create a key; return its record and its text, which is not stored and never returned again."""
    organization_id = call.organization.organization_id
    key = new_key(organization_id)
    values = {"key_hash": hash_of(key), "key_hint": key[-HINT_LENGTH:], **values_of(body)}
    return PARTNER_API_KEYS.add(call.db, organization_id, values, call.now), key


@operation("revokePartnerApiKey", audit=_ENTITY)
def revoke_partner_api_key(call: Call, partner_api_key: PartnerApiKey) -> None:
    """Revoke a key from now on; a key that is already revoked stays unchanged."""
    if partners.revoke(call.db, partner_api_key, call.now):
        before = KEY.dump(partner_api_key)
        after = {**before, "revokedAt": instant_text(call.now)}
        call.audit.add(_ENTITY, partner_api_key.partner_api_key_id, before=before, after=after)
