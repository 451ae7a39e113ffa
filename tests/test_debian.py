"""What a test says that misses one of Debian's packages."""

from pathlib import Path

import pytest
from tests import debian


def test_what_is_missing_is_named_with_its_command(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    there, absent = tmp_path / "there", tmp_path / "absent"
    there.touch()
    monkeypatch.setattr(debian, "PACKAGES", {there: ["one"], absent: ["two", "three"]})
    debian.need(there)
    with pytest.raises(debian.PackageMissing, match=r"as root: apt-get install -y --no-install-recommends two three$"):
        debian.need(absent)
    assert debian.missing() == ["two", "three"]
