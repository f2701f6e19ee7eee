"""The event-sourced runtime of the coordinators: plan records, append, replay, answer."""
