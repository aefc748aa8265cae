"""Alerts: what is wrong for long enough, told once, and once when it is over."""
