"""How many connections there are, in all and from each address, and whether one more may come."""

from sawlog.server.connection_limits import Limits


class Admission:
    """Invariant: `total` is the sum over all addresses; an address without connections has none."""

    __slots__ = ("_by_ip", "_limits", "refused", "total")

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._by_ip: dict[str, int] = {}
        self.total = 0
        self.refused = 0

    def admit(self, ip: str) -> str | None:
        """Counts a connection in; where there is no room for it, says why and counts that."""
        count = self._by_ip.get(ip, 0)
        if self.total >= self._limits.connections:
            self.refused += 1
            return f"{self.total} connections are open"
        if count >= self._limits.connections_per_ip:
            self.refused += 1
            return f"{count} connections from this address are open"
        self._by_ip[ip] = count + 1
        self.total += 1
        return None

    def leave(self, ip: str) -> None:
        self.total -= 1
        count = self._by_ip[ip] - 1
        if count:
            self._by_ip[ip] = count
        else:
            del self._by_ip[ip]
