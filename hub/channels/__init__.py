"""How frames of an agent reach the hub: one interface, several media, the same bytes."""
