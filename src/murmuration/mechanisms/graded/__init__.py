"""Mechanisms for one number whose ranges have budgets of their own."""
