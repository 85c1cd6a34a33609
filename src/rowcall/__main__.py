"""`python -m rowcall` is `rowcall`."""

from rowcall.cli.main import main

if __name__ == "__main__":
    main()
