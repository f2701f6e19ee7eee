"""The tree in memory: undo, replay and dump agree with the applied operations."""

from hypothesis import given
from hypothesis import strategies as st

from sawlog.cluster.store_tree import StoreTree
from sawlog.core.store import Check, Create, Delete, Operation, SetData, StoreError

NAMES = st.sampled_from(["/a", "/b", "/a/x", "/a/y", "/b/x", "/a/x/deep", "/s/"])
DATA = st.binary(max_size=3)
VERSIONS = st.integers(-1, 2)
OPERATIONS: st.SearchStrategy[Operation] = st.one_of(
    st.builds(Create, NAMES, DATA, st.booleans(), st.booleans()),
    st.builds(SetData, NAMES, DATA, VERSIONS),
    st.builds(Delete, NAMES, VERSIONS),
    st.builds(Check, NAMES, VERSIONS),
)
MULTIS = st.lists(st.lists(OPERATIONS, min_size=1, max_size=5), max_size=25)


def dump(tree: StoreTree) -> list[tuple[object, ...]]:
    return sorted(tree.dump())


@given(MULTIS)
def test_a_failed_or_undone_multi_changes_nothing(multis: list[list[Operation]]) -> None:
    tree = StoreTree()
    for operations in multis:
        before, number = dump(tree), tree.number
        try:
            applied = tree.apply(operations, owner=5)
        except StoreError:
            assert (dump(tree), tree.number) == (before, number)
            continue
        assert applied.number == number + 1
        after = dump(tree)
        tree.undo()
        assert (dump(tree), tree.number) == (before, number)
        tree.apply(operations, owner=5)
        assert dump(tree) == after


@given(MULTIS)
def test_replay_and_load_give_the_same_tree(multis: list[list[Operation]]) -> None:
    tree, copy = StoreTree(), StoreTree()
    for operations in multis:
        try:
            applied = tree.apply(operations, owner=7)
        except StoreError:
            continue
        copy.replay(applied.number, applied.changes)
    assert dump(copy) == dump(tree)
    loaded = StoreTree.load(tree.number, [list(node) for node in tree.dump()])
    assert dump(loaded) == dump(tree)
    for path, *_ in tree.dump():
        assert loaded.children(path) == tree.children(path)
        assert loaded.get(path) == tree.get(path)
    assert sorted(loaded.ephemerals()) == sorted(tree.ephemerals(7))
