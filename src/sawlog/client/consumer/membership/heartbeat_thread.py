"""The thread that sends a member's requests to the coordinator while the application works.

It has its own connections, since a cluster is for one thread. Retriable errors are retried for
ever; the polling thread gets an error with its next poll if it is fatal or lasts too long.
"""

import threading
import time
from collections.abc import Sequence
from typing import Any

from sawlog.client.admin.group_offsets import Identity
from sawlog.client.consumer.membership.classic_protocol import ClassicMembership
from sawlog.client.consumer.membership.consumer_protocol import ConsumerMembership
from sawlog.client.consumer.membership.membership_protocol import (
    CLASSIC,
    CONSUMER,
    Change,
    CoordinatorRequest,
    GroupSettings,
    Membership,
    Subscription,
    TopicLookup,
)
from sawlog.client.errors import ClientError, UnsupportedRequest
from sawlog.client.fork_guard import ForkGuard
from sawlog.client.net.cluster import Cluster
from sawlog.client.net.coordinator_requests import Coordinators, group_error
from sawlog.client.net.metadata import Topic, read_metadata
from sawlog.client.net.retries import Backoff, Deadline, is_retriable
from sawlog.client.net.wakeup import Wakeup
from sawlog.core.errors import ErrorCode, KafkaError
from sawlog.core.event_logger import EventLogger
from sawlog.protocol.apis import ApiKey
from sawlog.protocol.messages.metadata_request import MetadataRequest, MetadataRequestTopic
from sawlog.protocol.messages.metadata_response import MetadataResponse

_PROTOCOLS: dict[str, type[Membership]] = {CLASSIC: ClassicMembership, CONSUMER: ConsumerMembership}
_COORDINATOR_ERRORS = frozenset(
    {
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
    }
)
_FIRST_VERSION_WITH_PATTERNS = 1
_LEAVING_TIMEOUT_MS = 5_000
_MAX_SLEEP_MS = 3_600_000

_logger = EventLogger("sawlog.client.group")


def _now_ms() -> float:
    return time.monotonic() * 1_000


class HeartbeatThread:
    """`reader_wakeup` is signalled when the polling thread should look: a change or an error."""

    def __init__(
        self,
        cluster: Cluster,
        settings: GroupSettings,
        subscription: Subscription,
        reader_wakeup: Wakeup,
    ) -> None:
        self._cluster = cluster
        self._coordinators = Coordinators(cluster)
        self._settings = settings
        self._subscription = subscription
        self._reader_wakeup = reader_wakeup
        self._fork_guard = ForkGuard()
        self._wakeup = Wakeup()
        self._lock = threading.Lock()
        self._membership: Membership | None = None
        if settings.protocol is not None:
            self._membership = _PROTOCOLS[settings.protocol](settings, subscription)
        # State of the polling thread
        self._polled_ms = _now_ms()
        self._has_poll_timed_out = False
        self._failure: Exception | None = None
        self._is_failure_final = False
        # Retries
        self._backoff = Backoff()
        self._retry_deadline: Deadline | None = None
        self._is_closing = False
        self._thread = threading.Thread(target=self._run, name="sawlog-group", daemon=True)
        self._thread.start()

    # For the polling thread

    def on_poll(self) -> None:
        """Note the time of a poll, and raise the error of the membership, if any."""
        with self._lock:
            self._polled_ms = _now_ms()
            if self._has_poll_timed_out:
                self._has_poll_timed_out = False
                self._wakeup.signal()
            failure = self._failure
            if not self._is_failure_final:
                self._failure = None
        if failure is not None:
            raise failure

    def take_change(self) -> Change | None:
        with self._lock:
            return None if self._membership is None else self._membership.take_change()

    def change_applied(self, change: Change) -> None:
        with self._lock:
            if self._membership is not None:
                self._membership.change_applied(change)
        self._wakeup.signal()

    def identity(self) -> Identity | None:
        """Return the identity for commits; None if this is not a member."""
        with self._lock:
            membership = self._membership
            return membership.identity if membership is not None and membership.is_member else None

    def heartbeat_now(self) -> None:
        with self._lock:
            if self._membership is not None:
                self._membership.heartbeat_now()
        self._wakeup.signal()

    def subscribe(self, subscription: Subscription) -> None:
        with self._lock:
            self._subscription = subscription
            self._failure, self._is_failure_final = None, False
            if self._membership is not None:
                self._membership.subscribe(subscription)
        self._wakeup.signal()

    def end(self) -> None:
        """Let the thread leave the group and end, without waiting for it."""
        if not self._fork_guard.is_same_process:
            return  # the thread and the member are in the parent process
        with self._lock:
            self._is_closing = True
        self._wakeup.signal()

    def close(self) -> None:
        self.end()
        if self._thread is not threading.current_thread():
            self._thread.join()

    # The thread

    def _run(self) -> None:
        try:
            while not self._is_closing:
                self._run_once()
            with self._lock:
                leave = None if self._membership is None else self._membership.leave_request()
            self._send_leave(leave)
        except Exception as error:  # a bug: the polling thread must not wait for ever
            _logger.exception("the heartbeat thread failed", group=self._settings.group)
            self._report_failure(error, is_final=True)
        finally:
            self._cluster.close()
            self._wakeup.close()

    def _run_once(self) -> None:
        try:
            membership = self._membership or self._choose_protocol()
            if self._leave_if_poll_timed_out(membership):
                return
            with self._lock:
                request = None if self._is_suspended else membership.next_request(_now_ms())
                wait_ms = self._sleep_ms(membership)
            if request is None:
                self._wakeup.wait(wait_ms)
                return
            if isinstance(request, TopicLookup):
                topics = self._lookup_topics(request)
                with self._lock:
                    membership.on_topics(topics, _now_ms())
            else:
                response = self._send(request)
                if response is None:
                    return
                with self._lock:
                    membership.on_response(response, _now_ms())
        except (KafkaError, ClientError) as error:
            if not self._falls_back_to_classic(error):
                self._failed(error)
        else:
            self._backoff, self._retry_deadline = Backoff(), None
            with self._lock:
                has_change = membership.has_change
            if has_change:
                self._reader_wakeup.signal()

    @property
    def _is_suspended(self) -> bool:
        return self._has_poll_timed_out or self._is_failure_final

    def _sleep_ms(self, membership: Membership) -> float:
        if self._is_suspended:
            return _MAX_SLEEP_MS
        overdue_ms = self._polled_ms + self._settings.max_poll_interval_ms
        return min(
            max(0.0, min(membership.next_wakeup_ms(), overdue_ms) - _now_ms()), _MAX_SLEEP_MS
        )

    def _choose_protocol(self) -> Membership:
        """Choose the consumer protocol if the coordinator offers it."""
        connection = self._coordinators.connection(self._settings.group)
        lowest = 0 if self._subscription.pattern is None else _FIRST_VERSION_WITH_PATTERNS
        try:
            offers = connection.version(ApiKey.CONSUMER_GROUP_HEARTBEAT) >= lowest
        except UnsupportedRequest:
            offers = False
        kind = _PROTOCOLS[CONSUMER if offers else CLASSIC]
        with self._lock:
            self._membership = kind(self._settings, self._subscription)
            return self._membership

    def _falls_back_to_classic(self, error: KafkaError | ClientError) -> bool:
        """Switch to the classic protocol if the broker has disabled the consumer protocol.

        Kafka 3.7 to 3.9 offer it but disable it by default. Only before the member has joined, and
        if the settings name no protocol.
        """
        if not isinstance(error, KafkaError) or error.code is not ErrorCode.UNSUPPORTED_VERSION:
            return False
        with self._lock:
            membership = self._membership
            has_chosen = self._settings.protocol is None and isinstance(
                membership, ConsumerMembership
            )
            if membership is None or not has_chosen or membership.is_member or membership.owned:
                return False
            self._membership = ClassicMembership(self._settings, self._subscription)
            return True

    def _leave_if_poll_timed_out(self, membership: Membership) -> bool:
        """Leave the group if the last poll is longer ago than max_poll_interval_ms."""
        with self._lock:
            limit_ms = self._settings.max_poll_interval_ms
            if self._is_suspended or _now_ms() - self._polled_ms < limit_ms:
                return False
            self._has_poll_timed_out = True
            leave = membership.leave_request()
            membership.fence()
        _logger.warning(
            "left a group: poll was not called in time; poll more often, take fewer records per"
            " poll, or raise max_poll_interval_ms",
            group=self._settings.group,
            max_poll_interval_ms=limit_ms,
        )
        self._send_leave(leave)
        return True

    def _send(self, request: CoordinatorRequest) -> Any:
        """Return the coordinator's response; None if the thread is closing."""
        group = self._settings.group
        connection = self._coordinators.connection(group)
        pending = connection.send(
            request.request, request.response_class, timeout_ms=request.timeout_ms
        )
        while (response := connection.poll(pending)) is None:
            if self._is_closing:
                # Responses come in order: here LeaveGroup would wait behind JoinGroup.
                connection.close()
                return None
            self._wakeup.wait(pending.deadline.remaining_ms, [connection.fileno()])
        error_code = getattr(response, "error_code", 0)
        if error_code in _COORDINATOR_ERRORS:
            raise group_error(group, error_code, None)
        return response

    def _lookup_topics(self, wanted: TopicLookup) -> Sequence[Topic]:
        if not wanted.ids:
            names = None if wanted.all_topics else wanted.names
            return list(self._cluster.fetch_metadata(names).topics.values())
        topics = [MetadataRequestTopic(topic_id=each, name=None) for each in sorted(wanted.ids)]
        request = MetadataRequest(topics=topics, allow_auto_topic_creation=False)
        response = self._cluster.any_connection().request(request, MetadataResponse)
        return list(read_metadata(response).topics.values())

    def _send_leave(self, leave: CoordinatorRequest | None) -> None:
        """Leave the group; if that fails, the session timeout ends the membership."""
        if leave is None:
            return
        try:
            connection = self._coordinators.connection(self._settings.group)
            connection.request(leave.request, leave.response_class, timeout_ms=_LEAVING_TIMEOUT_MS)
        except (KafkaError, ClientError) as error:
            _logger.info("could not leave a group", group=self._settings.group, reason=str(error))

    def _failed(self, error: KafkaError | ClientError) -> None:
        self._coordinators.forget(self._settings.group)
        with self._lock:
            if self._membership is not None:
                self._membership.on_no_response()
        if self._retry_deadline is None:
            self._retry_deadline = self._cluster.deadline()
        if not self._is_retriable(error):
            self._report_failure(error, is_final=True)
            return
        if self._retry_deadline.has_passed or not self._cluster.was_reached:
            self._report_failure(error, is_final=False)
            self._retry_deadline = None
        pause = Deadline(self._backoff.next_ms())
        while not self._is_closing and not pause.has_passed:
            self._wakeup.wait(pause.remaining_ms)

    def _is_retriable(self, error: KafkaError | ClientError) -> bool:
        """Retry UNRELEASED_INSTANCE_ID too: a killed static member's session ends in time."""
        if isinstance(error, KafkaError) and error.code is ErrorCode.UNRELEASED_INSTANCE_ID:
            return self._retry_deadline is not None and not self._retry_deadline.has_passed
        return is_retriable(error)

    def _report_failure(self, error: Exception, *, is_final: bool) -> None:
        with self._lock:
            self._failure, self._is_failure_final = error, is_final
        self._reader_wakeup.signal()
