"""DescribeUserScramCredentials on a broker without credentials."""

from transcripts.transcript import Transcript


def run(transcript: Transcript) -> None:
    def ask(title: str, names: list[str] | None) -> None:
        users = None if names is None else [{"name": name} for name in names]
        transcript.request(title, "DescribeUserScramCredentials", 0, {"users": users})

    ask("all users", None)
    ask("an empty list of users", [])
    ask("a user", ["anna"])
    ask("two users", ["anna", "bert"])
    ask("a user twice", ["anna", "anna"])
    ask("a user twice, and another one", ["anna", "bert", "anna"])
    ask("a user three times", ["anna", "anna", "anna"])
    ask("an empty name", [""])
