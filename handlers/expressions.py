"""Expressions as text, tree and words (administration "Expressions")."""

from typing import Any

from domain.campaigns.variables import ENVIRONMENT
from domain.campaigns.warnings import warnings_of
from domain.expressions import BOOL, MAX_TEXTS, ExpressionError, Fault, check, from_tree, label, parse, to_text, to_tree
from domain.problems import FieldFault, InvalidRequest
from handlers.call import Call
from handlers.operation import operation
from handlers.schemas.expressions import WARNING, TextInput, Texts, TreeInput, Trees


@operation("parseExpressions")
def parse_expressions(call: Call, body: Texts) -> dict[str, Any]:
    """Parse each text; the response has its tree, its printed form, its form in words, its faults and warnings."""
    _refuse_too_long(sum(len(item.expression) for item in body.inputs))
    return {"nodes": [_parse_item(index, item, body.annotate) for index, item in enumerate(body.inputs)]}


@operation("formatExpressions")
def format_expressions(call: Call, body: Trees) -> dict[str, Any]:
    """Print each tree as text and in words, with its faults and warnings."""
    nodes: list[dict[str, Any]] = []
    characters = 0
    for index, item in enumerate(body.inputs):
        nodes.append(_parse_item(index, item, body.annotate))
        characters += len(nodes[-1]["expression"] or "")
        _refuse_too_long(characters)
    return {"nodes": nodes}


def _refuse_too_long(characters: int) -> None:
    """Refuse more characters than can be parsed and checked quickly."""
    if characters > MAX_TEXTS:
        detail = f"inputs have more than {MAX_TEXTS} characters together; send them in several calls"
        raise InvalidRequest([FieldFault(detail, pointer="/inputs")])


def _parse_item(index: int, item: TextInput | TreeInput, annotate: bool) -> dict[str, Any]:
    """The result for one text or tree; `index` is its position in the request, for the pointers of warnings."""
    is_effect = item.is_effect_expression
    response: dict[str, Any] = {
        "expression": item.expression if isinstance(item, TextInput) else None,
        "labelledExpression": None,
        "errors": [],
        "warnings": [],
        "isEffectExpression": is_effect,
    }
    try:
        node = parse(item.expression) if isinstance(item, TextInput) else from_tree(item.node)
        response["expression"] = to_text(node)
        response["labelledExpression"] = label(node, ENVIRONMENT)
        analysis = check(node, ENVIRONMENT, None if is_effect else BOOL)
        response["errors"] = [_fault_record(fault) for fault in analysis.faults]
        pointer = f"/inputs/{index}/{'expression' if isinstance(item, TextInput) else 'node'}"
        response["warnings"] = list(map(WARNING, warnings_of(pointer, node, is_condition=not is_effect)))
        response["node"] = to_tree(node, annotate=analysis if annotate else False)
    except ExpressionError as error:
        response["errors"] = [_fault_record(fault) for fault in error.faults]
    return response


def _fault_record(fault: Fault) -> dict[str, Any]:
    return {"message": fault.message, "code": fault.code, "start": fault.start, "end": fault.end}
