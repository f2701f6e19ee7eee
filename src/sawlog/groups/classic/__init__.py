"""Groups whose members agree among themselves who reads what (the classic protocol)."""
