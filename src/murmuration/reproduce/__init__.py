"""The four papers run again: each table, figure and theorem, the claim beside what is measured."""
