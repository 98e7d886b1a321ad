"""Before a collection: which mechanism, how a budget is shared out, what error to expect."""
