"""What a collector does with reports, whatever brought them: count each once, durably."""
