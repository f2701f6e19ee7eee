"""Groups between the two protocols, while their members roll from one to the other (KIP-848)."""
