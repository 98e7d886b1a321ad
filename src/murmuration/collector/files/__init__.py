"""Reports as files: one Parquet file, a folder of parts, and logs that become parts."""
