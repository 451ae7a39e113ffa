"""Issue 6, 6: the README's subscriptions, as they stand there: the second seed's PDFs."""

import os
import re
import shlex
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import yaml
from tests.server.support import Process, eventually
from tests.work.support import ROOT, Place, WorkProcess

from leveret.work.subscription import EXCHANGE_FIELDS, SUBSCRIPTION_FIELDS
from leveret.work.subscription_file import read_files

README = ROOT / "README.md"
DOCUMENTS = ROOT / "docs" / "subscriptions.md"


def block(text: str, kind: str) -> str:
    found = re.search(rf"```{kind}\n(.*?)```", text, re.DOTALL)
    assert found is not None
    return found[1]


def test_pdfs_of_the_readme(tmp_path: Path) -> None:
    section = README.read_text(encoding="utf-8").partition("## Subscriptions")[2].partition("\n## ")[0]
    handler = block(section, "python")
    assert len([line for line in handler.splitlines() if line]) == 5
    (tmp_path / "pdf.yaml").write_text(block(section, "yaml"))
    (tmp_path / "pdf.py").write_text(handler)
    steps = [step.strip("\n").partition("\n") for step in block(section, "console").split("$ ")[1:]]
    assert len(steps) == 5
    with Process(tmp_path) as broker, ExitStack() as stack:
        environment = {"LEVERET_URL": Place(broker.port).url}
        for command, _, shown in steps:
            words = shlex.split(command)
            assert words[0] == "leveret"
            if words[-1] == "&":
                # Nobody waits for it: what is pasted goes on at once.
                worker = stack.enter_context(WorkProcess(tmp_path, *words[2:-1], environment=environment))
                continue
            arguments = [*words[1:], *(["--data-dir", "data"] if words[1] == "messages" else [])]
            done = subprocess.run(
                [sys.executable, "-m", "leveret", *arguments],
                cwd=tmp_path,
                capture_output=True,
                text=True,
                check=False,
                timeout=60,
                env={**os.environ, **environment},
            )
            assert (done.returncode, done.stdout.strip("\n"), done.stderr) == (0, shown, ""), command
        eventually((tmp_path / "invoice.pdf").exists)
        eventually(lambda: (tmp_path / "invoice.pdf").read_text() == "42")
        eventually((tmp_path / "pdf.log").exists)
        eventually(lambda: (tmp_path / "pdf.log").read_text() == "an invoice was ordered")
        assert worker.stop() == 0


def test_samples_of_the_documents_are_right(tmp_path: Path) -> None:
    text = DOCUMENTS.read_text(encoding="utf-8")
    sample = yaml.safe_load(block(text, "yaml"))
    sample["Subscriptions"][0]["Handler"] = ["true"]
    (tmp_path / "sample.yaml").write_text(yaml.safe_dump(sample))
    assert [exchange.name for exchange in read_files([tmp_path / "sample.yaml"])] == ["shop"]
    for code in re.findall(r"```python\n(.*?)```", text, re.DOTALL):
        compile(code, "sample", "exec")


def test_every_field_is_documented() -> None:
    rows = re.findall(r"^\| ([A-Z]\w+(?:, [A-Z]\w+)*) \|", DOCUMENTS.read_text(encoding="utf-8"), re.MULTILINE)
    documented = {name for row in rows for name in row.split(", ")}
    assert {*EXCHANGE_FIELDS, *SUBSCRIPTION_FIELDS} <= documented
