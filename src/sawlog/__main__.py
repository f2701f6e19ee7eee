"""`python -m sawlog`: the command line, as the installed `sawlog` script runs it."""

from sawlog.cli.main import main

if __name__ == "__main__":
    main()
