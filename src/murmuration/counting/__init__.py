"""From reports to tallies: integers that add, their file, the kernel that counts."""
