"""What the shell asks of the machine that it carries requests to.

All calls come from the loop's thread, one after the other, and none from inside another: a
connection that ends while the application is at work is told about afterwards.
"""

from typing import Protocol

from sawlog.core.ports import Client, Exchange


class Application(Protocol):
    def connected(self, client: Client) -> None: ...

    def receive(self, exchange: Exchange, frame: memoryview) -> None:
        """One request without its length prefix, in writable memory that is reused afterwards.

        Answers by `exchange.answer`, now or later, exactly once; or ends it by `exchange.close`.
        """
        ...

    def disconnected(self, client: Client) -> None:
        """The connection is gone; answers to its open exchanges go nowhere from now on."""
        ...
