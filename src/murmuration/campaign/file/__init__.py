"""`campaign.toml`: what the engineer writes, read with every mistake on its line."""
