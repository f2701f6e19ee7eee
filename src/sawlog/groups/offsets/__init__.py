"""How far the groups are: committed offsets."""
