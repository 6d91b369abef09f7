# ruff: noqa: INP001 - a script
"""The command `windrow` as a file, which spark-submit wants: spark-submit submit.py relay --config relay.yaml"""

from windrow.cli import main

main()
