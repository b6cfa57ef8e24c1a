"""The kinds of records in files, ordered so that records are created after the records that they refer to."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from handlers.call import ADMINISTRATION, INTEGRATION

# The name of the record that an organization, or a program, begins with.
DEFAULT = "default"
# The field that names a record, if it is set.
EXTERNAL_KEY = "externalKey"


@dataclass(frozen=True, slots=True)
class Kind:
    """The operations and fields by which records of one kind are listed, created, changed and named.

    `envelope` is the name of the record in responses, `results` that of the records in lists. `identity` and `key` are
    its fields with id and key, `address` the path parameter of the key, empty if paths contain the id. `parent` is the
    kind of the records to which records of this kind belong, `parent_path` the fields of the parent that are in paths.
    `own_name` returns the name of a record without an external key, None if it has none.
    """

    name: str
    own_name: Callable[[Mapping[str, Any]], str | None]
    envelope: str
    identity: str
    key: str | None
    list: str
    create: str
    update: str | None
    # True for a record, given with its organization, that is a default one; None for a kind without default records.
    is_default: Callable[[Mapping[str, Any], Mapping[str, Any]], bool] | None = None
    surface: str = ADMINISTRATION
    results: str = "results"
    address: str = ""
    parent: str | None = None
    parent_path: tuple[str, ...] = ()
    # Fields that name records of later kinds, or depend on such fields: written after these records are created.
    later_fields: frozenset[str] = frozenset()
    # True if the order in which records are created decides which of them takes effect first.
    is_ordered: bool = False
    # Values that records get after all others are created, by field, each with the value of a new record until then.
    final_values: Mapping[str, tuple[Any, Any]] = field(default_factory=dict)
    # Fields of the body that are not configuration, or that other records contain.
    excluded_fields: frozenset[str] = frozenset()
    # Additional fields of a creation or an update.
    extra_fields: Mapping[str, Any] = field(default_factory=dict)

    def name_of(self, record: Mapping[str, Any], organization: Mapping[str, Any]) -> str | None:
        """The name of a record of the organization, without that of its parent; None if it has none."""
        if self.is_default is not None and self.is_default(record, organization):
            return DEFAULT
        return record[EXTERNAL_KEY] or self.own_name(record)

    def is_name_of_default(self, name: str) -> bool:
        """True for the name that default records have, whatever their fields are."""
        return self.is_default is not None and name == DEFAULT

    def initial_fields(self, fields: Mapping[str, Any]) -> Mapping[str, Any]:
        """The fields with which a record is created; `fields` itself if the record has no final values."""
        initial_values = {
            name: initial for name, (final, initial) in self.final_values.items() if fields.get(name) == final
        }
        return {**fields, **initial_values} if initial_values else fields

    @property
    def path_parameter(self) -> str:
        """The parameter of the path that addresses a record."""
        return self.address or self.identity

    @property
    def path_parameter_field(self) -> str:
        """The field of a record with the value of its path parameter."""
        return self.key if self.address and self.key else self.identity


def _field(name: str) -> Callable[[Mapping[str, Any]], str | None]:
    return lambda record: record.get(name)


def _kind(name: str, own_name: Callable[[Mapping[str, Any]], str | None], noun: str = "", **others: Any) -> Kind:
    """A kind whose operations are named by `noun` and whose fields by `name`, except for the `others`."""
    noun = noun or name[0].upper() + name[1:]
    fields = {"envelope": name, "identity": f"{name}Id", "key": f"{name}Key"}
    operations = {"list": f"list{noun}s", "create": f"create{noun}", "update": f"update{noun}"}
    return Kind(name, own_name, **{**fields, **operations, **others})


KINDS: tuple[Kind, ...] = (
    _kind(
        "eventType",
        _field("apiCode"),
        "CustomEventType",
        identity="apiCode",
        key=None,
        # New records cannot name an inactive type.
        final_values={"active": (False, True)},
    ),
    _kind("ledger", _field("name"), update=None, is_default=lambda record, organization: bool(record["isDefault"])),
    _kind(
        "ledgerAccount",
        lambda record: record.get("alias") or record.get("name"),
        is_default=lambda record, organization: bool(record["isDefaultAccount"]),
        parent="ledger",
        parent_path=("ledgerId",),
        # Tiers belong to programs, which name accounts.
        later_fields=frozenset({"tierExpirations", "expiryRounding"}),
    ),
    _kind(
        "loyaltyProgram",
        _field("name"),
        is_default=lambda record, organization: record["loyaltyProgramId"] == organization["defaultLoyaltyProgramId"],
        results="loyaltyPrograms",
        # The default tier has `isDefault` itself; portals are not configuration of the program.
        excluded_fields=frozenset({"setAsDefault", "defaultTierId", "mainPortalId"}),
        extra_fields={"setAsDefault": False},
    ),
    _kind(
        "loyaltyTier",
        _field("name"),
        "Tier",
        envelope="tier",
        is_default=lambda record, organization: bool(record["isDefault"]),
        parent="loyaltyProgram",
        parent_path=("loyaltyProgramId",),
    ),
    _kind("matcher", _field("name")),
    _kind("stackingGroup", _field("name")),
    _kind(
        "audience",
        _field("name"),
        # The number of members and its time are not configuration.
        excluded_fields=frozenset({"memberCount", "refreshedAt"}),
    ),
    _kind("badge", _field("name"), surface=INTEGRATION, address="badgeKey"),
    # A book is not created as archived, and cannot be changed afterwards.
    _kind("couponBook", _field("name"), final_values={"publishingStatus": ("archived", "draft")}),
    _kind(
        "contentCollection",
        _field("slug"),
        "Collection",
        envelope="collection",
        identity="collectionKey",
        key="collectionKey",
        surface=INTEGRATION,
        address="collectionKeyOrSlug",
    ),
    _kind("campaign", _field("code"), is_ordered=True),
    _kind("mission", lambda record: record.get("code") or record.get("name"), is_ordered=True),
    _kind("referralProgram", _field("code")),
    # Actions may name missions, and missions may belong to campaigns, so actions come after both.
    _kind(
        "action",
        lambda record: None if record.get("actionIndex") is None else str(record["actionIndex"]),
        parent="campaign",
        parent_path=("campaignId",),
    ),
    _kind("trigger", _field("triggerKey"), key=None),
)

KIND_OF: Mapping[str, Kind] = {kind.name: kind for kind in KINDS}

# The ends of names of fields with ids, the longest first: `referrerLedgerAccountId` is the id of an account.
ID_FIELDS: tuple[tuple[str, str], ...] = tuple(
    sorted(
        ((kind.identity, kind.name) for kind in KINDS if kind.identity.endswith("Id")),
        key=lambda id_field: -len(id_field[0]),
    )
)


def kind_of_field(name: str) -> str | None:
    """The kind of the records whose ids a field contains; None for other fields."""
    if name == "tiers":
        return "loyaltyTier"
    for end, kind in ID_FIELDS:
        if name == end or name.endswith(end[0].upper() + end[1:]):
            return kind
    return None
