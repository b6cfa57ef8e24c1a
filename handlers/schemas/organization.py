"""The organization on the wire (administration, "Organization")."""

from handlers.messages.base import Instant, Plain, Shape, WireSchema


class _Writable(WireSchema):
    name = Plain()
    description = Plain()
    picture_url = Plain()
    default_loyalty_program_id = Plain()
    default_locale = Plain()
    locales = Plain(load_default=list)
    timezone = Plain(load_default="UTC")
    custom_attributes = Plain(load_default=dict)


class _Record(_Writable):
    organization_id = Plain()
    organization_key = Plain()
    environment = Plain()
    subscription_level = Plain()
    subscription_expiration_date = Instant()
    payment_processor_customer_id = Plain()
    created_at = Instant()
    updated_at = Instant()


ORGANIZATION_CHANGES = Shape(_Writable)
ORGANIZATION = Shape(_Record)
