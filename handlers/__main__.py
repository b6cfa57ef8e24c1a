"""The command `loyalty` as `python -m handlers`."""

from handlers.server.cli import main

if __name__ == "__main__":
    main(prog_name="loyalty")
