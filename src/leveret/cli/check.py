"""The command `leveret check`: for probes, which read the exit status."""

import sys

import click

from leveret.cli.api import Api, Failed
from leveret.cli.broker_command import ask_broker, which_broker


@click.command()
@which_broker
def check(data_dir: str, url: str | None) -> None:
    """Check that the broker responds and that no alarm is in effect.

    Exits with 0 if so, with 1 if there is an alarm, and with 69 if the broker does not respond.
    """

    def ask(api: Api) -> str:
        try:
            api.get("/api/health/checks/alarms")
        except Failed as error:
            if error.status != 503:
                raise
            return str(error) or "an alarm is in effect"
        return ""

    alarm = ask_broker(data_dir, url, ask)
    click.echo(alarm or "ok")
    sys.exit(1 if alarm else 0)
