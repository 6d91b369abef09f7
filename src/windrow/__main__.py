"""`python -m windrow` is the command `windrow`."""

from windrow.cli import main

main()
