"""Expressions as text, tree and words (administration "Expressions")."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from domain.campaigns.variables import ENVIRONMENT
from domain.expressions import BOOL, ExpressionError, Fault, check, from_tree, label, parse, to_text, to_tree
from handlers.call import Call
from handlers.operations import operation


@operation("parseExpressions")
def parse_expressions(call: Call, body: Mapping[str, Any]) -> dict[str, Any]:
    """Each text as a tree, printed again and in words, with its faults."""
    annotate = body.get("annotate", False)
    return {"nodes": [_parsed(each["expression"], each, annotate) for each in body["inputs"]]}


@operation("formatExpressions")
def format_expressions(call: Call, body: Mapping[str, Any]) -> dict[str, Any]:
    """Each tree as text and in words, with its faults."""
    annotate = body.get("annotate", False)
    return {"nodes": [_parsed(None, each, annotate) for each in body["inputs"]]}


def _parsed(text: str | None, asked: Mapping[str, Any], annotate: bool) -> dict[str, Any]:
    is_effect = asked.get("isEffectExpression", False)
    answer: dict[str, Any] = {
        "expression": text,
        "labelledExpression": None,
        "errors": [],
        "isEffectExpression": is_effect,
    }
    try:
        node = from_tree(asked["node"]) if text is None else parse(text)
        answer["expression"] = to_text(node)
        answer["labelledExpression"] = label(node, ENVIRONMENT)
        checked = check(node, ENVIRONMENT, None if is_effect else BOOL)
        answer["errors"] = [_fault(fault) for fault in checked.faults]
        answer["node"] = to_tree(node, annotate=checked if annotate else False)
    except ExpressionError as error:
        answer["errors"] = [_fault(fault) for fault in error.faults]
    return answer


def _fault(fault: Fault) -> dict[str, Any]:
    return {"message": fault.message, "code": fault.code, "start": fault.start, "end": fault.end}
