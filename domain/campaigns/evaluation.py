"""The evaluation of one event: which actions apply, what their effects do, and why the others did not.

The same code runs for all execution modes: a dry run posts to books that are then forgotten.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from typing import Any

from domain.calendar import day_of_week
from domain.campaigns.compiled import CompiledAction, CompiledCampaign, CompiledEffect, constant, is_bad
from domain.campaigns.effects import BURN_POINTS, DISCOUNT, MINT_POINTS, SPONSOR
from domain.campaigns.limits import ALL_ACCOUNTS, POINTS, CounterKey, Counters, EventLimits, LimitRule
from domain.campaigns.variables import ENVIRONMENT
from domain.expressions import EVENT_COST, Budget, EvaluationError, explain, reason
from domain.ledger.books import Books, round_down
from domain.ledger.postings import Details
from domain.ledger.records import LedgerAccount
from domain.problems import Conflict, Refusal

ZERO = Decimal(0)

EXECUTED, PARTIAL, SKIPPED, FAILED, EVALUATED = "executed", "partial", "skipped", "failed", "evaluated"


class LimitReached(Conflict):
    """A limit of the campaign leaves no room."""

    slug = "limit-reached"
    title = "A limit of the campaign is reached"


class NoSponsor(Conflict):
    """The effect is for the sponsor, and the event names none."""

    slug = "no-sponsor"
    title = "The event has no sponsor"


class NothingToDo(Conflict):
    """The amount came to zero."""

    slug = "zero-amount"
    title = "The amount is zero"


class BadParameter(Conflict):
    """A parameter of an effect could not be computed, or came to a value that the effect cannot use."""

    slug = "effect-parameter"
    title = "A parameter of the effect has no usable value"


@dataclass(frozen=True, slots=True)
class EventFacts:
    """What the evaluation knows of an event: `at` is when it happened, which windows and periods go by."""

    event_type: str
    loyalty_event_id: int
    key: str
    at: datetime
    external_event_date: datetime | None
    member_id: int
    wallet_id: int
    sponsor_member_id: int | None
    sponsor_wallet_id: int | None
    spend: Decimal | None
    location_code: str | None
    tier_keys: frozenset[str]
    audience_keys: frozenset[str]
    context: Mapping[str, Any]


Executor = Callable[[EventFacts, Mapping[str, Any]], None]
"""Carries out an effect with these parameters, wholly, or raises a Refusal and has then changed nothing."""


@dataclass(frozen=True, slots=True)
class EffectOutcome:
    """What became of one effect of an action (administration "Records": Evaluation result)."""

    action_id: int
    action_index: int
    campaign_id: int
    campaign_code: str
    action_name: str | None
    effect_id: str
    status: str
    error: Mapping[str, Any] | None
    params: tuple[tuple[str, Any], ...]


@dataclass(frozen=True, slots=True)
class Explanation:
    """Why a campaign (`action` None) or an action applied or not; `reason` and `trace` are JSON-able."""

    campaign_id: int
    campaign_key: str
    campaign_code: str
    action_id: int | None
    action_name: str | None
    applied: bool
    reason: Mapping[str, Any] | None
    trace: Mapping[str, Any] | None


@dataclass(slots=True)
class Evaluation:
    """What an event set in motion, gathered while its actions run."""

    effects: list[EffectOutcome] = field(default_factory=list)
    explanations: list[Explanation] = field(default_factory=list)
    limit_discarded: Decimal = ZERO
    counted: list[tuple[CounterKey, Decimal]] = field(default_factory=list)


class Evaluator:
    """Runs one event through the campaigns, posting to the books and counting in the counters of its batch."""

    def __init__(
        self,
        event: EventFacts,
        books: Books,
        counters: Counters,
        accounts: Mapping[str, LedgerAccount],
        functions: Mapping[str, Any],
        executors: Mapping[str, Executor],
        explaining: bool,
    ) -> None:
        self._event = event
        self._books = books
        self._counters = counters
        self._accounts = accounts
        self._functions = functions
        self._executors = executors
        self._explaining = explaining
        self._budget = Budget(EVENT_COST)
        self._found = Evaluation()
        self._limits: dict[int, EventLimits] = {}
        self._exhausted: dict[int, LimitRule | None] = {}
        self._counted: set[int] = set()
        self._aborted: set[int] = set()
        self._groups: set[str] = set()
        self._posted = 0

    def run(self, campaigns: Sequence[CompiledCampaign]) -> Evaluation:
        """Evaluate all actions of the campaigns that apply, in order of priority, campaign and index."""
        journal_start = len(self._counters.journal)
        queue: list[tuple[CompiledCampaign, CompiledAction]] = []
        for campaign in campaigns:
            obstacle = obstacle_of(campaign, self._event)
            if obstacle is not None:
                self._explain(campaign, None, False, {"code": obstacle[0], "label": obstacle[1]})
                continue
            self._explain(campaign, None, True, None)
            queue.extend((campaign, action) for action in campaign.actions)
        queue.sort(key=_order_of_evaluation)
        for campaign, action in queue:
            self._consider(campaign, action)
        self._found.counted = self._counters.journal[journal_start:]
        return self._found

    def _consider(self, campaign: CompiledCampaign, action: CompiledAction) -> None:
        record, campaign_id = action.action, campaign.campaign.campaign_id
        if campaign_id in self._aborted:
            self._explain(campaign, action, False, {"code": "ABORTED", "label": "an earlier action ended the campaign"})
            return
        if record.exclusive_group is not None and record.exclusive_group in self._groups:
            label = f"another action of the group {record.exclusive_group} has applied"
            self._explain(campaign, action, False, {"code": "EXCLUSIVE_GROUP", "label": label})
            return
        holds, error = self._rule_holds(action)
        if not holds:
            if (error and record.abort_evaluation_on_error) or (not error and record.abort_evaluation_if_false):
                self._aborted.add(campaign_id)
            self._explain_rule(campaign, action)
            return
        if record.exclusive_group is not None:
            self._groups.add(record.exclusive_group)
        failed = self._apply(campaign, action)
        if failed and record.abort_evaluation_on_error:
            self._aborted.add(campaign_id)

    def _rule_holds(self, action: CompiledAction) -> tuple[bool, bool]:
        """Whether the rule holds, and whether it could not be told."""
        if action.rule is None:
            return True, False
        try:
            return action.rule.run(self._event.context, self._budget, self._functions) is True, False
        except EvaluationError:
            return False, True

    def _apply(self, campaign: CompiledCampaign, action: CompiledAction) -> bool:
        """Run the effects of an action whose rule holds; True if one failed."""
        computed = [(effect, *self._compute(effect)) for effect in action.effects]
        over = self._exhausted_rule(campaign) or self._over_points_limit(campaign, computed)
        if over is not None:
            self._skip(campaign, action, computed, over)
            return False
        self._explain(campaign, action, True, None)
        failed = False
        for effect, params, refusal in computed:
            status, error = (FAILED, refusal) if refusal else self._execute(campaign, effect, params)
            failed = failed or status == FAILED
            if status in (EXECUTED, PARTIAL):
                self._count_transaction(campaign)
            self._report(campaign, action, effect, status, error, params)
        return failed

    def _compute(self, effect: CompiledEffect) -> tuple[dict[str, Any], Refusal | None]:
        """The values of an effect's parameters for this event."""
        values: dict[str, Any] = {}
        for param in effect.params:
            value = param.value
            if param.program is not None:
                try:
                    value = param.program.run(self._event.context, self._budget, self._functions)
                except EvaluationError as error:
                    return values, BadParameter(f"{param.parameter.id}: {error}")
                value = constant(param.parameter, value)
                if is_bad(value):
                    return values, BadParameter(f"{param.parameter.id} came to a value of the wrong kind or size.")
            values[param.parameter.id] = value
        if values.get("amount") is not None and values["amount"] < 0:
            return values, BadParameter(f"amount came to {values['amount']}, which is below zero.")
        return values, None

    def _execute(
        self, campaign: CompiledCampaign, effect: CompiledEffect, params: dict[str, Any]
    ) -> tuple[str, Refusal | None]:
        if effect.effect.effect_id == DISCOUNT:
            return EXECUTED, None
        if effect.effect.effect_id in (MINT_POINTS, BURN_POINTS):
            return self._move_points(campaign, effect, params)
        try:
            self._executors[effect.effect.effect_id](self._event, params)
        except Conflict as rule:
            return SKIPPED, rule
        except Refusal as refusal:
            return FAILED, refusal
        return EXECUTED, None

    def _move_points(
        self, campaign: CompiledCampaign, effect: CompiledEffect, params: dict[str, Any]
    ) -> tuple[str, Refusal | None]:
        wallet_id = self._event.sponsor_wallet_id if params["recipient"] == SPONSOR else self._event.wallet_id
        if wallet_id is None:
            return SKIPPED, NoSponsor("The effect is for the sponsor, and the event names none.")
        try:
            account = self._account(campaign, params)
            amount = round_down(account, params["amount"])
            if effect.effect.effect_id == MINT_POINTS:
                return self._mint(campaign, account, wallet_id, amount, params)
            if not amount:
                return SKIPPED, NothingToDo("There is nothing to burn.")
            self._books.burn(account, wallet_id, amount, self._details(params))
        except Refusal as refusal:
            return FAILED, refusal
        return EXECUTED, None

    def _mint(
        self,
        campaign: CompiledCampaign,
        account: LedgerAccount,
        wallet_id: int,
        amount: Decimal,
        params: dict[str, Any],
    ) -> tuple[str, Refusal | None]:
        limits = self._limits_of(campaign)
        room, rule = limits.room(account.ledger_account_id, self._counters)
        granted = amount if room is None or room >= amount else round_down(account, room)
        refusal = _limit_refusal(rule) if granted < amount and rule is not None else None
        self._found.limit_discarded += amount - granted
        if not granted:
            return SKIPPED, refusal or NothingToDo("There is nothing to mint.")
        self._books.mint(account, wallet_id, granted, self._details(params), params["expirationDate"])
        limits.count_mint(account.ledger_account_id, granted, self._counters)
        return (PARTIAL, refusal) if refusal else (EXECUTED, None)

    def _account(self, campaign: CompiledCampaign, params: Mapping[str, Any]) -> LedgerAccount:
        key = params["ledgerAccountKey"]
        account = campaign.main_account if key is None else self._accounts.get(key)
        account = None if account is None else self._books.accounts.get(account.ledger_account_id)
        if account is None:
            raise BadParameter("The campaign's program has no main account." if key is None else f"No account {key}.")
        return account

    def _details(self, params: Mapping[str, Any]) -> Details:
        self._posted += 1
        return Details(
            system_unique_key=f"{self._event.key}:{self._posted}",
            external_event_date=self._event.external_event_date,
            description=params["description"],
            loyalty_event_id=self._event.loyalty_event_id,
        )

    def _limits_of(self, campaign: CompiledCampaign) -> EventLimits:
        campaign_id = campaign.campaign.campaign_id
        found = self._limits.get(campaign_id)
        if found is None:
            found = EventLimits.of(campaign.limits, campaign_id, self._event.member_id, self._event.at)
            self._limits[campaign_id] = found
        return found

    def _exhausted_rule(self, campaign: CompiledCampaign) -> LimitRule | None:
        """The transactions rule that shuts the campaign for this event: as it stood before the event itself counted."""
        campaign_id = campaign.campaign.campaign_id
        if campaign_id not in self._exhausted:
            self._exhausted[campaign_id] = self._limits_of(campaign).exhausted(self._counters)
        return self._exhausted[campaign_id]

    def _over_points_limit(
        self, campaign: CompiledCampaign, computed: Sequence[tuple[CompiledEffect, dict[str, Any], Refusal | None]]
    ) -> LimitRule | None:
        """The rule that an action would break as a whole, where the campaign does not apply parts."""
        if campaign.campaign.allow_partial_application_on_limit:
            return None
        wanted = [
            (account.ledger_account_id, amount)
            for effect, params, refusal in computed
            if refusal is None
            for account, amount in self._wanted(campaign, effect, params)
        ]
        for rule, key in self._limits_of(campaign).rules:
            if rule.type == POINTS:
                total = sum((a for i, a in wanted if rule.ledger_account_id in (ALL_ACCOUNTS, i)), ZERO)
                if total and self._counters.used(key) + total > rule.limit:
                    return rule
        return None

    def _wanted(
        self, campaign: CompiledCampaign, effect: CompiledEffect, params: Mapping[str, Any]
    ) -> list[tuple[LedgerAccount, Decimal]]:
        """What an effect would mint, and where: none for other effects and for those that cannot mint at all."""
        if effect.effect.effect_id != MINT_POINTS:
            return []
        if params["recipient"] == SPONSOR and self._event.sponsor_wallet_id is None:
            return []
        try:
            account = self._account(campaign, params)
        except BadParameter:
            return []
        return [(account, round_down(account, params["amount"]))]

    def _skip(
        self,
        campaign: CompiledCampaign,
        action: CompiledAction,
        computed: Sequence[tuple[CompiledEffect, dict[str, Any], Refusal | None]],
        rule: LimitRule,
    ) -> None:
        refusal = _limit_refusal(rule)
        self._explain(campaign, action, False, {"code": "LIMIT_REACHED", "label": refusal.detail})
        for effect, params, fault in computed:
            if fault is None:
                self._found.limit_discarded += sum((a for _, a in self._wanted(campaign, effect, params)), ZERO)
            self._report(campaign, action, effect, SKIPPED, fault or refusal, params)

    def _count_transaction(self, campaign: CompiledCampaign) -> None:
        campaign_id = campaign.campaign.campaign_id
        if campaign_id not in self._counted:
            self._counted.add(campaign_id)
            self._limits_of(campaign).count_transaction(self._counters)

    def _report(
        self,
        campaign: CompiledCampaign,
        action: CompiledAction,
        effect: CompiledEffect,
        status: str,
        error: Refusal | None,
        params: Mapping[str, Any],
    ) -> None:
        self._found.effects.append(
            EffectOutcome(
                action_id=action.action.action_id,
                action_index=action.action.action_index,
                campaign_id=campaign.campaign.campaign_id,
                campaign_code=campaign.campaign.code,
                action_name=action.action.name,
                effect_id=effect.effect.effect_id,
                status=EVALUATED if self._explaining and status == EXECUTED else status,
                error=None if error is None else error.as_problem(),
                params=tuple(params.items()),
            )
        )

    def _explain_rule(self, campaign: CompiledCampaign, action: CompiledAction) -> None:
        if self._explaining and action.node is not None:
            trace = explain(action.node, ENVIRONMENT, self._event.context, self._functions)
            self._explain(campaign, action, False, reason(trace), trace)

    def _explain(
        self,
        campaign: CompiledCampaign,
        action: CompiledAction | None,
        applied: bool,
        why: Mapping[str, Any] | None,
        trace: Mapping[str, Any] | None = None,
    ) -> None:
        if self._explaining:
            self._found.explanations.append(
                Explanation(
                    campaign_id=campaign.campaign.campaign_id,
                    campaign_key=campaign.campaign.campaign_key,
                    campaign_code=campaign.campaign.code,
                    action_id=action.action.action_id if action else None,
                    action_name=action.action.name if action else None,
                    applied=applied,
                    reason=why,
                    trace=trace,
                )
            )


def _order_of_evaluation(each: tuple[CompiledCampaign, CompiledAction]) -> tuple[int, int, int, int]:
    campaign, action = each
    record = action.action
    return record.priority, campaign.campaign.campaign_id, record.action_index, record.action_id


def _limit_refusal(rule: LimitRule) -> LimitReached:
    what = "points" if rule.type == POINTS else "transactions"
    return LimitReached(f"The limit of {rule.limit} {what} of a {rule.scope} ({rule.period}) is reached.")


def obstacle_of(compiled: CompiledCampaign, event: EventFacts) -> tuple[str, str] | None:
    """Why the campaign does not apply to the event at all, as (code, label); None if it does."""
    campaign = compiled.campaign
    if not campaign.active:
        return "CAMPAIGN_INACTIVE", "the campaign is not active"
    if not compiled.considers(event.event_type):
        return "EVENT_TYPE", f"the campaign does not look at {event.event_type}"
    if campaign.valid_from is not None and event.at < campaign.valid_from:
        return "OUTSIDE_WINDOW", f"the campaign begins at {campaign.valid_from.isoformat()}"
    if campaign.valid_to is not None and event.at > campaign.valid_to:
        return "OUTSIDE_WINDOW", f"the campaign ended at {campaign.valid_to.isoformat()}"
    if campaign.days_of_week and day_of_week(event.at) not in campaign.days_of_week:
        return "DAY_OF_WEEK", f"the campaign does not run on day {day_of_week(event.at)} of the week"
    if compiled.location_codes and event.location_code not in compiled.location_codes:
        return "LOCATION", f"the campaign does not run at location {event.location_code}"
    if compiled.tier_keys and not compiled.tier_keys & event.tier_keys:
        return "TIER", "the member is in none of the campaign's tiers"
    if compiled.audience_keys and not compiled.audience_keys & event.audience_keys:
        return "AUDIENCE", "the member is in none of the campaign's audiences"
    if campaign.min_spend_value is not None and (event.spend is None or event.spend < campaign.min_spend_value):
        return "MIN_SPEND", f"the spend {event.spend} is below {campaign.min_spend_value}"
    return None
