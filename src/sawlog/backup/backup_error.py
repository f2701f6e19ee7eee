"""The error of all operations on backups."""


class BackupError(Exception):
    """A backup cannot be created, is not valid or cannot be restored; the message is for users."""
