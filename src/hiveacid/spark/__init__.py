"""Plans that move the data: scans, writes, merges, compactions."""
