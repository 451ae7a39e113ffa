"""`python -m leveret` is the command `leveret`."""

from leveret.cli.main import main

if __name__ == "__main__":
    main(prog_name="leveret")
