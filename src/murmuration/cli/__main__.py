"""`python -m murmuration.cli` is `murmur`."""

from murmuration.cli import main

main()
