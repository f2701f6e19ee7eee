"""A simulated tool that reads the committed offsets of a group, from any broker that answers."""

from sawlog.simulation.clients.group_client import GroupClient

PAUSE_MS = 150


class OffsetReader(GroupClient):
    """Asks brokers at random: only the group's coordinator may answer, with the newest offsets."""

    def start(self) -> None:
        self.refresh(self._ask)

    def _ask(self) -> None:
        if self.is_stopped:
            return
        if not self.topic_id:
            self.refresh(self._ask)
            return
        self.read_offsets(self.any_node(), sorted(self.leaders), self._answered)

    def _answered(self, _: dict[int, int]) -> None:
        self.schedule.after(PAUSE_MS, self._ask)
