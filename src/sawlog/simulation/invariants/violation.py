"""The error that ends a simulation: a broken promise, and the number of the guarantee."""


class Violation(Exception):
    """`guarantee` is the number of the broken line of the guarantees, or a word for the others."""

    def __init__(self, guarantee: str, text: str) -> None:
        super().__init__(f"guarantee {guarantee}: {text}")
        self.guarantee = guarantee
