"""The group coordinator: group membership, assignments and committed offsets. Pure logic."""
