"""How many times each rule had an effect in random runs: a rule that had none is not tested."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

MINIMUM = 20


class Effects(Counter[str]):
    """The number of effects of each rule in all histories of a run."""

    @classmethod
    def of_all(cls, runs: Iterable[Effects]) -> Effects:
        """The sum of the effects of several runs."""
        effects = cls()
        for run in runs:
            effects.update(run)
        return effects

    def check(self, rules: Iterable[str], minimum: int = MINIMUM) -> None:
        """Fail if one of the rules had fewer effects than the minimum."""
        rare_effects = {rule: self[rule] for rule in rules if self[rule] < minimum}
        assert not rare_effects, (rare_effects, dict(self))
