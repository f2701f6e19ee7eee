"""Groups whose members are told by the coordinator who reads what (KIP-848)."""
