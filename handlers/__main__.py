"""`python -m handlers` is the command `loyalty`."""

from handlers.server.cli import main

if __name__ == "__main__":
    main(prog_name="loyalty")
