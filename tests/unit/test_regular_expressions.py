"""No regular expression of the project takes exponential time for any text."""

import ast
import re
from pathlib import Path
from re import _constants as ops
from re import _parser as parser

import pytest

ROOT = Path(__file__).parents[2]
FOLDERS = ("operator", "dev", "docs", "benchmarks")
USES = {"compile", "match", "fullmatch", "search", "split", "sub", "subn", "findall", "finditer"}
OF_A_USER = {("operator/rackspan/cli/shared/selection.py", "pattern")}
"""Expressions that users of the command write. They run with a time limit."""

REPEATS = (ops.MAX_REPEAT, ops.MIN_REPEAT, ops.POSSESSIVE_REPEAT)
LETTERS = frozenset(map(chr, range(256))) | {"\u2028", "\u4e00"}
CATEGORIES = {
    ops.CATEGORY_DIGIT: r"\d",
    ops.CATEGORY_NOT_DIGIT: r"\D",
    ops.CATEGORY_SPACE: r"\s",
    ops.CATEGORY_NOT_SPACE: r"\S",
    ops.CATEGORY_WORD: r"\w",
    ops.CATEGORY_NOT_WORD: r"\W",
}


def faults(pattern, flags=0):
    """Return why an expression can backtrack exponentially: nested repetition or choices with the same first letter."""
    return list(_faults(parser.parse(pattern, flags)))


def _faults(sequence):
    for op, argument in sequence:
        if op in REPEATS:
            _, most, body = argument
            inner = [(low, high) for low, high in _repeats(body) if low != high and high > 1]
            if most > 1 and inner and (ops.MAXREPEAT in (most, *(high for _, high in inner))):
                yield "repetition within repetition"
            if most == ops.MAXREPEAT:
                if _first(body)[1]:
                    yield "repetition of what may be empty"
                yield from _choices(body, _first(body)[0])
        for part in _parts(op, argument):
            yield from _faults(part)


def _repeats(sequence):
    for op, argument in sequence:
        if op in REPEATS:
            yield argument[:2]
        for part in _parts(op, argument):
            yield from _repeats(part)


def _parts(op, argument):
    if op in REPEATS:
        return [argument[2]]
    if op is ops.SUBPATTERN:
        return [argument[3]]
    if op is ops.BRANCH:
        return argument[1]
    if op in (ops.ASSERT, ops.ASSERT_NOT):
        return [argument[1]]
    return [argument] if op is ops.ATOMIC_GROUP else []


def _choices(sequence, after):
    """Yield ambiguous choices in a repeated sequence. `after` are the letters that may follow the sequence."""
    steps = list(sequence)
    for at, (op, argument) in enumerate(steps):
        letters, empty = _first(steps[at + 1 :])
        following = letters | after if empty else letters
        if op is ops.BRANCH:
            seen = set()
            for one in argument[1]:
                first, empty = _first(one)
                first |= following if empty else set()
                if seen & first:
                    yield "alternatives that begin alike within repetition"
                seen |= first
        elif op in REPEATS and argument[0] != argument[1] and _first(argument[2])[0] & following:
            yield "an optional part that begins like what follows within repetition"
        for part in _parts(op, argument):
            yield from _choices(part, following)


def _first(sequence):
    """Return the letters that may be first, and whether the sequence may be empty."""
    letters = set()
    for op, argument in sequence:
        if op in (ops.AT, ops.ASSERT, ops.ASSERT_NOT):
            continue
        found, empty = _step(op, argument)
        letters |= found
        if not empty:
            return letters, False
    return letters, True


def _step(op, argument):
    if op is ops.BRANCH:
        every = [_first(one) for one in argument[1]]
        return set().union(*(one for one, _ in every)), any(empty for _, empty in every)
    if op in REPEATS:
        letters, empty = _first(argument[2])
        return letters, empty or argument[0] == 0
    if parts := _parts(op, argument):
        return _first(parts[0])
    return {letter for letter in LETTERS if _is(op, argument, letter)}, False


def _is(op, argument, letter):
    match op:
        case ops.LITERAL:
            return argument == ord(letter)
        case ops.NOT_LITERAL:
            return argument != ord(letter)
        case ops.RANGE:
            return argument[0] <= ord(letter) <= argument[1]
        case ops.CATEGORY:
            return re.match(CATEGORIES[argument], letter) is not None
        case ops.IN:
            negated = argument[0][0] is ops.NEGATE
            return negated != any(_is(*one, letter) for one in argument[negated:])
    return True  # any letter, or a reference to a group


def expressions(path):
    """Yield line, text and node of each regular expression in a source file. The text is None if it is unknown."""
    tree = ast.parse(path.read_text())
    named = {
        target.id: one.value
        for one in tree.body
        if isinstance(one, ast.Assign | ast.AnnAssign) and one.value is not None
        for target in (one.targets if isinstance(one, ast.Assign) else [one.target])
        if isinstance(target, ast.Name)
    }
    for call in ast.walk(tree):
        if not (isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute)):
            continue
        if isinstance(call.func.value, ast.Name) and call.func.value.id == "re" and call.func.attr in USES:
            yield call.lineno, _written(call.args[0], named), call.args[0]


def _written(node, named):
    match node:
        case ast.Constant(value=str(text)):
            return text
        case ast.Name(id=name) if name in named:
            return _written(named[name], named)
        case ast.JoinedStr(values=values):
            return "".join(_written(one, named) for one in values)
        case ast.FormattedValue(value=ast.Name(id=name)) if name in named:
            return _written(named[name], named)
        case ast.FormattedValue():
            return "x"  # the result of re.escape
    return None


def test_regular_expressions_of_the_project_do_not_backtrack_exponentially():
    found, unread = {}, set()
    for path in sorted(one for folder in FOLDERS for one in (ROOT / folder).rglob("*.py")):
        where = path.relative_to(ROOT).as_posix()
        for line, text, node in expressions(path):
            if text is None:
                unread.add((where, ast.unparse(node)))
            elif wrong := faults(text):
                found[f"{where}:{line}"] = wrong
    assert found == {}
    assert unread == OF_A_USER


@pytest.mark.parametrize(
    "pattern",
    [
        r"(a*)*",
        r"(a+b?)+",
        r"(\s*([#%].*)?(\n|$))*",
        r"(a|a)*",
        r"(?:\w|ab)+",
        r"(?:ab?|b)*c",
        r"(x?)*",
        r"(a?a)*",
        r"(a{1,9})*",
        r"(a*){2,9}",
        r"(?:(?:a|ab)b?)*",
        r"x(?=(a+)+b)",
        r"[a-z]+(\.[a-z]+)*",
    ],
)
def test_exponential_expression_is_detected(pattern):
    assert faults(pattern)


@pytest.mark.parametrize("pattern", [r"(a|b)*", r"(?:[^'\\]|\\.)*", r"(ab?c)*", r"(\d{1,3}\.){3}", r"a*b*", r"(a{3})*"])
def test_harmless_expression_is_accepted(pattern):
    assert faults(pattern) == []
