"""Generated messages behave like slots dataclasses and match the generator's output."""

import copy
import json
import zipfile
from pathlib import Path

import pytest

from sawlog.protocol.messages.fetch_response import LeaderIdAndEpoch, PartitionData
from sawlog.protocol.schema import parse_versions
from support.programs import require_java
from tools import generate_messages
from tools.generate_messages import MESSAGES, generate, snake_case
from tools.kafka_jars import CLIENTS_JAR


def test_fields_are_given_by_position_or_by_name_and_have_defaults() -> None:
    leader = LeaderIdAndEpoch(3, leader_epoch=7)
    assert (leader.leader_id, leader.leader_epoch) == (3, 7)
    assert PartitionData().current_leader == LeaderIdAndEpoch(-1, -1)
    assert PartitionData().aborted_transactions == []
    assert PartitionData(aborted_transactions=None).aborted_transactions is None
    assert PartitionData().records is None


def test_an_unknown_field_is_rejected() -> None:
    with pytest.raises(TypeError, match="leeder"):
        LeaderIdAndEpoch(leeder=1)  # type: ignore[call-arg]
    with pytest.raises(AttributeError):
        LeaderIdAndEpoch().leeder = 1  # type: ignore[attr-defined]


def test_messages_have_equality_and_repr() -> None:
    assert LeaderIdAndEpoch(1, 2) == LeaderIdAndEpoch(1, 2)
    assert LeaderIdAndEpoch(1, 2) != LeaderIdAndEpoch(1, 3)
    assert LeaderIdAndEpoch(1, 2) != (1, 2)
    assert repr(LeaderIdAndEpoch(1, 2)) == "LeaderIdAndEpoch(leader_id=1, leader_epoch=2)"
    assert copy.deepcopy(PartitionData(5)) == PartitionData(5)
    with pytest.raises(TypeError, match="unhashable"):
        hash(LeaderIdAndEpoch())


@pytest.mark.parametrize(
    ("text", "versions"),
    [("3-5", [3, 4, 5]), ("2", [2]), ("none", []), ("", []), ("32766+", [32766, 32767])],
)
def test_version_ranges_are_parsed(text: str, versions: list[int]) -> None:
    assert list(parse_versions(text)) == versions


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("ProducerId", "producer_id"),
        ("KRaftVersionRecord", "kraft_version_record"),
        ("Topics", "topics"),
        ("IsKRaft", "is_kraft"),
        ("SHA256Sum", "sha256_sum"),
    ],
)
def test_names_become_snake_case(name: str, expected: str) -> None:
    assert snake_case(name) == expected


def jar_with(directory: Path, *definitions: dict[str, object]) -> Path:
    jar = directory / "messages.jar"
    with zipfile.ZipFile(jar, "w") as archive:
        for definition in definitions:
            text = "// a comment\n" + json.dumps(definition, indent=1)
            archive.writestr(f"common/message/{definition['name']}.json", text)
    return jar


def test_a_definition_becomes_a_module(tmp_path: Path) -> None:
    fields = [
        {"name": "Count", "type": "int32", "versions": "0+", "default": "0x10", "about": "Prose."},
        {"name": "Old", "type": "bool", "versions": "0", "default": "true", "ignorable": True},
        {"name": "Things", "type": "[]Item", "versions": "1+", "nullableVersions": "1+"},
        {"name": "Maybe", "type": "Item", "versions": "1+", "nullableVersions": "1+"}
        | {"default": "null", "tag": 0, "taggedVersions": "1+"},
        {"name": "OnlyTagged", "type": "int8", "tag": 1, "taggedVersions": "1+"},
    ]
    item = [{"name": "Id", "type": "uuid", "versions": "1+"}]
    jar = jar_with(
        tmp_path,
        {"name": "ThingData", "type": "data", "validVersions": "0-1", "flexibleVersions": "1+"}
        | {"fields": fields, "commonStructs": [{"name": "Item", "versions": "1+", "fields": item}]},
        {"name": "GoneData", "type": "data", "validVersions": "none"},
    )
    files = generate([jar])
    assert sorted(files) == ["index.py", "thing_data.py"]
    assert files["thing_data.py"].splitlines()[2:] == [
        "from typing import ClassVar",
        "",
        "from sawlog.protocol.schema import NO_UUID, Message, Schema, field",
        "",
        "",
        "class Item(Message):",
        '    id: bytes = field("uuid", "1+", default=NO_UUID)',
        "",
        "",
        "class ThingData(Message):",
        '    SCHEMA: ClassVar[Schema] = Schema("data", "0-1", "1+")',
        "",
        '    count: int = field("int32", "0+", default=16)',
        '    old: bool = field("bool", "0", default=True, ignorable=True)',
        "    things: list[Item] | None = field(",
        '        "[]struct", "1+", default_factory=list, of=Item, nullable="1+"',
        "    )",
        "    maybe: Item | None = field(",
        '        "struct", "1+", default=None, of=Item, nullable="1+", tag=0, tagged="1+"',
        "    )",
        '    only_tagged: int = field("int8", "1+", default=0, tag=1, tagged="1+")',
    ]


def test_own_tagged_fields_are_added_to_the_struct_that_they_name(tmp_path: Path) -> None:
    partition = [{"name": "Partition", "type": "int32", "versions": "0+"}]
    topics = [{"name": "Partitions", "type": "[]FetchPartition", "versions": "0+"}]
    header = {"validVersions": "0-12", "flexibleVersions": "12+", "type": "data"}
    jar = jar_with(
        tmp_path,
        header | {"name": "FetchRequest", "fields": [topics[0] | {"fields": partition}]},
        header | {"name": "OtherData", "fields": [topics[0] | {"fields": partition}]},
    )
    files = generate([jar])
    own = '    flushed_offset: int = field("int64", "12+", default=-1, tag=10000, tagged="12+", '
    assert own + "ignorable=True)" in files["fetch_request.py"].splitlines()
    assert "flushed_offset" not in files["other_data.py"]


def test_a_field_that_would_shadow_a_type_is_rejected(tmp_path: Path) -> None:
    fields = [{"name": "Bytes", "type": "bytes", "versions": "0+"}]
    jar = jar_with(
        tmp_path,
        {"name": "BadData", "type": "data", "validVersions": "0", "flexibleVersions": "none"}
        | {"fields": fields},
    )
    with pytest.raises(ValueError, match="BadData: the field name 'bytes' is reserved"):
        generate([jar])


def test_the_generator_writes_modules_and_removes_old_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(generate_messages, "MESSAGES", tmp_path)
    (tmp_path / "__init__.py").touch()
    (tmp_path / "gone_request.py").touch()
    generate_messages.main([str(jar_with(tmp_path))])
    assert sorted(path.name for path in tmp_path.glob("*.py")) == ["__init__.py", "index.py"]
    with pytest.raises(SystemExit, match="usage"):
        generate_messages.main([])


@pytest.mark.long
def test_the_messages_match_the_jar() -> None:
    jars = Path(require_java().removesuffix("/*"))
    coordinators = [
        next(jars.glob(f"kafka-{kind}-coordinator-4*.jar")) for kind in ("group", "transaction")
    ]
    written = generate([CLIENTS_JAR, *coordinators])
    found = {path.name: path.read_text() for path in MESSAGES.glob("*.py")}
    assert found.pop("__init__.py") is not None
    assert found == written
