"""Connections to the other brokers of the cluster for one purpose, one for each broker."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sawlog.broker.metadata_cache import MetadataCache
    from sawlog.core.ids import NodeId
    from sawlog.protocol.peers import PeerConnection, Peers


class PeerConnections:
    """Invariant: a connection leads to the address that its broker had when it was last used."""

    def __init__(self, metadata: "MetadataCache", peers: "Peers") -> None:
        self._metadata = metadata
        self._peers = peers
        self._connections: dict[NodeId, tuple[tuple[str, int], PeerConnection]] = {}

    def to(self, node: "NodeId") -> "PeerConnection | None":
        """Return the connection to a broker; None if it is not alive."""
        broker = self._metadata.image.brokers.get(node)
        known = self._connections.get(node)
        if broker is None:
            if known is not None:
                del self._connections[node]
                known[1].close()
            return None
        address = (broker.host, broker.port)
        if known is not None:
            if known[0] == address:
                return known[1]
            known[1].close()
        connection = self._peers.connect(broker.host, broker.port)
        self._connections[node] = (address, connection)
        return connection

    def close(self) -> None:
        connections, self._connections = self._connections, {}
        for _, connection in connections.values():
            connection.close()
