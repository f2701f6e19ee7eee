"""The thread that speaks with a group's coordinator for one member, while its reader works.

It has connections of its own, since a cluster is for one thread. What a machine wants to know it
asks; what may heal it tries again, for ever; what will not, or has not for too long, the reader
hears of with its next poll.
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

_MACHINES: dict[str, type[Membership]] = {CLASSIC: ClassicMembership, CONSUMER: ConsumerMembership}
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
    """`news` rings when the reader should look: a change, or something wrong."""

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
        self._machine: Membership | None = None
        if settings.protocol is not None:
            self._machine = _MACHINES[settings.protocol](settings, subscription)
        # The reader
        self._polled_ms = _now_ms()
        self._has_poll_timed_out = False
        self._failure: Exception | None = None
        self._is_failure_final = False
        # The effort to be heard
        self._backoff = Backoff()
        self._retry_deadline: Deadline | None = None
        self._is_closing = False
        self._thread = threading.Thread(target=self._run, name="sawlog-group", daemon=True)
        self._thread.start()

    # For the reader's thread

    def on_poll(self) -> None:
        """It is alive. KafkaError or ClientError where the group cannot be had."""
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
            return None if self._machine is None else self._machine.take_change()

    def change_applied(self, change: Change) -> None:
        with self._lock:
            if self._machine is not None:
                self._machine.change_applied(change)
        self._wakeup.signal()

    def identity(self) -> Identity | None:
        """As whom to commit; None where the group goes on without us."""
        with self._lock:
            machine = self._machine
            return machine.identity if machine is not None and machine.is_member else None

    def heartbeat_now(self) -> None:
        with self._lock:
            if self._machine is not None:
                self._machine.heartbeat_now()
        self._wakeup.signal()

    def subscribe(self, subscription: Subscription) -> None:
        with self._lock:
            self._subscription = subscription
            self._failure, self._is_failure_final = None, False
            if self._machine is not None:
                self._machine.subscribe(subscription)
        self._wakeup.signal()

    def end(self) -> None:
        """Has it leave the group and end, and does not wait for it."""
        if not self._fork_guard.is_same_process:
            return  # its thread is not here, and the member still is one elsewhere
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
                leave = None if self._machine is None else self._machine.leave_request()
            self._send_leave(leave)
        except Exception as error:  # a bug: the reader must not wait for ever
            _logger.exception("a member of a group failed", group=self._settings.group)
            self._report_failure(error, is_final=True)
        finally:
            self._cluster.close()
            self._wakeup.close()

    def _run_once(self) -> None:
        try:
            machine = self._machine or self._choose()
            if self._leave_if_poll_timed_out(machine):
                return
            with self._lock:
                request = None if self._is_silent else machine.next_request(_now_ms())
                wait_ms = self._rest_ms(machine)
            if request is None:
                self._wakeup.wait(wait_ms)
                return
            if isinstance(request, TopicLookup):
                topics = self._lookup_topics(request)
                with self._lock:
                    machine.on_topics(topics, _now_ms())
            else:
                answer = self._send(request)
                if answer is None:
                    return
                with self._lock:
                    machine.on_response(answer, _now_ms())
        except (KafkaError, ClientError) as error:
            if not self._falls_back_to_classic(error):
                self._failed(error)
        else:
            self._backoff, self._retry_deadline = Backoff(), None
            with self._lock:
                has_change = machine.has_change
            if has_change:
                self._reader_wakeup.signal()

    @property
    def _is_silent(self) -> bool:
        return self._has_poll_timed_out or self._is_failure_final

    def _rest_ms(self, machine: Membership) -> float:
        if self._is_silent:
            return _MAX_SLEEP_MS
        overdue_ms = self._polled_ms + self._settings.max_poll_interval_ms
        return min(max(0.0, min(machine.next_wakeup_ms(), overdue_ms) - _now_ms()), _MAX_SLEEP_MS)

    def _choose(self) -> Membership:
        """The consumer protocol where the coordinator offers it."""
        connection = self._coordinators.connection(self._settings.group)
        lowest = 0 if self._subscription.pattern is None else _FIRST_VERSION_WITH_PATTERNS
        try:
            offers = connection.version(ApiKey.CONSUMER_GROUP_HEARTBEAT) >= lowest
        except UnsupportedRequest:
            offers = False
        kind = _MACHINES[CONSUMER if offers else CLASSIC]
        with self._lock:
            self._machine = kind(self._settings, self._subscription)
            return self._machine

    def _falls_back_to_classic(self, error: KafkaError | ClientError) -> bool:
        """A broker may offer the consumer protocol and have it switched off, as Kafka 3.7 to 3.9
        do where nothing else is said: who may choose, and is no member yet, takes the other one.
        """
        if not isinstance(error, KafkaError) or error.code is not ErrorCode.UNSUPPORTED_VERSION:
            return False
        with self._lock:
            machine = self._machine
            has_chosen = self._settings.protocol is None and isinstance(machine, ConsumerMembership)
            if machine is None or not has_chosen or machine.is_member or machine.owned:
                return False
            self._machine = ClassicMembership(self._settings, self._subscription)
            return True

    def _leave_if_poll_timed_out(self, machine: Membership) -> bool:
        """Leaves the group where the reader has not polled for too long."""
        with self._lock:
            limit_ms = self._settings.max_poll_interval_ms
            if self._is_silent or _now_ms() - self._polled_ms < limit_ms:
                return False
            self._has_poll_timed_out = True
            leave = machine.leave_request()
            machine.fence()
        _logger.warning(
            "left a group: poll was not called in time; poll more often, take fewer records at"
            " once, or raise max_poll_interval_ms",
            group=self._settings.group,
            max_poll_interval_ms=limit_ms,
        )
        self._send_leave(leave)
        return True

    def _send(self, request: CoordinatorRequest) -> Any:
        """The coordinator's answer; None where the member is to end before it came."""
        group = self._settings.group
        connection = self._coordinators.connection(group)
        pending = connection.send(
            request.request, request.response_class, timeout_ms=request.timeout_ms
        )
        while (answer := connection.poll(pending)) is None:
            if self._is_closing:
                # A broker answers in order: on this one the last word would wait behind a join.
                connection.close()
                return None
            self._wakeup.wait(pending.deadline.remaining_ms, [connection.fileno()])
        error_code = getattr(answer, "error_code", 0)
        if error_code in _COORDINATOR_ERRORS:
            raise group_error(group, error_code, None)
        return answer

    def _lookup_topics(self, wanted: TopicLookup) -> Sequence[Topic]:
        if not wanted.ids:
            names = None if wanted.everything else wanted.names
            return list(self._cluster.fetch_metadata(names).topics.values())
        topics = [MetadataRequestTopic(topic_id=each, name=None) for each in sorted(wanted.ids)]
        request = MetadataRequest(topics=topics, allow_auto_topic_creation=False)
        answer = self._cluster.any_connection().request(request, MetadataResponse)
        return list(read_metadata(answer).topics.values())

    def _send_leave(self, leave: CoordinatorRequest | None) -> None:
        """Where it cannot be said, the session ends by itself."""
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
            if self._machine is not None:
                self._machine.on_no_response()
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
        """A static member that was killed keeps its name until its session ends."""
        if isinstance(error, KafkaError) and error.code is ErrorCode.UNRELEASED_INSTANCE_ID:
            return self._retry_deadline is not None and not self._retry_deadline.has_passed
        return is_retriable(error)

    def _report_failure(self, error: Exception, *, is_final: bool) -> None:
        with self._lock:
            self._failure, self._is_failure_final = error, is_final
        self._reader_wakeup.signal()
