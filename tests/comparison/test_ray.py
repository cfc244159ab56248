"""A comparison on a Ray cluster: two machines made of processes, one of which is lost."""

import sys
from pathlib import Path

import pytest
from ray.cluster_utils import Cluster

from command_line import run, succeed
from forked_commands import Forked
from small_comparison import COMMAND, await_cell, without_times

pytestmark = pytest.mark.slow


def test_the_report_survives_the_loss_of_a_machine(
    cluster: Cluster, places: dict[str, str], tmp_path: Path
) -> None:
    succeed(COMMAND, **places, out=tmp_path / "alone")
    lost = cluster.add_node(num_cpus=1)
    process = Forked(f"{COMMAND} --ray {cluster.address}", **places, out=tmp_path / "out")
    await_cell(process, tmp_path / "out")
    cluster.remove_node(lost, allow_graceful=False)
    ran = process.end()
    assert ran.code == 0, ran.err
    assert without_times(tmp_path / "out") == without_times(tmp_path / "alone")


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ("--ray 127.0.0.1:1", "--ray 127.0.0.1:1: no Ray cluster answers there"),
        ("--ray nonsense", "--ray nonsense: no Ray cluster answers there (it is not HOST:PORT)"),
        ("--ray auto --processes 2", "--ray and --processes are mutually exclusive"),
    ],
)
def test_a_cluster_that_cannot_be_used_is_refused(
    options: str, complaint: str, places: dict[str, str], tmp_path: Path
) -> None:
    ran = run(f"{COMMAND} {options}", **places, out=tmp_path / "out")
    assert ran.code == 2
    assert complaint in ran.said
    assert not (tmp_path / "out").exists() or not any((tmp_path / "out").iterdir())


def test_without_ray_its_package_is_named(
    places: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    ran = run(f"{COMMAND} --ray auto", **places, out=tmp_path / "out")
    assert ran.code == 2
    assert "pip install 'warmstart[ray]'" in ran.said
