"""The commands `leveret tls …`: certificates for trying out TLS, made by the program openssl.

Python's standard library can use certificates and cannot make any; openssl is on nearly every machine that has it.
"""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import click

HOST = re.compile(r"[\w.*:-]+")
NAMES = ("localhost", "127.0.0.1", "::1")
FILES = ("ca.pem", "server.pem", "server.key", "client.pem", "client.key")
CURVE = ("-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:prime256v1")
TIMEOUT_S = 60

REQUEST = """[req]
distinguished_name = name
prompt = no
[name]
CN = {name}
[extensions]
subjectKeyIdentifier = hash
{extensions}
"""
CA = "basicConstraints = critical, CA:TRUE, pathlen:0\nkeyUsage = critical, keyCertSign, cRLSign"
LEAF = "basicConstraints = critical, CA:FALSE\nkeyUsage = critical, digitalSignature\nextendedKeyUsage = {usage}\n{names}"


class NotMade(Exception):
    """A certificate could not be made; the text says why."""


@click.group()
def tls() -> None:
    """Make certificates for trying out TLS."""


@tls.command("self-signed")
@click.argument("folder", metavar="DIR", type=click.Path(path_type=Path))
@click.option("--name", "names", multiple=True, metavar="HOST", help="A name or address of the broker; as often as needed.")
@click.option("--client", default="client", show_default=True, metavar="NAME", help="The common name of the client.")
@click.option("--days", default=365, show_default=True, type=click.IntRange(1, 36_500))
def self_signed(folder: Path, names: tuple[str, ...], client: str, days: int) -> None:
    """Make a CA, and certificates with keys for the broker and for a client, in DIR.

    They are ca.pem, server.pem, server.key, client.pem and client.key, and only their owner can read them. The broker's is
    for localhost, unless --name says otherwise. The CA's key is not kept: nothing more can be signed with it.
    """
    try:
        make(folder, names or NAMES, client, days)
    except (NotMade, OSError) as error:
        click.echo(f"leveret: {error}", err=True)
        sys.exit(1)
    click.echo(f"made {', '.join(FILES)} in {folder}, valid for {days} {'day' if days == 1 else 'days'}")


def make(folder: Path, names: tuple[str, ...], client: str, days: int) -> None:
    """Make all files, or none."""
    if shutil.which("openssl") is None:
        raise NotMade("the program openssl is needed to make certificates, and is not installed")
    for name in FILES:
        if (folder / name).exists():
            raise NotMade(f"{folder / name} exists already")
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    with TemporaryDirectory() as place:
        work = Path(place)
        write_request(work, "ca", "Leveret CA for trying out", CA)
        make_key(work, "ca")
        self_sign = ("-config", "ca.cnf", "-extensions", "extensions", "-key", "ca.key", "-days", str(days))
        openssl(work, "req", "-x509", "-new", *self_sign, "-out", "ca.pem")
        write_request(work, "server", names[0], LEAF.format(usage="serverAuth", names=alternative_names(names)))
        write_request(work, "client", client, LEAF.format(usage="clientAuth", names=""))
        for one in ("server", "client"):
            make_key(work, one)
            sign(work, one, days)
        for name in FILES:
            os.chmod(work / name, 0o600)
            shutil.move(work / name, folder / name)


def write_request(work: Path, one: str, name: str, extensions: str) -> None:
    if not name.isprintable() or not name.strip() or set(name) & set("$\\#;\"'"):
        raise NotMade(f"a certificate cannot be made for the name {name!r}")
    (work / f"{one}.cnf").write_text(REQUEST.format(name=name, extensions=extensions), encoding="utf-8")


def make_key(work: Path, one: str) -> None:
    openssl(work, "genpkey", *CURVE, "-out", f"{one}.key")


def sign(work: Path, one: str, days: int) -> None:
    """Have the CA sign a certificate."""
    openssl(work, "req", "-new", "-utf8", "-config", f"{one}.cnf", "-key", f"{one}.key", "-out", f"{one}.csr")
    issuer = ("-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-days", str(days))
    extensions = ("-extfile", f"{one}.cnf", "-extensions", "extensions")
    openssl(work, "x509", "-req", "-in", f"{one}.csr", *issuer, *extensions, "-out", f"{one}.pem")


def alternative_names(names: tuple[str, ...]) -> str:
    """A certificate's subjectAltName: addresses are written in another way than names."""
    for name in names:
        if not HOST.fullmatch(name):
            raise NotMade(f"a certificate cannot be made for the name {name!r}")
    return "subjectAltName = " + ", ".join(f"{'IP' if is_address(name) else 'DNS'}:{name}" for name in names)


def is_address(name: str) -> bool:
    return ":" in name or name.replace(".", "").isdigit()


def openssl(work: Path, *arguments: str) -> None:
    """Run it where the files are; NotMade with what it says last if it fails."""
    command = ["openssl", *arguments]
    done = subprocess.run(command, cwd=work, capture_output=True, text=True, check=False, timeout=TIMEOUT_S, umask=0o077)
    if done.returncode != 0:
        said = done.stderr.strip().splitlines()
        raise NotMade(f"openssl {arguments[0]} has failed: {said[-1] if said else done.returncode}")
