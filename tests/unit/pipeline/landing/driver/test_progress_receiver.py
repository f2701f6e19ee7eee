"""Progress of tasks reaches the driver by datagrams, and becomes events about batches."""

import socket

from sawlog.pipeline.landing.driver.progress_receiver import ProgressReceiver
from sawlog.pipeline.landing.task.progress_report import (
    ProgressAddress,
    ProgressSender,
    encode_report,
)
from support.pipeline.landing import RecordedEvents
from support.process import wait_until

HOST = "127.0.0.1"


def send(receiver: ProgressReceiver, task: int, planned: int, *reports: int) -> None:
    sender = ProgressSender(receiver.address, task, planned)
    for read in reports:
        sender.report(read)
    sender.close()


def test_reports_of_tasks_become_events_until_the_batch_has_ended() -> None:
    events = RecordedEvents()
    with ProgressReceiver(HOST, HOST, events) as receiver:
        receiver.began("t", {7: 100, 8: 50})
        send(receiver, 7, 100, 0, 100)
        wait_until(lambda: any(batch.read == 100 for _, batch in events.progress))
        send(receiver, 8, 50, 0, 50)
        receiver.all_read("t")
        receiver.ended("t")
        count = len(events.progress)
        receiver.began("u", {9: 10})
        wait_until(lambda: len(events.progress) > count)
    table, last = events.progress[count - 1]
    assert (table, last.read, last.planned) == ("t", 150, 150)
    assert last.records_per_s > 0
    assert {table for table, _ in events.progress[count:]} == {"u"}


def test_only_reports_with_the_token_count() -> None:
    events = RecordedEvents()
    with ProgressReceiver(HOST, HOST, events) as receiver:
        assert receiver.address is not None
        receiver.began("t", {7: 100})
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as stranger:
            for data in (b"", b"?" * 5_000, encode_report(bytes(16), 7, 90)):
                stranger.sendto(data, (HOST, receiver.address.port))
        receiver.all_read("t")
    assert events.progress[-1][1].records_per_s == 0.0


def test_a_task_does_not_notice_that_nothing_listens() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as closed:
        closed.bind((HOST, 0))
        port = closed.getsockname()[1]
    for address in (ProgressAddress(HOST, port, bytes(16)), ProgressAddress("", -1, b""), None):
        sender = ProgressSender(address, 1, 3)
        for read in range(4):
            sender.report(read)
        sender.close()


def test_a_driver_without_an_address_to_listen_at_still_reports_batches() -> None:
    events = RecordedEvents()
    with ProgressReceiver("192.0.2.1", "192.0.2.1", events) as receiver:
        assert receiver.address is None
        receiver.began("t", {7: 100})
        wait_until(lambda: bool(events.progress))
        receiver.all_read("t")
    assert events.progress[0][1].read == 0
    assert events.progress[-1][1].read == 100
