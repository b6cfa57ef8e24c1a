"""The fields of a member's profile, from which responses, imports, exports and expressions are derived."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class ProfileField:
    """A field of the profile, of the type `form` in JSON.

    `label` names the field in the description of an expression; expressions cannot see a field without one. An object
    with `parts` is updated field by field: `parts` maps its fields to columns of imports. Any other field has one
    column: `column`, by default with the name of the field.
    """

    label: str | None = None
    form: type[Any] = str
    parts: Mapping[str, str] = field(default_factory=dict)
    column: str | None = None


PROFILE: Mapping[str, ProfileField] = {
    "name": ProfileField("first name"),
    "lastName": ProfileField("last name"),
    "nickname": ProfileField("nickname"),
    "email": ProfileField("email"),
    "emails": ProfileField(form=list),
    "phoneNumber": ProfileField("phone number"),
    "birthdate": ProfileField("birthdate"),
    "gender": ProfileField("gender"),
    "country": ProfileField("country"),
    "state": ProfileField("state"),
    "city": ProfileField("city"),
    "pictureUrl": ProfileField(),
    "govId": ProfileField(form=dict, parts={"id": "govId", "type": "govIdType", "issuingCountry": "govIdCountry"}),
    "address": ProfileField(form=dict, parts={name: name for name in ("addressLine", "floor", "apartment", "zipCode")}),
    "locations": ProfileField(form=list),
    "tags": ProfileField("tags", list),
    "customAttributes": ProfileField("attribute", dict, column="profileAttributes"),
}

# The channels by which a member wants to be notified, and their columns in imports.
NOTIFICATIONS: Mapping[str, str] = {"email": "notifyByEmail", "phone": "notifyByPhone", "push": "notifyByPush"}


_VISIBLE = [(name, profile_field.form) for name, profile_field in PROFILE.items() if profile_field.label is not None]


def empty_profile() -> dict[str, Any]:
    """The profile of a member of whom nothing is known, as responses contain it; objects with parts are absent."""
    forms = {name: profile_field.form for name, profile_field in PROFILE.items() if not profile_field.parts}
    return {name: None if form is str else form() for name, form in forms.items()}


def visible_profile(profile: Mapping[str, Any]) -> dict[str, Any]:
    """The profile as expressions see it: what is unknown is null, or an empty list or object."""
    values = {name: profile.get(name) for name, _ in _VISIBLE}
    return {name: values[name] if form is str else form(values[name] or ()) for name, form in _VISIBLE}
