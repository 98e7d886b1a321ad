"""Who may do what: tokens, participants' tokens, and browsers that are signed in."""
