from __future__ import annotations

import pytest

from kubekit.errors import Unreadable
from kubekit.resources import ConfigMap, ObjectMeta
from kubekit.store import Store
from kubekit.wire import Undecodable


def config(name: str, version: str = "1", *, uid: str = "u", **labels: str) -> ConfigMap:
    return ConfigMap(
        metadata=ObjectMeta(name=name, namespace="ns", uid=uid, resource_version=version, labels=labels)
    )


def broken(name: str, version: str = "1") -> Undecodable:
    return Undecodable(
        kind=ConfigMap.KIND,
        metadata=ObjectMeta(name=name, namespace="ns", resource_version=version),
        error="Expected int",
    )


def by_team(item: ConfigMap) -> list[str]:
    return [item.metadata.labels["team"]] if "team" in item.metadata.labels else []


def test_a_list_reports_new_changed_and_vanished_objects_once() -> None:
    store: Store[ConfigMap] = Store("ConfigMap")
    store.replace([config("same"), config("changed"), config("gone")])
    changes = store.replace([config("same"), config("changed", "2"), config("new")])
    assert {(change.key[1], change.before is None, change.after is None) for change in changes} == {
        ("changed", False, False),
        ("gone", False, True),
        ("new", True, False),
    }
    assert store.replace([config("same"), config("changed", "2"), config("new")]) == []


def test_a_re_created_object_of_the_same_version_number_is_a_change() -> None:
    store: Store[ConfigMap] = Store("ConfigMap")
    store.replace([config("a", uid="one")])
    (change,) = store.replace([config("a", uid="two")])
    assert change.before is not None
    assert change.after is not None
    assert change.after.metadata.uid == "two"


def test_an_index_follows_changes_and_deletions() -> None:
    store: Store[ConfigMap] = Store("ConfigMap", {"team": by_team})
    store.replace([config("a", team="red"), config("b", team="red"), config("c")])
    assert [item.metadata.name for item in store.by("team", "red")] == ["a", "b"]
    store.apply(config("a", "2", team="blue"))
    store.remove(("ns", "b"))
    assert store.by("team", "red") == []
    assert [item.metadata.name for item in store.by("team", "blue")] == ["a"]


def test_an_index_added_later_knows_what_is_there() -> None:
    store: Store[ConfigMap] = Store("ConfigMap")
    store.replace([config("a", team="red")])
    store.add_index("team", by_team)
    assert [item.metadata.name for item in store.by("team", "red")] == ["a"]


def test_two_indexes_of_one_name_are_refused() -> None:
    store: Store[ConfigMap] = Store("ConfigMap", {"team": by_team})
    store.add_index("team", by_team)
    with pytest.raises(ValueError, match="already"):
        store.add_index("team", lambda _: [])


def test_an_undecodable_object_is_neither_absent_nor_deletable_by_a_list() -> None:
    store: Store[ConfigMap] = Store("ConfigMap")
    store.replace([config("good"), broken("bad")])
    assert store.list() == [config("good")]
    with pytest.raises(Unreadable, match="ns/bad"):
        store.get("ns", "bad")
    with pytest.raises(Unreadable):
        store.require_whole()


def test_an_object_that_becomes_decodable_again_is_whole() -> None:
    store: Store[ConfigMap] = Store("ConfigMap", {"team": by_team})
    store.replace([config("a", team="red")])
    change = store.apply(broken("a", "2"))
    assert change is not None
    assert change.before is not None
    assert store.by("team", "red") == []
    assert store.apply(config("a", "3", team="red")) is not None
    store.require_whole()
    assert len(store) == 1


def test_an_undecodable_object_that_vanishes_is_reported() -> None:
    store: Store[ConfigMap] = Store("ConfigMap")
    store.replace([broken("bad")])
    (change,) = store.replace([])
    assert change.metadata.name == "bad"
    assert change.sides == ()
    store.require_whole()


def by_flawed_team(item: ConfigMap) -> list[str]:
    return [item.metadata.labels["team"]]


def test_an_object_for_which_an_index_fails_is_unreadable_and_the_others_are_not() -> None:
    store: Store[ConfigMap] = Store("ConfigMap", {"flawed": by_flawed_team})
    changes = store.replace([config("good", team="red"), config("bad")])
    assert {change.key[1]: change.after is None for change in changes} == {"good": False, "bad": True}
    assert [item.metadata.name for item in store.by("flawed", "red")] == ["good"]
    assert "flawed" in store.undecodable["ns", "bad"].error
    with pytest.raises(Unreadable, match="KeyError"):
        store.require_whole()
    assert store.replace([config("good", team="red"), config("bad")]) == [], "it is told once"


def test_an_object_leaves_a_failing_index_and_comes_back() -> None:
    store: Store[ConfigMap] = Store("ConfigMap")
    store.replace([config("a", team="red"), config("b")])
    store.add_index("flawed", by_flawed_team)
    assert [*store.undecodable] == [("ns", "b")]
    store.apply(config("a", "2"))
    assert store.by("flawed", "red") == []
    store.apply(config("b", "2", team="red"))
    assert [item.metadata.name for item in store.by("flawed", "red")] == ["b"]
    assert [*store.undecodable] == [("ns", "a")]
