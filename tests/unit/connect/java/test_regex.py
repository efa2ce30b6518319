from __future__ import annotations

import re

import pytest

from kafka_s3.connect.java.regex import compile_pattern, replace_first

# What java.util.regex of Java 17 answers: the pattern, texts that it matches whole, and others.
MATCHES: list[tuple[str, list[str], list[str]]] = [
    (r"orders\.[a-z&&[^x]]+", ["orders.eu"], ["orders.x", "orders.", "ordersxeu"]),
    (r"[a-c[x-z]]+", ["abxyz"], ["m", "[", "b]"]),
    (r"[^a-c[x-z]]", ["m"], ["a", "y"]),
    (r"[a-z&&[def]x]+", ["dx"], ["a"]),
    (r"[a-z&&[^m-p]&&[^x]]", ["a"], ["n", "x"]),
    (r"[^a-z&&[^x]]", ["x", "1"], ["a"]),
    (r"[]a]+", ["]a"], ["b"]),
    (r"[a\-z-]+", ["-az"], ["b"]),
    (r"\p{Alpha}\P{Alpha}", ["a1"], ["aa"]),
    (r"[\p{Lower}\d_]+", ["a_1"], ["A"]),
    (r"\pL\p{Lu}\p{IsNd}\p{javaLetterOrDigit}", ["éÉ1z"], ["ééé1"]),
    (r"(?<env>dev|prod)\.\k<env>", ["dev.dev"], ["dev.prod"]),
    (r"\Qa.b*\E+", ["a.b*", "a.b**"], ["axb", "a.bb"]),
    (r"(x)\1\Q1\E", ["xx1"], ["x1"]),
    (r"\\Q", [r"\Q"], ["Q"]),
    (r"dev\.(?i)orders", ["dev.ORDERS"], ["DEV.orders"]),
    (r"a(?i)b|c", ["aB", "C"], ["AB"]),
    (r"(a(?i)b)c", ["aBc"], ["aBC"]),
    (r"(?i:a)b", ["Ab"], ["AB"]),
    (r"(?i)[^a](a)\1", ["bAa"], ["AAa"]),
    (r"(?i)k", ["K"], ["\u212a"]),
    (r"(?s).", ["\n"], []),
    (r".", ["a"], ["\n", "\r", "\x85", "\u2028"]),
    (r"\v\h", ["\x0b\xa0"], ["\t\t"]),
    (r"\w\s\d", ["a\x0b1"], ["é 1", "a ١"]),
    (r"a$\n", ["a\n"], ["a"]),
    (r"a\z\n", [], ["a\n"]),
    (r"a{2}b{1,}+c{0,1}", ["aabb", "aabc"], ["abc"]),
    (r"\x41\x{42}\u0043\0104\cA\e", ["ABCD\x01\x1b"], []),
    (r"\ud83d\ude00", ["\U0001f600"], []),
    (r"(?<=a)b|(?<!a)c|ab", ["c", "ab"], ["b"]),
]  # fmt: skip


@pytest.mark.parametrize(("pattern", "matching", "others"), MATCHES, ids=[row[0] for row in MATCHES])
def test_a_pattern_matches_what_java_matches(pattern: str, matching: list[str], others: list[str]) -> None:
    matches = compile_pattern(pattern).fullmatch
    assert [text for text in matching if not matches(text)] == []
    assert [text for text in others if matches(text)] == []


@pytest.mark.parametrize(
    ("pattern", "named"),
    [
        (r"(?P<name>a)", "the group (?P"), (r"(?#a)b", "the group (?#"), (r"(?m)^a", "the flag m of (?m)"),
        (r"(?i-x:a)", "the flag x of (?i-x)"), (r"\p{IsGreek}", r"the class \p{IsGreek}"),
        (r"(?i)\p{Lower}", r"the class \p{Lower} under the flag i"), (r"\X", r"the escape \X"), (r"\R", r"the escape \R"),
        (r"\G", r"the escape \G"), (r"\N{DASH}", r"the escape \N"), (r"\y", r"the escape \y"), (r"[\b]", r"the escape \b"),
        (r"\b{g}", r"\b{"), (r"[\v-a]", r"\v in a range"), (r"[a&&]", "a side of &&"), (r"[a&&&b]", "a side of &&"),
        ("a{", "Illegal repetition"), ("a{,2}", "Illegal repetition"), ("a**", "Dangling meta character '*'"), ("a(", "Unclosed group"),
        ("a)", "Unmatched closing ')'"), ("[a", "Unclosed character class"), ("[z-a]", "Illegal character range"),
        ("a\\", "it ends with a backslash"), ("(?<=a+)b", "look-behind"), (r"\1(a)", "invalid group reference"),
        ("a{99999999999}", "too large"),
    ],
)  # fmt: skip
def test_what_has_no_exact_translation_is_refused_by_name(pattern: str, named: str) -> None:
    with pytest.raises(ValueError, match=re.escape(named)):
        compile_pattern(pattern)


def test_named_groups_and_quotations_are_for_replacements_too() -> None:
    found = compile_pattern(r"(?<env>\w+)\.\Qorders.v1\E").search("dev.orders.v1")
    assert found is not None
    assert replace_first(found, "${env}-orders") == "dev-orders"
