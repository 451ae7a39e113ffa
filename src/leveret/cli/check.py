"""The command `leveret check`: for probes, which read the exit status."""

import sys

import click

from leveret.cli.api import Api, Failed
from leveret.cli.asked import asked, which_broker


@click.command()
@which_broker
def check(data_dir: str, url: str | None) -> None:
    """Ask whether the broker answers and no alarm is set: 0 if so, 1 if one is, 69 if it does not answer."""

    def ask(api: Api) -> str:
        try:
            api.get("/api/health/checks/alarms")
        except Failed as error:
            if error.status != 503:
                raise
            return str(error) or "an alarm is set"
        return ""

    alarm = asked(data_dir, url, ask)
    click.echo(alarm or "ok")
    sys.exit(1 if alarm else 0)
