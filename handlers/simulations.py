"""Simulations of what may happen to a member, which change nothing."""

from domain.problems import FieldFault, Forbidden, InvalidRequest
from handlers.call import Call
from handlers.messages.base import wrapped
from handlers.operation import operation
from handlers.schemas.simulations import SIMULATION, simulation_request
from handlers.services import references
from handlers.services.simulations.results import Simulation
from handlers.services.simulations.simulate import EXPLAIN, SimulationRequest
from handlers.services.simulations.simulate import simulate as run


# Every body contains the empty mark, so that all simulations run in the threads of dry runs.
@operation("simulate", body=simulation_request, response=wrapped("simulation", SIMULATION), dry_run_mark=b"")
def simulate(call: Call, body: SimulationRequest) -> Simulation:
    """Simulate an order, a payment or another event."""
    # Set only if the caller is a member, who may not see the rules of campaigns.
    own_id = None if call.caller is None else call.caller.loyalty_member_id
    if own_id is not None:
        _refuse_to_member(own_id, body)
    if body.scenario.campaign_keys is not None:
        references.refuse_unknown_campaigns(call, body.scenario.campaign_keys)
    return run(call, body, with_errors=own_id is None)


def _refuse_to_member(own_id: str, body: SimulationRequest) -> None:
    """Refuse requests that a member's own token may not send: about anybody else, or with explanations."""
    if body.scenario.event.loyalty_member_id != own_id:
        raise Forbidden(
            "With a member's own token, simulations can only be about that member: send its loyaltyMemberId."
        )
    if EXPLAIN in body.include:
        raise InvalidRequest(
            [FieldFault("include has explain; a member's own token sees no explanations", pointer="/include")]
        )
