"""One broker: a state machine that `server/` or the simulator feeds with frames, timers and images.

It hands each request to its handler and never waits: a handler answers now, or parks the request
until the event that fulfils it. Time, disk and store come through ports, so the same broker runs on
a real machine and in a simulation.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

from sawlog.broker.api.api_versions import unsupported_version
from sawlog.broker.dispatch import served_apis
from sawlog.broker.log_configs import CLEANER_SETTINGS, LOG_SETTINGS, cleaner_config
from sawlog.broker.metrics import declare_metrics
from sawlog.broker.request import Api, Request
from sawlog.cluster.controlled_shutdown import HAND_OVER_MS, hand_over, step_aside
from sawlog.cluster.metadata_image import EMPTY_IMAGE, MetadataImage
from sawlog.core.errors import MalformedFrame
from sawlog.core.event_logger import EventLogger
from sawlog.protocol.apis import ApiKey
from sawlog.protocol.headers import read_request_header

if TYPE_CHECKING:
    from sawlog.broker.components import Components
    from sawlog.core.metrics import Registry
    from sawlog.core.ports import Client, Exchange

logger = EventLogger(__name__)

ELECTION_SETTINGS = ("unclean.leader.election.enable",)
"""The broker settings that the controller elects leaders by."""


class Broker:
    """The application that a listener feeds; `assemble` builds it."""

    def __init__(self, components: "Components") -> None:
        self.components = components
        self.metadata = components.metadata
        self.replicas = components.replicas
        self.groups = components.groups
        self.purgatory = components.purgatory
        self._metrics = components.metrics
        self._apis: dict[int, Api] = served_apis()
        self._config = components.config
        self._config.subscribe(LOG_SETTINGS, self.replicas.reconfigure)
        self._config.subscribe(CLEANER_SETTINGS, self._reconfigure_cleaner)
        self._config.subscribe(ELECTION_SETTINGS, components.member.reconsider_elections)
        components.directory.on_offline(self._directory_offline)

    # Life cycle

    def start(self) -> None:
        """Join the cluster; the first metadata image opens the logs. DiskError if the id of a new
        data directory cannot be written."""
        member = self.components.member
        if member.directory_id:
            self.components.directory.reserve(member.node_id)
        member.start()

    def apply(self, old: MetadataImage, new: MetadataImage) -> None:
        """Make settings, replicas and groups follow a new metadata image."""
        self.metadata.update(new)
        if new.configs is not old.configs:
            self._config.reconfigure(*new.broker_configs(self.components.node_id))
        self.components.throttle.apply(old, new)
        self.replicas.apply(old, new)
        if new.brokers is not old.brokers:
            self.components.fetchers.brokers_changed()
        self.groups.image_changed(old, new)

    def try_apply(self, old: MetadataImage, new: MetadataImage) -> Exception | None:
        """Apply an image and return the error if that failed; also log it unless it is the first
        image, whose error is the reason why the broker does not start."""
        try:
            self.apply(old, new)
        except Exception as error:
            if old is not EMPTY_IMAGE:
                logger.exception("metadata image not applied")
            return error
        return None

    def _reconfigure_cleaner(self) -> None:
        self.components.directory.cleaner.reconfigure(cleaner_config(self._config))

    def _directory_offline(self) -> None:
        """Fetch no more, because nothing can be appended, and let other brokers lead."""
        self.components.fetchers.close()
        step_aside(self.components.member)

    def hand_over(self, done: Callable[[], None]) -> None:
        """Let other brokers lead before the stop; requests are served until `done` is called."""
        if self._config["controlled.shutdown.enable"]:
            hand_over(self.components.member, self.components.timer, HAND_OVER_MS, done)
        else:
            done()

    def stop(self, done: Callable[[], None]) -> None:
        """Answer parked fetches, leave the cluster, and close all logs cleanly."""
        self.purgatory.shut_down()
        self.components.fetchers.close()
        self.groups.close()
        self.components.transactions.close()
        self.components.verifier.close()
        broker_epoch = self.components.member.broker_epoch

        def left() -> None:
            self.replicas.close(broker_epoch)
            done()

        self.components.member.stop(left)

    def declare_metrics(self, registry: "Registry") -> None:
        declare_metrics(registry, self.components)

    # Connections and requests

    def connected(self, client: "Client") -> None:
        """The broker keeps no state of a client without requests."""

    def disconnected(self, client: "Client") -> None:
        self.purgatory.abandon(client)

    def receive(self, exchange: "Exchange", frame: memoryview) -> None:
        """Handle one request frame, without its length prefix. Never raises."""
        try:
            (api_key, version, correlation_id, client_id), position = read_request_header(frame)
            api = self._apis.get(api_key)
            if api is None:
                exchange.close(f"API {api_key} is not served here")
                return
            request = Request(exchange, api, version, correlation_id, client_id)
            if not api.min_version <= version <= api.max_version:
                _refuse_version(request, api, version)
                return
            message = api.decode(version, frame, position)
        except MalformedFrame as error:
            exchange.close(f"malformed frame: {error}")
            return
        try:
            response = api.handle(self.components, request, message)
            if response is not None:
                request.reply(response)
        except Exception as error:
            request.fail(error)
        self._metrics.received(api_key)


def _refuse_version(request: Request, api: Api, version: int) -> None:
    if api.key is ApiKey.API_VERSIONS:
        request.reply_in_version(0, unsupported_version())
    else:
        request.close(
            f"{api.key.name} version {version} is not served here; "
            f"{api.min_version} to {api.max_version} are"
        )
