"""After random acts of the members of a random program: if everything is undone, nothing is left."""

from __future__ import annotations

from datetime import datetime, timedelta
from decimal import Decimal

import pytest
from sqlalchemy import text

from tests.machines.effects import Effects
from tests.machines.offer_acts import Acts
from tests.machines.offers import Program

# Sums over the stored records, each of which has to be 0 in the end.
SUMS = {
    "balances": "sum(current_balance + pending_debit_balance + pending_credit_balance + earned) FROM ledger_balances",
    "debt": "sum(current_overdraft_balance) FROM ledger_balances",
    "lots": "sum(remaining) FROM ledger_lots",
    "issued": "sum(minted - burned) FROM ledger_account_supplies",
    "shortfalls": "sum(missing) FROM ledger_transactions",
    "pending": "count(*) FROM ledger_transactions WHERE status = 0",
    "limits": "sum(used) FROM campaign_limit_counters",
    "coupons": "sum(total_assigned + total_usages) FROM coupon_books",
    "coupons of members": "sum(amount_assigned + amount_used) FROM member_coupons",
    "values": "sum(remaining_value) FROM coupon_lots",
    "locks": "count(*) FROM coupon_locks WHERE ended_at IS NULL AND expires_at > :now",
}

# How many times everything is undone: what was undone by the first round is undone again by the second.
MIN_ROUNDS, MAX_ROUNDS = 2, 4

# The acts, and the results of effects, of which each has to occur in a run.
RULES = (
    "waiting effect",
    "release",
    "confirmed points",
    "unconfirmed points",
    "re-evaluated return",
    "expired points",
    "extend",
    "extend-expiry executed",
    "mint-points partial limit-reached",
    "mint-points skipped limit-reached",
    "mint-points partial balance-limit",
    "mint-points skipped cooldown",
    "discount executed",
    "discount partial limit-reached",
    "discount skipped limit-reached",
    "discount partial discount-exceeds-total",
    "order paid with points",
    "capture",
    "refund",
    "release payment",
    "burn: overdraft-limit",
    "give: balance-limit",
    "hold",
    "capture held",
    "partial return",
    "return",
    "cancelEvent",
    "cancelled",
    "rejected",
    "revert",
    "use coupon",
    "use lock",
    "release lock",
    "use-coupon executed",
    "revert coupon",
)


@pytest.fixture
def api(api_without_validation):
    return api_without_validation


def remains(program):
    """The sums that are not 0, by name."""
    amounts, now = {}, program.clock.get()["now"]
    with program.shop.engine.connect() as db:
        for name, columns in SUMS.items():
            condition = " AND " if "WHERE" in columns else " WHERE "
            statement = text(f"SELECT {columns}{condition}organization_id = :id")
            values = {"id": program.clock.organization.id} | ({"now": now} if ":now" in columns else {})
            amounts[name] = db.execute(statement, values).scalar()
    payments = [program.integration.get(f"/points-payments/{key}")["pointsPayment"] for key in program.payments]
    amounts["payments"] = sum(payment["status"] in ("held", "captured") for payment in payments)
    return {name: number for name, number in amounts.items() if number}


def undo_everything(program, acts):
    """Undo everything in a random order, again and again until nothing is left: reversals may depend on each other."""
    for number in range(MAX_ROUNDS):
        if number >= MIN_ROUNDS and not remains(program):
            break
        tasks = [(acts.cancel, order) for order in program.orders.values() if order.left]
        tasks += [(undo_visit, program, acts, key) for key in program.visits]
        tasks += [(refund, program, key) for key in program.payments]
        tasks += [(unlock, program, key) for _, _, key in program.locks]
        tasks += [(revert_usage, program, usage) for usage in reversed(program.usages)]
        tasks += [(take_back, program, *movement) for movement in program.movements]
        program.chance.shuffle(tasks)
        for act, *arguments in tasks:
            act(*arguments)
        revert_effects(program)
    program.shop.check_ledger()


def undo_visit(program, acts, key):
    """Cancel the event of a visit, if it is not cancelled yet."""
    program.ask("cancel visit", program.integration, f"/events/{key}/cancel", {}, "event-cancelled", "supply-exceeded")


def refund(program, key):
    """Release a payment that is held, or refund what is left of a captured one."""
    payment = program.integration.get(f"/points-payments/{key}")["pointsPayment"]
    unrefunded_points = Decimal(payment["points"]) - Decimal(payment["refundedPoints"])
    if payment["status"] == "held":
        program.ask("release payment", program.integration, f"/points-payments/{key}/release", None)
    elif payment["status"] == "captured" and unrefunded_points:
        body = {"points": unrefunded_points, "systemUniqueKey": program.name()}
        program.ask("refund", program.integration, f"/points-payments/{key}/refund", body, "supply-exceeded")


def unlock(program, key):
    """Release the lock of a coupon, if it has not ended."""
    program.ask("release lock", program.integration, f"/coupon-locks/{key}/release", None, "coupon-lock-ended")


def revert_usage(program, usage):
    """Revert a use or an assignment of a coupon, unless it is reverted already, or the assignment is used."""
    path, refusals = f"/coupon-usages/{usage}/revert", ("coupon-usage-reverted", "coupon-assignment-used")
    program.ask("revert coupon", program.administration, path, {}, *refusals)


def revert_effects(program):
    """Revert uses that the cancellation of their order did not revert, and their assignments."""
    rows = program.shop.rows("coupon_usages", "coupon_usage_id, amount_assigned, reverted_usage_id, loyalty_event_id")
    for row in rows:
        if row.reverted_usage_id is None:
            path = f"/coupon-usages/{row.coupon_usage_id}/revert"
            refusals = ("coupon-usage-reverted", "coupon-assignment-used", "coupon-usage-not-revertible")
            program.ask("revert effect", program.administration, path, {}, *refusals)


def take_back(program, account, transaction_id):
    """Revert a movement as far as its points are not spent."""
    body = {"transactionIds": [str(transaction_id)], "burnAvailableBalance": True}
    response = program.administration.post("/ledger-transactions/batch-revert", body, expect=200)
    slugs = {failure["error"]["type"].removeprefix("/problems/") for failure in response["failed"]}
    assert slugs <= {"already-reverted", "supply-exceeded"}, response


def run(api, seed, steps):
    """Do random acts in a random program and undo everything; return how many times each act and effect occurred."""
    program = Program.new(api, seed)
    acts = Acts(program)
    acts.do_random(steps)
    program.shop.check_ledger()
    assert remains(program), "nothing happened"
    undo_everything(program, acts)
    assert remains(program) == {}
    now = datetime.fromisoformat(program.clock.get()["now"])
    program.clock.advance((now + timedelta(days=700)).isoformat())
    assert remains(program) == {}
    assert {name: program.shop.balance(name) for name in program.wallets} == dict.fromkeys(program.wallets, 0)
    program.shop.check_ledger()
    for row in program.shop.rows("ledger_transactions", "is_expiry, available_on, available_at, description"):
        program.counts["expired points"] += row.is_expiry
        program.counts["confirmed points"] += row.available_on is not None and row.available_at is not None
        program.counts["unconfirmed points"] += row.description == "not-confirmed"
    return program.counts


def test_all_sums_are_0_after_everything_is_undone(api):
    # With these seeds, few programs have an effect of each rule.
    Effects.of_all(run(api, seed, steps=90) for seed in (5, 6, 13, 14)).check(RULES, minimum=2)


@pytest.mark.stress
def test_all_sums_are_0_after_long_histories_are_undone(api):
    Effects.of_all(run(api, seed, steps=200) for seed in range(100, 136)).check(RULES)


def return_in_parts(acts, order):
    """Return an order in three parts."""
    for share in (Decimal("0.34"), Decimal("0.5"), Decimal(1)):
        if order.left:
            acts.bring_back(order, share)


def return_at_once(acts, order):
    """Return a whole order."""
    acts.bring_back(order, share=Decimal(1))


def returned_program(api, seed, steps, bring_back):
    """Return all orders of a program by `bring_back`; return the number of orders, and the state after that."""
    program = Program.new(api, seed)
    acts = Acts(program)
    acts.do_random(steps, "bring_back", "undo")
    orders = [order for order in program.orders.values() if order.left]
    for order in orders:
        bring_back(acts, order)
    program.shop.check_ledger()
    members = [program.integration.get(f"/members/{name}")["loyaltyMember"] for name in program.wallets]
    balances = [
        sorted((balance["balance"], balance["pending"]) for balance in member["ledgerBalances"]) for member in members
    ]
    payments = [program.integration.get(f"/points-payments/{key}")["pointsPayment"] for key in program.payments]
    payment_states = [(payment["status"], payment["refundedPoints"], payment["refundedValue"]) for payment in payments]
    counter_rows = program.shop.rows(
        "campaign_limit_counters", "type, member_id, period_start, location, used", order="1,2,3,4,5"
    )
    coupon_counts = [len(program.integration.get(f"/members/{name}/coupons")["results"]) for name in program.wallets]
    # Without the ids of the members, which differ between the programs.
    counters = [(row.type, row.period_start, row.location, row.used) for row in counter_rows]
    return len(orders), (balances, payment_states, counters, coupon_counts, remains(program))


def check_returns(api, seed, steps):
    """Check that returns in parts lead to the state of a return at once."""
    order_count, state_at_once = returned_program(api, seed, steps, return_at_once)
    assert returned_program(api, seed, steps, return_in_parts) == (order_count, state_at_once)
    # The histories have orders to return.
    assert order_count > 5


def test_returns_of_orders_in_parts_lead_to_the_same_state_as_returns_at_once(api):
    check_returns(api, seed=1, steps=60)


@pytest.mark.stress
@pytest.mark.parametrize("seed", range(10, 30))
def test_returns_of_many_orders_in_parts_lead_to_the_same_state_as_returns_at_once(api, seed):
    check_returns(api, seed, steps=150)
