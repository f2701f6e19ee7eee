"""The event-sourced runtime of coordinators: plan records, append them, replay, reply."""
