"""The same tallies on local files and on Spark: the kernel counts, an engine brings the reports."""
