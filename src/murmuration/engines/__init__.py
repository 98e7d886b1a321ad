"""The same tallies on files and on Spark: one kernel counts, engines only bring it the reports."""
