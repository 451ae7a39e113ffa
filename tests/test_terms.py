"""Values as Erlang's ~p prints them; the expectations were printed by Erlang."""

from decimal import Decimal

import pytest

from leveret.terms import binary, quoted, term
from leveret.wire.values import Byte, LongString


@pytest.mark.parametrize(
    ("value", "printed"),
    [
        ("all", '<<"all">>'),
        (b"all", '<<"all">>'),
        ("", "<<>>"),
        (b"\x00", "<<0>>"),
        (b"\x7f", "<<127>>"),
        (b"~", '<<"~">>'),
        (b" ", '<<" ">>'),
        (b"\b\v\f\x1b\t\r\n", r'<<"\b\v\f\e\t\r\n">>'),
        ('a\\b"c', r'<<"a\\b\"c">>'),
        (LongString(b"\x01\x02"), "<<1,2>>"),
        (True, "true"),
        (False, "false"),
        (None, "undefined"),
        (1, "1"),
        (Byte(-3), "-3"),
        (1.5, "1.5"),
        ([], "[]"),
        (["a", True], '[<<"a">>,true]'),
        ({"k": 1}, '[{<<"k">>,1}]'),
        (Decimal("1.5"), "1.5"),
        ("\udcff", "<<255>>"),
    ],
)
def test_term_is_printed(value: object, printed: str) -> None:
    assert term(value) == printed


def test_parts_of_terms() -> None:
    assert binary(b"a") == '"a"'
    assert binary(b"a\x01") == "97,1"
    assert quoted('say "x"') == r'"say \"x\""'
