"""What the hub keeps: the only place that speaks SQL."""
