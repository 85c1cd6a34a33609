"""`python -m rowcall` is `rowcall`."""

from _rowcall import main

if __name__ == "__main__":
    main()
