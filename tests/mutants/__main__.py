"""Mutation tests: change the domain in one place at a time, and count how often a test fails. `make mutants` runs it.

A seed chooses places of `domain/` and a change at each. A copy of the checkout is changed, never the checkout itself.
`equivalent.yaml` lists the mutants that behave as the rules do, each with the reason.
"""

from __future__ import annotations

import argparse
import ast
import os
import random
import shlex
import shutil
import subprocess
import sys
import tempfile
import warnings
from collections import Counter, defaultdict
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from cosmic_ray.commands import init
from cosmic_ray.mutating import mutate_and_test, mutate_code
from cosmic_ray.plugins import get_operator
from cosmic_ray.work_db import use_db
from cosmic_ray.work_item import MutationSpec, WorkerOutcome
from tqdm import tqdm

ROOT = Path(__file__).parents[2]
EQUIVALENT = Path(__file__).parent / "equivalent.yaml"
RULES = Path("domain")
TESTS_OF_RULES = Path("tests") / RULES
REQUIRED_PERCENT = 95
PROCESSES = 2
# Some mutants never end. The tests take half a minute.
SECONDS = 300

# Equal texts and numbers may be one object or two: that is up to the interpreter.
IDENTITY = ("Eq_Is", "Eq_IsNot", "NotEq_Is", "NotEq_IsNot")

PYTEST = [sys.executable, "-m", "pytest", "-x", "-p", "no:cacheprovider"]


@dataclass(frozen=True)
class Ruling:
    """A mutant: where it is, the changed lines before and after, and whether a test fails."""

    module: str
    line: int
    before: str
    after: str
    is_killed: bool

    def outcome(self, equivalents: list[dict[str, str]]) -> str:
        """Returns "killed", "survived", or "equivalent" if an entry matches the mutant in all of its parts."""
        if self.is_killed:
            return "killed"
        description = {"module": self.module, "before": self.before, "after": self.after}
        is_listed = any(
            description.items() >= {key: entry[key] for key in description if key in entry}.items()
            for entry in equivalents
        )
        return "equivalent" if is_listed else "survived"

    def __str__(self) -> str:
        return f"{self.module}:{self.line}\n    - {self.before}\n    + {self.after}"


def declarations(tree: ast.AST) -> Iterator[ast.expr | ast.ClassDef]:
    """The parts of a module that only type checkers look at: annotations and protocols."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef) and any(ast.unparse(base) == "Protocol" for base in node.bases):
            yield node
        for name in ("annotation", "returns"):
            if isinstance(annotation := getattr(node, name, None), ast.expr):
                yield annotation


def is_worth_a_test(mutation: MutationSpec) -> bool:
    """True if the mutant is a valid program that may behave differently."""
    code = mutation.module_path.read_text()
    for part in declarations(ast.parse(code)):
        if (part.lineno, part.col_offset) <= mutation.start_pos < (part.end_lineno, part.end_col_offset):
            return False
    try:
        with warnings.catch_warnings(action="ignore"):
            compile(mutated(mutation, code), "mutant", "exec")
    except SyntaxError:
        return False
    except AttributeError:
        # cosmic-ray cannot replace an exception that is caught by a dotted name, such as `csv.Error`.
        return False
    return True


def mutated(mutation: MutationSpec, code: str) -> str:
    operator = get_operator(mutation.operator_name)(**mutation.operator_args)
    return str(mutate_code(code, operator, mutation.occurrence))


def sample(number: int, seed: int) -> list[MutationSpec]:
    """Choose places where a change is possible, each as likely as any other, and one change at each."""
    by_place: dict[Any, list[MutationSpec]] = defaultdict(list)
    with use_db(":memory:") as session:
        init(sorted(RULES.rglob("*.py")), session, {})
        for item in session.work_items:
            for mutation in item.mutations:
                if not mutation.operator_name.endswith(IDENTITY):
                    by_place[str(mutation.module_path), mutation.start_pos].append(mutation)
    chance = random.Random(seed)
    places = sorted(by_place)
    chance.shuffle(places)
    mutations = []
    for place in places:
        mutation = chance.choice(sorted(by_place[place], key=lambda spec: (spec.operator_name, spec.occurrence)))
        if is_worth_a_test(mutation):
            mutations.append(mutation)
        if len(mutations) == number:
            break
    return mutations


def tests_of(module: Path) -> list[str]:
    """The tests of a package, or of a module outside packages: the tests that are most likely to fail."""
    package = TESTS_OF_RULES / module.relative_to(RULES).parts[0]
    return [str(package)] if package.is_dir() else sorted(map(str, TESTS_OF_RULES.glob(f"test_{module.stem}*.py")))


def judge(mutation: MutationSpec, unit_tests: list[str]) -> Ruling:
    """Change the copy that the process works in, run tests until one fails, and undo the change."""
    own_tests = tests_of(mutation.module_path)
    others = [*unit_tests, *(f"--ignore={path}" for path in own_tests)]
    runs = " && ".join(shlex.join([*PYTEST, *tests]) for tests in (own_tests, others) if tests)
    result = mutate_and_test([mutation], shlex.join(["sh", "-c", runs]), SECONDS)
    if result.worker_outcome != WorkerOutcome.NORMAL:
        raise RuntimeError(f"{mutation}: {result.output}")
    changes = [line for line in (result.diff or "").splitlines() if not line.startswith(("---", "+++"))]
    before, after = (
        " ".join(line[1:].strip() for line in changes if line.startswith(sign)).strip() for sign in ("-", "+")
    )
    return Ruling(str(mutation.module_path), mutation.start_pos[0], before, after, result.is_killed)


def work_in_a_copy(folder: Path) -> None:
    """Let this process work in its own copy of the prepared folder."""
    copy = Path(tempfile.mkdtemp(dir=folder.parent))
    shutil.copytree(folder, copy, dirs_exist_ok=True)
    os.chdir(copy)


def main() -> str | None:
    """Print the survivors and the counts; returns an error text if too many survived, else None."""
    parser = argparse.ArgumentParser(prog="make mutants", description=__doc__)
    parser.add_argument("--number", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("tests", nargs="+", help="the unit tests")
    arguments = parser.parse_args()
    equivalents = yaml.safe_load(EQUIVALENT.read_text())
    os.chdir(ROOT)
    os.nice(10)
    counts = Counter[str]()
    mutations = sample(arguments.number, arguments.seed)
    with tempfile.TemporaryDirectory() as home:
        folder = Path(home) / "prepared"
        shutil.copytree(ROOT, folder, ignore=shutil.ignore_patterns(".*", "*.egg-info"))
        # The tests have to pass without a change. This run also compiles all modules.
        result = subprocess.run([*PYTEST, *arguments.tests], cwd=folder, stdout=subprocess.PIPE, text=True)
        if result.returncode:
            return result.stdout
        with ProcessPoolExecutor(PROCESSES, initializer=work_in_a_copy, initargs=(folder,)) as pool:
            futures = [pool.submit(judge, mutation, arguments.tests) for mutation in mutations]
            for future in tqdm(as_completed(futures), total=len(futures), unit="mutant"):
                ruling = future.result()
                counts[ruling.outcome(equivalents)] += 1
                if ruling.outcome(equivalents) == "survived":
                    tqdm.write(str(ruling))
    print(", ".join(f"{count} {outcome}" for outcome, count in sorted(counts.items())))
    relevant = counts["killed"] + counts["survived"]
    if counts["killed"] * 100 < REQUIRED_PERCENT * relevant:
        return f"At least {REQUIRED_PERCENT} % have to be killed."
    return None


if __name__ == "__main__":
    sys.exit(main())
