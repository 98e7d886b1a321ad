"""Training by one question a person: what is asked, how a device answers, what comes of it."""
