"""`sawlog groups list`, `describe` and `lag` against a running broker."""

import json
import signal
import subprocess
import sys

from support.cli.command_line import Sawlog, rows
from support.client.group_members import ClassicMember, ConsumerMember

TIMEOUT_S = 60


def test_groups_are_listed_with_state_and_members(
    sawlog: Sawlog, bootstrap: str, topic: str, idle: str
) -> None:
    with (
        ClassicMember(bootstrap, f"{idle}-classic", {topic: [0]}),
        ClassicMember(bootstrap, f"{idle}-connect", {topic: [0]}, protocol_type="connect"),
        ConsumerMember(bootstrap, f"{idle}-consumer", [topic]),
    ):
        listed = rows(sawlog("groups", "list"))
        assert listed[0] == ["group", "type", "state", "members", "protocol"]
        assert [each for each in listed if each[0].startswith(idle)] == [
            [idle, "classic", "Empty", "0", "-"],
            [f"{idle}-classic", "classic", "Stable", "1", "range"],
            [f"{idle}-connect", "classic", "Stable", "1", "connect/range"],
            [f"{idle}-consumer", "consumer", "Stable", "1", "uniform"],
        ]
        chosen = rows(sawlog("groups", "list", "--state", "stable", "--type", "Classic"))
        assert [each[0] for each in chosen if each[0].startswith(idle)] == [
            f"{idle}-classic",
            f"{idle}-connect",
        ]
        (entry,) = [
            each
            for each in sawlog.json("groups", "list", "--type", "consumer")
            if each["group"].startswith(idle)
        ]
        assert entry == {
            "group": f"{idle}-consumer",
            "type": "consumer",
            "state": "Stable",
            "members": 1,
            "protocol_type": "consumer",
            "protocol": "uniform",
        }


def test_classic_group_is_described(sawlog: Sawlog, bootstrap: str, topic: str, idle: str) -> None:
    with ClassicMember(bootstrap, idle, {topic: [0, 2]}) as member:
        shown = sawlog("groups", "describe", idle).splitlines()
    assert shown[:3] == [
        f"{idle}  classic, Stable, 1 member",
        f"  coordinator={bootstrap} (1)",
        "  assignor=range",
    ]
    table = rows("\n".join(shown[3:]))
    assert table == [
        ["member", "client", "host", "assigned"],
        [member.id, "classic-client", "127.0.0.1", f"{topic}:0,2"],
        ["topic", "partition", "committed", "end", "lag", "member"],
        [topic, "0", "2", "10", "8", member.id],
        [topic, "1", "2", "4", "2", "-"],
        [topic, "2", "-", "0", "-", member.id],
    ]


def test_consumer_group_is_described_with_epochs_and_targets(
    sawlog: Sawlog, bootstrap: str, topic: str, group: str
) -> None:
    with ConsumerMember(bootstrap, group, [topic], instance_id="one") as member:
        shown = sawlog("groups", "describe", group).splitlines()
        (described,) = sawlog.json("groups", "describe", group)
        epoch = member.epoch
    assert shown[3] == f"  epoch={epoch}  target epoch={epoch}"
    assert " ".join(shown[4].split()) == "member instance client host epoch assigned target"
    assert shown[5].split()[4:] == [str(epoch), f"{topic}:0,1,2", f"{topic}:0,1,2"]
    host, port = bootstrap.split(":")
    assert described["coordinator"] == {"node": 1, "host": host, "port": int(port)}
    assert described["members"] == [
        {
            "member": member.id,
            "instance": "one",
            "client": "consumer-client",
            "host": "127.0.0.1",
            "epoch": epoch,
            "assigned": {topic: [0, 1, 2]},
            "target": {topic: [0, 1, 2]},
        }
    ]


def test_missing_groups_are_reported_after_the_others(sawlog: Sawlog, idle: str) -> None:
    for command in (("describe",), ("lag", "--interval", "0")):
        assert idle in sawlog("groups", *command, idle, "nope", code=1)
        assert sawlog.stderr == (
            "sawlog: there is no group 'nope'; check the name (GROUP_ID_NOT_FOUND)\n"
        )


def test_lag_has_rates_and_the_time_to_catch_up(
    sawlog: Sawlog, bootstrap: str, topic: str, idle: str
) -> None:
    table = sawlog("groups", "lag", idle, "--interval", "0").splitlines()
    assert table[0] == f"{idle}  Empty, no members"
    first = f"{topic} 0 2 10 8 - - unknown (measured once) -"
    assert " ".join(table[2].split()) == first
    assert "total lag=10  read/s=unknown  written/s=unknown" in table[4]
    (entry,) = sawlog.json("groups", "lag", idle, "--interval", "0.01")
    assert entry["lag"] == 10
    assert entry["trend"] == "no_members"
    assert entry["partitions"][0]["read_per_s"] == 0.0
    with ClassicMember(bootstrap, idle, {topic: [0, 2]}) as member:
        (entry,) = sawlog.json("groups", "lag", idle, "--interval", "0.01")
    assert entry["trend"] == "no_commits"
    assert [each["member"] for each in entry["partitions"]] == [member.id, None, member.id]
    assert entry["unknown_partitions"] == 1


def test_lag_of_all_groups(sawlog: Sawlog, topic: str, idle: str) -> None:
    sawlog("groups", "reset", f"{idle}-too", "--topic", topic, "--to-latest", "--execute")
    found = {
        each["group"]: each["lag"]
        for each in sawlog.json("groups", "lag", "--all", "--interval", "0")
    }
    assert (found[idle], found[f"{idle}-too"]) == (10, 0)


def test_watch_shows_lag_until_the_group_is_deleted(
    sawlog: Sawlog, bootstrap: str, topic: str, idle: str
) -> None:
    command = [sys.executable, "-m", "sawlog.cli.main", "groups", "lag", idle, "--json"]
    watching = subprocess.Popen(
        [*command, "--watch", "0.05", "-b", bootstrap], stdout=subprocess.PIPE, text=True
    )
    assert watching.stdout is not None
    try:
        (first,) = json.loads(watching.stdout.readline())
        assert (first["lag"], first["trend"]) == (10, "measured_once")
        sawlog("groups", "reset", idle, "--all-topics", "--shift-by", "1", "--execute")
        seen = (json.loads(line)[0] for line in watching.stdout)
        moved = next(each for each in seen if each["lag"] == 8)
        assert moved["trend"] == "catching_up"
        assert moved["catch_up_s"] is not None  # 0.0 if the measurements were milliseconds apart
        sawlog("groups", "delete", idle)
        assert watching.wait(TIMEOUT_S) == 1
    finally:
        watching.kill()
        watching.communicate()


def test_ctrl_c_ends_watch(bootstrap: str, idle: str) -> None:
    command = [sys.executable, "-m", "sawlog.cli.main", "groups", "lag", idle, "--watch"]
    watching = subprocess.Popen(
        [*command, "-b", bootstrap], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert watching.stdout is not None
    watching.stdout.readline()
    watching.send_signal(signal.SIGINT)
    assert watching.communicate(timeout=TIMEOUT_S)[1].strip() == ""
    assert watching.returncode == 130


def test_group_without_committed_offsets_is_described(
    sawlog: Sawlog, bootstrap: str, group: str
) -> None:
    with ClassicMember(bootstrap, group, {}, protocol_type="connect"):
        assert sawlog("groups", "describe", group).splitlines()[-1] == "  no committed offsets"
