"""How often the rules of a machine have had an effect: one that has none proves nothing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

LEAST = 20


class Effects(Counter[str]):
    """The number of effects of each rule in a run, over all its histories."""

    @classmethod
    def of_all(cls, runs: Iterable[Effects]) -> Effects:
        """The effects of several runs together."""
        effects = cls()
        for run in runs:
            effects.update(run)
        return effects

    def check(self, rules: Iterable[str], least: int = LEAST) -> None:
        """Fail if one of the rules had fewer than `least` effects."""
        rare = {rule: self[rule] for rule in rules if self[rule] < least}
        assert not rare, (rare, dict(self))
