"""What the badge balances of members allow, refuse and store; random changes are compared with a plain model."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import count

import pytest

from domain.badges import (
    Badge,
    BadgeBalances,
    BadgeGrant,
    BadgeInactive,
    BadgeLimit,
    BadgeTrackingNotRevertible,
    BadgeTrackingReverted,
    InsufficientBadges,
)
from domain.members import MemberInactive
from domain.problems import KeyReused
from tests.machines.effects import Effects

NOW = datetime(2026, 2, 1, tzinfo=UTC)
ANA, BEN = 7, 8


def badge(max_amount=3, active=True, badge_id=1):
    """A badge that a member holds 3 times at most, by default."""
    return Badge(
        organization_id=1,
        badge_id=badge_id,
        badge_key=f"key-{badge_id}",
        name="Early bird",
        description=None,
        picture_url=None,
        max_amount=max_amount,
        active=active,
        tags=(),
        custom_attributes={},
        external_key=None,
        created_at=NOW,
        updated_at=NOW,
    )


def namer():
    """A function that returns the ids 1, 2 and so on, each with its key."""
    numbers = count(1)

    def name():
        number = next(numbers)
        return number, f"tracking-{number}"

    return name


def balances(**balances):
    """The balances of badge 1 of the members `ana` and `ben`, by default 0."""
    return BadgeBalances({(ANA, 1): balances.get("ana", 0), (BEN, 1): balances.get("ben", 0)}, NOW, namer())


def grant(amount=1, of=None, member_id=ANA, key=None, digest=b"", event_id=None):
    """A request to assign or to unassign a badge, by default badge 1; with the external id "receipt-1"."""
    return BadgeGrant(
        member_id=member_id,
        badge=of or badge(),
        amount=amount,
        system_unique_key=key,
        request_digest=digest,
        custom_attributes={"till": 4},
        external_id="receipt-1",
        loyalty_event_id=event_id,
    )


def test_the_tracking_of_an_assignment_contains_what_the_request_sent():
    badges = balances(ana=1)
    tracking = badges.assign(grant(2, key="till-1", digest=b"d", event_id=5))
    assert (tracking.amount_assigned, tracking.updated_total_assigned) == (2, 1 + 2)
    assert (tracking.member_id, tracking.badge_id, tracking.badge_key) == (ANA, 1, "key-1")
    assert (tracking.system_unique_key, tracking.external_id, tracking.custom_attributes) == (
        "till-1",
        "receipt-1",
        {"till": 4},
    )
    assert (tracking.loyalty_event_id, tracking.created_at) == (5, NOW)
    assert badges.balance(ANA, badge_id=1) == 1 + 2
    assert badges.balance(BEN, badge_id=1) == 0
    assert badges.balance(ANA, badge_id=2) == 0


def test_a_tracking_without_a_key_gets_a_generated_one():
    tracking = balances().assign(grant())
    assert tracking.system_unique_key == tracking.badge_tracking_key == "tracking-1"


def test_a_change_above_the_maximum_or_below_0_is_refused_and_changes_nothing():
    """The maximum is 3."""
    badges = balances(ana=2)
    with pytest.raises(BadgeLimit):
        badges.assign(grant(2))
    with pytest.raises(InsufficientBadges):
        badges.unassign(grant(3))
    assert badges.balance(ANA, 1) == 2
    assert not badges.take_changes()
    # Exactly 0 and exactly 3 are allowed.
    assert badges.unassign(grant(2)).amount_assigned == -2
    assert badges.assign(grant(3)).updated_total_assigned == 3


def test_an_inactive_badge_can_only_be_reverted():
    badges = balances(ana=1)
    with pytest.raises(BadgeInactive):
        badges.assign(grant(of=badge(active=False)))
    with pytest.raises(BadgeInactive):
        badges.unassign(grant(of=badge(active=False)))
    tracking = badges.assign(grant())
    assert badges.revert(tracking.badge_tracking_id, badge(active=False)).updated_total_assigned == 1


def test_badges_of_an_inactive_member_can_only_be_reverted():
    assignment = balances().assign(grant(2))
    badges = BadgeBalances({(ANA, 1): 2}, NOW, namer(), inactive_member_ids=[ANA])
    badges.put_trackings([assignment])
    with pytest.raises(MemberInactive, match=r"The member is not active\."):
        badges.assign(grant())
    with pytest.raises(MemberInactive, match=r"The member is not active\."):
        badges.unassign(grant())
    assert badges.assign(grant(member_id=BEN)).updated_total_assigned == 1
    assert badges.revert(assignment.badge_tracking_id, badge()).updated_total_assigned == 0


def test_a_refusal_names_the_number_of_the_badge_that_the_member_holds():
    badges = balances(ana=2)
    with pytest.raises(BadgeLimit, match="The member holds 2 of at most 3 of the badge Early bird"):
        badges.assign(grant(2))
    with pytest.raises(InsufficientBadges, match="The member holds 2 of the badge Early bird; 3 cannot be taken away"):
        badges.unassign(grant(3))


def test_a_tracking_that_is_registered_again_keeps_its_changes():
    badges = balances()
    assignment = badges.assign(grant())
    badges.revert(assignment.badge_tracking_id, badge())
    badges.put_trackings([assignment])
    with pytest.raises(BadgeTrackingReverted):
        badges.revert(assignment.badge_tracking_id, badge())


def test_a_shortfall_is_not_taken_from_another_badge_or_member():
    badges = balances()
    other_badge = badge(badge_id=2)
    badges.assign(grant(of=other_badge))
    unassignment_of_other_badge = badges.unassign(grant(of=other_badge))
    badges.assign(grant(member_id=BEN))
    unassignment_of_ben = badges.unassign(grant(member_id=BEN))
    # One badge of Ana is missing.
    assignment = badges.assign(grant(event_id=5))
    badges.unassign(grant())
    assert badges.reverse(assignment.badge_tracking_id, badge(), loyalty_event_id=6).missing == 1
    assert badges.revert(unassignment_of_other_badge.badge_tracking_id, other_badge).amount_assigned == 1
    assert badges.revert(unassignment_of_ben.badge_tracking_id, badge()).amount_assigned == 1


def missing_badges_of_reversal(trackings):
    """The missing badges of the reversal of an event, the first tracking that reverts another one."""
    return next(tracking.missing for tracking in trackings if tracking.reverted_badge_tracking_id)


def test_a_revert_repays_a_shortfall_only_by_its_own_amount():
    """Three badges of an event are missing; an unassignment of one is reverted first, then an unassignment of two."""
    badges = balances()
    assignment = badges.assign(grant(3, event_id=5))
    unassignment_of_one, unassignment_of_two = badges.unassign(grant(1)), badges.unassign(grant(2))
    reversal = badges.reverse(assignment.badge_tracking_id, badge(), loyalty_event_id=6)
    assert reversal.missing == 3
    assert badges.revert(unassignment_of_one.badge_tracking_id, badge()).amount_assigned == 0
    assert missing_badges_of_reversal(badges.take_changes().trackings) == 3 - 1
    assert badges.revert(unassignment_of_two.badge_tracking_id, badge()).amount_assigned == 0
    assert missing_badges_of_reversal(badges.take_changes().changed_trackings) == 3 - 1 - 2
    assert badges.balance(ANA, 1) == 0


def test_a_revert_that_only_repays_a_shortfall_is_not_refused_above_a_lowered_maximum():
    """The badge that the revert would return is missing since the event was reversed."""
    badges = balances()
    assignment = badges.assign(grant(event_id=5))
    unassignment = badges.unassign(grant())
    badges.reverse(assignment.badge_tracking_id, badge(), loyalty_event_id=6)
    badges.assign(grant(3))
    assert badges.revert(unassignment.badge_tracking_id, badge(max_amount=1)).amount_assigned == 0
    assert badges.balance(ANA, 1) == 3


def test_a_reverted_assignment_does_not_repay_an_earlier_shortfall():
    badges = balances()
    first_assignment, assignment_of_event = badges.assign(grant()), badges.assign(grant(event_id=5))
    badges.unassign(grant(2))
    assert badges.reverse(assignment_of_event.badge_tracking_id, badge(), loyalty_event_id=6).missing == 1
    badges.assign(grant(2))
    assert badges.revert(first_assignment.badge_tracking_id, badge()).amount_assigned == -1
    assert badges.balance(ANA, 1) == 1


def test_the_number_of_badges_that_a_member_can_still_hold_is_never_negative():
    badges = balances(ana=3)
    assert badges.remaining(ANA, badge(max_amount=5)) == 5 - 3
    assert badges.remaining(ANA, badge(max_amount=3)) == 0
    assert badges.remaining(ANA, badge(max_amount=1)) == 0


def test_a_member_above_a_lowered_maximum_keeps_badges_and_gets_no_more():
    badges, lowered_badge = balances(ana=3), badge(max_amount=1)
    with pytest.raises(BadgeLimit):
        badges.assign(grant(of=lowered_badge))
    assert badges.unassign(grant(of=lowered_badge)).updated_total_assigned == 2
    with pytest.raises(BadgeLimit):
        badges.assign(grant(of=lowered_badge))
    badges.unassign(grant(2, of=lowered_badge))
    assert badges.assign(grant(of=lowered_badge)).updated_total_assigned == 1


def test_a_revert_and_its_tracking_name_each_other():
    badges = balances()
    assignment = badges.assign(grant(2))
    revert = badges.revert(assignment.badge_tracking_id, badge())
    assert (revert.amount_assigned, revert.updated_total_assigned) == (-2, 0)
    assert (revert.reverted_badge_tracking_id, revert.system_unique_key) == (assignment.badge_tracking_id, "tracking-2")
    reverted_assignment, new_revert = badges.take_changes().trackings
    assert reverted_assignment.reversal_badge_tracking_id == revert.badge_tracking_id
    assert new_revert == revert


def test_a_tracking_is_reverted_once_and_a_revert_never():
    badges = balances()
    assignment = badges.assign(grant())
    revert = badges.revert(assignment.badge_tracking_id, badge())
    with pytest.raises(BadgeTrackingReverted):
        badges.revert(assignment.badge_tracking_id, badge())
    with pytest.raises(BadgeTrackingNotRevertible):
        badges.revert(revert.badge_tracking_id, badge())


def test_a_revert_that_would_lead_above_the_maximum_or_below_0_is_refused():
    badges = balances()
    assignment = badges.assign(grant(2))
    unassignment = badges.unassign(grant(1))
    # The member holds 1, and the revert takes 2.
    with pytest.raises(InsufficientBadges):
        badges.revert(assignment.badge_tracking_id, badge())
    badges.assign(grant(2))
    # The member holds 3, the maximum, and the revert returns 1.
    with pytest.raises(BadgeLimit):
        badges.revert(unassignment.badge_tracking_id, badge())


def test_a_repeated_key_returns_its_tracking_and_refuses_another_request():
    badges = balances()
    tracking = badges.assign(grant(key="a", digest=b"1"))
    badges.take_changes()
    assert badges.assign(grant(key="a", digest=b"1")) == tracking
    with pytest.raises(KeyReused):
        badges.assign(grant(key="a", digest=b"2"))
    assert badges.balance(ANA, 1) == 1
    assert not badges.take_changes()


def test_a_stored_tracking_is_returned_for_its_key():
    stored_tracking = balances().assign(grant(key="a", digest=b"1"))
    later_balances = balances(ana=1)
    later_balances.put_trackings([stored_tracking])
    assert later_balances.assign(grant(key="a", digest=b"1")) == stored_tracking
    assert later_balances.balance(ANA, 1) == 1


def test_new_trackings_and_changes_are_returned_only_once():
    badges = balances(ben=2)
    assignment = badges.assign(grant())
    unassignment = badges.unassign(grant(member_id=BEN))
    assert badges.take_new_trackings() == [assignment, unassignment]
    changes = badges.take_changes()
    assert changes.balances == {(ANA, 1): 1, (BEN, 1): 2 - 1}
    assert changes.trackings == (assignment, unassignment)
    revert = badges.revert(assignment.badge_tracking_id, badge())
    assert badges.take_new_trackings() == [revert]
    changes = badges.take_changes()
    assert (changes.balances, changes.trackings) == ({(ANA, 1): 0}, (revert,))
    [changed_tracking] = changes.changed_trackings
    assert (changed_tracking.badge_tracking_id, changed_tracking.reversal_badge_tracking_id) == (
        assignment.badge_tracking_id,
        revert.badge_tracking_id,
    )
    assert badges.take_new_trackings() == []
    assert not badges.take_changes()


def test_a_reversal_is_cut_at_0_and_at_the_maximum():
    badges = balances()
    assignment = badges.assign(grant(3, event_id=5))
    badges.unassign(grant(2))
    reversal = badges.reverse(assignment.badge_tracking_id, badge(), loyalty_event_id=6)
    # Only one of the three badges can be taken.
    assert (reversal.amount_assigned, reversal.updated_total_assigned, reversal.loyalty_event_id) == (-1, 0, 6)
    badges.assign(grant(2))
    unassignment = badges.unassign(grant(2, event_id=7))
    badges.assign(grant(2))
    # Only one of the two badges can be returned: the maximum is 3.
    assert badges.reverse(unassignment.badge_tracking_id, badge(), loyalty_event_id=8).amount_assigned == 1
    assert badges.balance(ANA, 1) == 3
    assert badges.unreverted_trackings(5) == badges.unreverted_trackings(7) == []


def test_a_shortfall_is_repaid_when_an_earlier_unassignment_is_reverted():
    badges = balances()
    assignment = badges.assign(grant(1, event_id=5))
    unassignment = badges.unassign(grant(1))
    assert badges.reverse(assignment.badge_tracking_id, badge(), loyalty_event_id=6).missing == 1
    badges.take_new_trackings()
    assert badges.revert(unassignment.badge_tracking_id, badge()).amount_assigned == 0
    assert badges.balance(ANA, 1) == 0
    assert badges.take_new_trackings() == []


def test_a_shortfall_is_not_repaid_by_later_badges():
    badges = balances()
    assignment = badges.assign(grant(1, event_id=5))
    badges.unassign(grant(1))
    badges.reverse(assignment.badge_tracking_id, badge(), loyalty_event_id=6)
    badges.assign(grant(1))
    later_unassignment = badges.unassign(grant(1))
    assert badges.revert(later_unassignment.badge_tracking_id, badge()).amount_assigned == 1
    assert badges.balance(ANA, 1) == 1


def test_badges_that_a_reversal_could_not_return_are_given_when_an_assignment_is_reverted():
    """The maximum is 3."""
    badges = balances(ana=3)
    unassignment = badges.unassign(grant(2, event_id=5))
    assignment = badges.assign(grant(2))
    assert badges.reverse(unassignment.badge_tracking_id, badge(), loyalty_event_id=6).missing == -2
    assert badges.revert(assignment.badge_tracking_id, badge()).amount_assigned == 0
    assert badges.balance(ANA, 1) == 3


def test_a_reversal_returns_no_badge_above_a_lowered_maximum():
    badges = balances(ana=3)
    unassignment = badges.unassign(grant(1, event_id=7))
    assert badges.reverse(unassignment.badge_tracking_id, badge(max_amount=1), loyalty_event_id=8).amount_assigned == 0


def test_unreverted_trackings_of_an_event_are_sorted_newest_first_and_their_reversals_are_not_reported():
    badges = balances()
    oldest_tracking, reverted_tracking, newest_tracking = (badges.assign(grant(event_id=5)) for _ in range(3))
    badges.assign(grant(member_id=BEN, event_id=6))
    badges.revert(reverted_tracking.badge_tracking_id, badge())
    assert badges.unreverted_trackings(5) == [newest_tracking, oldest_tracking]
    badges.take_new_trackings()
    for tracking in badges.unreverted_trackings(5):
        badges.reverse(tracking.badge_tracking_id, badge(), loyalty_event_id=9)
    assert badges.take_new_trackings() == []
    assert badges.balance(ANA, 1) == 0


EFFECTS = (
    *("assigned", "unassigned", "repeated", "key reused", "badge inactive", "too few", "above the maximum"),
    *("reverted", "reverted in part", "not revertible", "reverted before", "reversed", "cut at 0"),
    *("cut at the maximum", "repaid"),
)


@dataclass
class Change:
    """An accepted change of the badges of a member; `missing` is what its reversal could not take or give."""

    member: int
    badge_id: int
    amount: int
    tracking_id: int
    missing: int = 0
    is_reverted: bool = False
    is_reversal: bool = False

    @property
    def is_revertible(self):
        return not self.is_reverted and not self.is_reversal


class ModelledBalances:
    """Balances that are sometimes stored and reloaded, compared with sums over a list of the accepted changes."""

    def __init__(self, seed):
        self.chance = random.Random(seed)
        self.effects = Effects()
        self.badges = {n: badge(self.chance.randint(2, 6), badge_id=n) for n in (1, 2)}
        self.name = namer()
        self.balances = BadgeBalances({}, NOW, self.name)
        self.accepted: list[Change] = []
        self.by_key = {}
        self.stored = {}

    def balance(self, member, badge_id):
        """The sum of the accepted changes."""
        return sum(change.amount for change in self.accepted if (change.member, change.badge_id) == (member, badge_id))

    def step(self):
        """Make one change at random."""
        acts = {self.grant: 40, self.repeat: 4, self.revert: 15, self.reverse: 15, self.change_badge: 6}
        acts[self.store_and_load] = 5
        self.chance.choices(list(acts), list(acts.values()))[0]()
        for member in (ANA, BEN):
            for badge_id in (1, 2):
                assert self.balances.balance(member, badge_id) == self.balance(member, badge_id) >= 0

    def grant(self):
        """Assign a badge, or unassign it, with a new key or one that may have been used."""
        key = self.chance.choice([None] * 9 + ["a", "b", "c"])
        change = self.chance.choice([-1, 1, 1]) * self.chance.randint(1, 3)
        self.execute((self.chance.choice([ANA, BEN]), self.chance.choice([1, 2]), change), key)

    def repeat(self):
        """Send a request again."""
        if self.by_key:
            key = self.chance.choice(sorted(self.by_key))
            self.execute(self.by_key[key][0], key)

    def execute(self, request, key):
        """Send a request, and check that it is accepted, repeated or refused as the model expects."""
        member, badge_id, change = request
        takes, amount = change < 0, abs(change)
        execute = self.balances.unassign if takes else self.balances.assign
        grant = BadgeGrant(member, self.badges[badge_id], amount, key, repr(request).encode())
        request_of_key, tracking_id = self.by_key.get(key, (None, None))
        if request_of_key is not None and request_of_key != request:
            self.expect(KeyReused, "key reused", execute, grant)
        elif request_of_key is not None:
            assert execute(grant).badge_tracking_id == tracking_id
            self.effects["repeated"] += 1
        elif not self.badges[badge_id].active:
            self.expect(BadgeInactive, "badge inactive", execute, grant)
        elif takes and self.balance(member, badge_id) < amount:
            self.expect(InsufficientBadges, "too few", execute, grant)
        elif not takes and self.balance(member, badge_id) + amount > self.badges[badge_id].max_amount:
            self.expect(BadgeLimit, "above the maximum", execute, grant)
        else:
            tracking = execute(grant)
            self.accepted.append(Change(member, badge_id, change, tracking.badge_tracking_id))
            assert tracking.updated_total_assigned == self.balance(member, badge_id)
            self.effects["unassigned" if takes else "assigned"] += 1
            if key is not None:
                self.by_key[key] = request, tracking.badge_tracking_id

    def expect(self, refusal, effect, execute, *arguments):
        """Check that a call is refused."""
        with pytest.raises(refusal):
            execute(*arguments)
        self.effects[effect] += 1

    def revert(self):
        """Revert a change: one that repays a missing amount, one that is not reverted yet, or any."""
        preference = self.chance.choice(["repaying", "unreverted", "any"])
        choice = [change for change in self.accepted if preference == "any" or change.is_revertible]
        if preference == "repaying":
            choice = [change for change in choice if self.repayments_by(change)] or choice
        if not choice:
            return
        change = self.chance.choice(choice)
        of, repayments = self.badges[change.badge_id], self.repayments_by(change)
        balance = self.balance(change.member, change.badge_id)
        # Negative if the revert gives badges to the member.
        taken_amount = change.amount + sum(repayments.values())
        if change.is_reversal:
            refusal, effect = BadgeTrackingNotRevertible, "not revertible"
        elif change.is_reverted:
            refusal, effect = BadgeTrackingReverted, "reverted before"
        elif taken_amount < 0 and balance - taken_amount > of.max_amount:
            refusal, effect = BadgeLimit, "above the maximum"
        elif taken_amount > balance:
            refusal, effect = InsufficientBadges, "too few"
        else:
            reversal = self.balances.revert(change.tracking_id, of)
            self.accept_reversal(change, reversal, amount=-taken_amount, repayments=repayments)
            self.effects["reverted in part" if repayments else "reverted"] += 1
            return
        self.expect(refusal, effect, self.balances.revert, change.tracking_id, of)

    def repayments_by(self, change):
        """The missing amounts of later changes that the reversal of a change repays, by their positions in the list."""
        amount, repayments = -change.amount, {}
        for position in range(self.accepted.index(change) + 1, len(self.accepted)):
            later_change = self.accepted[position]
            is_of_same_balance = (later_change.member, later_change.badge_id) == (change.member, change.badge_id)
            if is_of_same_balance and later_change.missing * amount > 0:
                smaller = max if amount < 0 else min
                repayments[position] = smaller(later_change.missing, amount)
                amount -= repayments[position]
        return repayments

    def accept_reversal(self, change, reversal, *, amount, repayments, missing_amount=0):
        """Check the amounts of a reversal and add it to the model."""
        assert (reversal.amount_assigned, reversal.missing) == (amount, missing_amount)
        for position, repayment in repayments.items():
            self.accepted[position].missing -= repayment
            self.effects["repaid"] += 1
        change.is_reverted = True
        self.accepted.append(
            Change(change.member, change.badge_id, amount, reversal.badge_tracking_id, missing_amount, is_reversal=True)
        )

    def reverse(self):
        """Reverse a change, as the cancellation of its event does."""
        if revertible_changes := [change for change in self.accepted if change.is_revertible]:
            change = self.chance.choice(revertible_changes)
            of, repayments = self.badges[change.badge_id], self.repayments_by(change)
            balance = self.balance(change.member, change.badge_id)
            target = -change.amount - sum(repayments.values())
            amount = -min(balance, -target) if target < 0 else min(target, max(of.max_amount - balance, 0))
            reversal = self.balances.reverse(change.tracking_id, of, loyalty_event_id=9)
            self.accept_reversal(change, reversal, amount=amount, repayments=repayments, missing_amount=amount - target)
            self.effects["reversed"] += 1
            if amount != target:
                self.effects["cut at 0" if target < 0 else "cut at the maximum"] += 1

    def change_badge(self):
        """Change the maximum of a badge, or whether it is active."""
        # The balances keep the settings of badges until they are loaded again.
        self.store_and_load()
        badge_id = self.chance.choice([1, 2])
        self.badges[badge_id] = badge(self.chance.randint(1, 6), self.chance.random() < 0.8, badge_id)

    def store_and_load(self):
        """Check the changes since the last time, store them, and load the balances again."""
        changes = self.balances.take_changes()
        self.stored |= {tracking.badge_tracking_id: tracking for tracking in changes.trackings}
        for tracking in changes.changed_trackings:
            before = self.stored[tracking.badge_tracking_id]
            assert tracking == replace(
                before, reversal_badge_tracking_id=tracking.reversal_badge_tracking_id, missing=tracking.missing
            )
            assert before.reversal_badge_tracking_id in (None, tracking.reversal_badge_tracking_id)
            self.stored[tracking.badge_tracking_id] = tracking
        balances = {
            (member, badge): balance
            for member in (ANA, BEN)
            for badge in (1, 2)
            if (balance := self.balance(member, badge))
        }
        assert all(balances.get(place, 0) == balance for place, balance in changes.balances.items())
        self.balances = BadgeBalances(balances, NOW, self.name)
        self.balances.put_trackings(self.stored.values())

    def reverse_everything(self):
        """Reverse all changes in a random order: no balance and no missing amount remains."""
        self.store_and_load()
        while any(change.is_revertible for change in self.accepted):
            self.reverse()
        for member in (ANA, BEN):
            for badge_id in (1, 2):
                assert self.balances.balance(member, badge_id) == 0
        assert [change for change in self.accepted if change.missing] == []


def test_balances_are_those_of_the_model_after_each_change():
    histories = [ModelledBalances(seed) for seed in range(200)]
    for history in histories:
        for _ in range(100):
            history.step()
        history.reverse_everything()
    # Each of the EFFECTS has occurred at least 20 times.
    Effects.of_all(history.effects for history in histories).check(EFFECTS)
