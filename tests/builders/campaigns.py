"""Campaigns, accounts and events as plain values, for tests that run them without a database."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

from domain.campaigns.compiled import CompiledCampaign, EvaluationPlan, compile_action, compile_campaign
from domain.campaigns.context import EventFacts, Executor, host_functions
from domain.campaigns.counters import CounterKey, Counters
from domain.campaigns.evaluation import Evaluator
from domain.campaigns.execution import RunAndUndo
from domain.campaigns.limits import limit_rules_of
from domain.campaigns.outcomes import Evaluation
from domain.campaigns.records import RUNNING, Action, Campaign, StackingGroup
from domain.events import DRY_RUN, FULL
from domain.ledger.postings import Holding
from domain.ledger.records import LedgerAccount
from domain.ledger.session import LedgerSession
from domain.matchers import ItemPredicate

# A Wednesday.
NOON = datetime(2026, 3, 4, 12, 0, tzinfo=UTC)
MEMBER_ID, WALLET_ID, SPONSOR_WALLET_ID = 7, 70, 80
EVENT_TYPE = "member-generic-event"


def account(ledger_account_id: int = 1, **values: Any) -> LedgerAccount:
    """A ledger account whose key is `account-<id>`; whole points, unlimited, not tracked."""
    settings: dict[str, Any] = {
        "organization_id": 1,
        "ledger_account_id": ledger_account_id,
        "ledger_account_key": f"account-{ledger_account_id}",
        "ledger_id": 1,
        "alias": None,
        "name": "Points",
        "active": True,
        "is_currency": False,
        "decimals": 0,
        "format_string": None,
        "chain_asset_id": None,
        "chain_sync_enabled": False,
        "max_supply": None,
        "is_revolving": True,
        "point_tracking_enabled": False,
        "expires_in_months": None,
        "expiration_policies": (),
        "expiry_rounding": "none",
        "expiry_year_start_month": 1,
        "timezone": None,
        "tier_expirations": (),
        "late_activity_days": 3,
        "restored_expiry_days": 0,
        "points_expiring": None,
        "is_default_account": ledger_account_id == 1,
        "overdraft_limit": None,
        "max_balance": None,
        "offline_allowance": None,
        "default_availability": None,
        "fiat_per_point": None,
        "redemption": None,
        "external_key": None,
        "created_at": NOON,
        "updated_at": NOON,
    }
    return LedgerAccount(**{**settings, **values})


def effect(effect_id: str, **params: Any) -> dict[str, Any]:
    """An effect as an action saves it; a parameter given as `("=", text)` is an expression."""
    return {
        "effectId": effect_id,
        "params": [
            {"id": name, "expression": value[1]} if isinstance(value, tuple) else {"id": name, "value": value}
            for name, value in params.items()
        ],
    }


def mint(amount: Any, **params: Any) -> dict[str, Any]:
    """A mint-points effect; the amount `("=", text)` is an expression."""
    return effect("mint-points", amount=amount, **params)


def action(action_id: int, *effects: Mapping[str, Any], rule: str | None = None, **values: Any) -> Action:
    """A running action of priority 1 with these effects; its index is its id."""
    settings: dict[str, Any] = {
        "organization_id": 1,
        "action_id": action_id,
        "action_key": f"action-{action_id}",
        "campaign_id": 1,
        "campaign_version_id": 1,
        "action_index": action_id,
        "abort_evaluation_if_false": False,
        "abort_evaluation_on_error": False,
        "name": f"Action {action_id}",
        "rules": {} if rule is None else {"expression": rule},
        "effects": {"items": list(effects)},
        "status": RUNNING,
        "priority": 1,
        "exclusive_group": None,
        "stacking_group_key": None,
        "external_key": None,
        "created_at": NOON,
        "updated_at": NOON,
    }
    return Action(**{**settings, **values})


def group(mode: str = "best", *, scope: str = "order", name: str = "group", active: bool = True) -> StackingGroup:
    """A stacking group of the mode "best", "worst", "first" or "all"; its key is its name."""
    return StackingGroup(
        organization_id=1,
        stacking_group_id=1,
        stacking_group_key=name,
        name=name,
        mode=mode,
        scope=scope,
        active=active,
        external_key=None,
        created_at=NOON,
        updated_at=NOON,
    )


def campaign(
    *actions: Action,
    campaign_id: int = 1,
    accounts: Sequence[LedgerAccount] = (),
    default_timezone: str = "UTC",
    default_currency: str | None = None,
    groups: Sequence[StackingGroup] = (),
    **values: Any,
) -> CompiledCampaign:
    """An active campaign without restrictions, ready to run; points go to the first of `accounts`."""
    by_key = {group.stacking_group_key: group for group in groups}
    known_accounts = list(accounts) or [account()]
    settings: dict[str, Any] = {
        "organization_id": 1,
        "campaign_id": campaign_id,
        "campaign_key": f"campaign-{campaign_id}",
        "campaign_version_id": 1,
        "loyalty_program_id": None,
        "code": f"code-{campaign_id}",
        "active": True,
        "name": "Campaign",
        "description": None,
        "picture_url": None,
        "type": None,
        "tags": (),
        "enabled_topics": (),
        "audience_keys": (),
        "days_of_week": (),
        "day_of_week_schedule": None,
        "location_codes": (),
        "loyalty_tier_keys": (),
        "event_type": None,
        "points_monthly_limit_per_member": None,
        "allow_partial_application_on_limit": False,
        "max_transactions_per_member": None,
        "limit_rules": (),
        "min_spend_value": None,
        "cooldown": None,
        "currency": None,
        "exclusive": False,
        "on_return": "prorate",
        "custom_attributes": {},
        "smart_rewards": {},
        "valid_from": None,
        "valid_to": None,
        "timezone": None,
        "external_key": None,
        "created_at": NOON,
        "updated_at": NOON,
    }
    record = Campaign(**{**settings, **values})
    ids = {account.ledger_account_key: account.ledger_account_id for account in known_accounts}
    return compile_campaign(
        record,
        [compile_action(action, groups=by_key) for action in actions],
        limit_rules_of(record, ids, default_currency),
        known_accounts[0] if known_accounts else None,
        default_timezone,
    )


def facts(total: Any = None, **values: Any) -> EventFacts:
    """A generic event of a member at NOON; with `total`, about an order that has this total and no items."""
    order = None if total is None else {"total": Decimal(total), "items": []}
    context = {
        "event": {"payload": {}, "eventType": EVENT_TYPE, "tags": []},
        "order": order,
        "payment": None,
        "member": {"loyaltyMemberId": "ana"},
        "sponsor": None,
        "balances": {},
        "badges": {},
        "missions": {},
        "audiences": [],
        "tiers": [],
        "now": NOON,
    }
    settings: dict[str, Any] = {
        "event_type": EVENT_TYPE,
        "loyalty_event_id": 1,
        "key": "event",
        "transaction_prefix": "event",
        "at": NOON,
        "external_event_date": None,
        "member_id": MEMBER_ID,
        "wallet_id": WALLET_ID,
        "sponsor_member_id": None,
        "sponsor_wallet_id": None,
        "spend": None if total is None else Decimal(total),
        "location_code": None,
        "tier_keys": frozenset(),
        "audience_keys": frozenset(),
        "context": context,
    }
    return EventFacts(**{**settings, **values})


class Bench:
    """The balances and counters that the events of one batch share while campaigns evaluate them."""

    def __init__(
        self,
        *campaigns: CompiledCampaign,
        accounts: Sequence[LedgerAccount] = (),
        holdings: Mapping[tuple[int, int], Holding] | None = None,
        used_amounts: Mapping[CounterKey, Decimal] | None = None,
        matchers: Mapping[str, ItemPredicate] | None = None,
        executors: Mapping[str, Executor] | None = None,
        run_and_undo: RunAndUndo | None = None,
    ) -> None:
        known_accounts = list(accounts) or [account()]
        self.campaigns = campaigns
        self.accounts = {account.ledger_account_key: account for account in known_accounts}
        self.session = LedgerSession(
            {account.ledger_account_id: account for account in known_accounts}, holdings or {}, {}, NOON
        )
        self.counters = Counters(used_amounts or {})
        self.matchers = matchers or {}
        self.executors = executors or {}
        self.run_and_undo = run_and_undo or (lambda execute: execute())

    def run(
        self, event: EventFacts | None = None, *, explaining: bool = False, mode: str = FULL, tracing: bool = False
    ) -> Evaluation:
        """Evaluate one event, by default that of `facts()`; `explaining` makes it a dry run."""
        evaluator = Evaluator(
            event or facts(),
            self.session,
            self.counters,
            self.accounts,
            host_functions(self.matchers),
            self.executors.__getitem__,
            mode=DRY_RUN if explaining else mode,
            tracing=tracing,
            run_and_undo=self.run_and_undo,
        )
        return evaluator.run(EvaluationPlan.of(self.campaigns))

    def balance(self, wallet_id: int = WALLET_ID, ledger_account_id: int = 1) -> Decimal:
        """The current balance of a wallet, by default of the member's in the default account."""
        return self.session.holding(wallet_id, ledger_account_id).current


def statuses(evaluation: Evaluation) -> list[tuple[int, str]]:
    """(action id, status) of each effect, in order."""
    return [(effect.action.action_id, effect.status) for effect in evaluation.effects]


def campaign_action_and_reason(evaluation: Evaluation) -> list[tuple[int, int | None, str | None]]:
    """(campaign id, action id, code of the reason) of each explanation, in order.

    The action is None if the explanation is about the whole campaign, the code None if the campaign or action applied.
    """
    return [
        (
            explanation.campaign.campaign_id,
            explanation.action and explanation.action.action_id,
            explanation.reason and explanation.reason.code,
        )
        for explanation in evaluation.explanations
    ]
