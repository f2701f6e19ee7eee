"""The group coordinator: group membership, assignments and committed offsets. It does no IO."""
