"""What all things in the settings have in common: nothing but that they can be made."""

import pytest

from leveret.broker.broker import default_broker
from leveret.definitions.definition import Definition


def test_what_a_definition_makes_is_said_by_its_kind() -> None:
    with pytest.raises(NotImplementedError):
        _ = Definition().title
    with pytest.raises(NotImplementedError):
        Definition().make(default_broker())
