"""The group coordinator: who reads what, and how far they are. Pure state machines."""
