"""A campaign: what is asked, by which laws, and what a report of it looks like."""
