"""A Ray cluster of two nodes on this machine, each with its own object store; workers and nodes that die."""

import os
import signal
import time
from contextlib import contextmanager
from pathlib import Path

import pyarrow.parquet as pq
import pytest
import torch
from test_reproduce import toy_sheet
from toy_bulk import CRASH, as_folder, path_with_crashes, pictures, small_model

import dmn4
from dmn4 import InputError, predict_many
from dmn4.backbones import build_backbone
from dmn4.bulk.embed import embedder
from dmn4.cli import main
from dmn4.data.samples import draw_clutter
from dmn4.episodes.maps import embed_all
from dmn4.episodes.stored import store_maps
from dmn4.files import load_tensors, read_json
from dmn4.images import Transform
from dmn4.reproduce import Workshop
from dmn4.reproduce.crew import on_ray
from dmn4.reproduce.workshop import measure_sheet
from dmn4.training.checkpoints import save_backbone

pytestmark = pytest.mark.cluster
COUNT = 2000


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    os.environ.update(RAY_USAGE_STATS_ENABLED="0", RAY_worker_niceness="0",
                      PYTHONPATH=path_with_crashes(tmp_path_factory.mktemp("path")))
    ray = pytest.importorskip("ray")
    from ray.cluster_utils import Cluster

    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "object_store_memory": 100_000_000})
    cluster.node = cluster.add_node(num_cpus=1, object_store_memory=100_000_000)
    cluster.wait_for_nodes()
    yield cluster
    ray.shutdown()
    cluster.shutdown()


@pytest.fixture(scope="module")
def home(tmp_path_factory) -> Path:
    home = tmp_path_factory.mktemp("home")
    small_model(home, "dmn4-linear").rename(home / "model.dmn4")
    as_folder(home / "inbox", pictures(COUNT))
    predict_many(home / "model.dmn4", home / "inbox", home / "local", workers=0, rows_per_part=20)
    return home


def workers(doing: bytes = b"ray::judge_there") -> list[int]:
    """The processes below this one that do something for Ray."""
    parents, judging = {}, []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            title, status = (folder / "cmdline").read_bytes(), (folder / "stat").read_text()
        except OSError:
            continue
        parents[int(folder.name)] = int(status.rpartition(")")[2].split()[1])
        if title.startswith(doing):
            judging.append(int(folder.name))
    return [process for process in judging if os.getpid() in lineage(process, parents)]


def lineage(process: int, parents: dict[int, int]) -> list[int]:
    above = []
    while process := parents.get(process, 0):
        above.append(process)
    return above


def test_every_row_is_there_once_and_equal_to_the_bit_whatever_dies(cluster, home, tmp_path):
    events = []

    def disturb(rows: int, total: int) -> None:
        if rows > 200 and not events and (busy := workers()):       # on a loaded machine all may be idle for a moment
            os.kill(busy[0], signal.SIGKILL)
            events.append("a worker was killed")
        elif rows > 600 and len(events) == 1:
            cluster.remove_node(cluster.node, allow_graceful=False)
            events.append("a node left")
        elif rows > 1000 and len(events) == 2:
            cluster.node = cluster.add_node(num_cpus=1, object_store_memory=100_000_000)
            events.append("a node joined")

    done = predict_many(home / "model.dmn4", home / "inbox", tmp_path / "out", engine="ray", address=cluster.address,
                        rows_per_part=20, seen=disturb)
    assert events == ["a worker was killed", "a node left", "a node joined"]
    assert done.count == COUNT
    assert pq.read_table(tmp_path / "out") == pq.read_table(home / "local")


def test_a_picture_that_kills_every_worker_is_a_row(cluster, home, tmp_path):
    names = list(pictures(20))
    inbox = as_folder(tmp_path / "inbox", pictures(20) | {names[5]: CRASH})
    done = predict_many(home / "model.dmn4", inbox, tmp_path / "out", engine="ray", address=cluster.address)
    rows = pq.read_table(tmp_path / "out").to_pylist()
    assert [Path(row["path"]).name for row in rows if "its decoder crashes" in (row["error"] or "")] == [names[5]]
    assert (done.count, done.errors) == (20, 3)


def test_a_cluster_without_room_for_a_worker_is_refused_in_one_line(cluster, home, tmp_path):
    with pytest.raises(InputError, match=r"a worker needs 1 CPU and 0.5 GPU on one node; the cluster has 1 CPU \+ 0"):
        predict_many(home / "model.dmn4", home / "inbox", tmp_path / "out", engine="ray", address=cluster.address,
                     gpus_per_worker=0.5)


def test_a_mistake_on_a_worker_is_one_line(cluster, home, tmp_path, monkeypatch):
    (tmp_path / "a.dmn4").write_bytes((home / "model.dmn4").read_bytes()[:-100])
    with pytest.raises(InputError, match=r"^cannot read model file .* damaged") as error:
        predict_many(tmp_path / "a.dmn4", home / "inbox", tmp_path / "out", engine="ray", address=cluster.address)
    assert "\n" not in str(error.value)


def test_an_evaluation_on_the_cluster_has_the_same_card(cluster, tmp_path):
    for number, place in enumerate(([], ["--engine", "ray", "--address", cluster.address])):
        main(["evaluate", "drawn", "--method", "dmn4", "--method", "protonet", "--episodes", "600", "--queries", "2",
              "--weights", str(backbone(tmp_path)), "-o", str(tmp_path / str(number)), *place])
    cards = [read_json(tmp_path / str(number) / "card.json") for number in range(2)]
    for card in cards:
        for name in ("seconds", "date", "command"):
            del card[name]
    assert cards[0] == cards[1]
    accuracies = [load_tensors(tmp_path / str(number) / "accuracies.safetensors")[0] for number in range(2)]
    assert all(torch.equal(accuracies[0][name], accuracies[1][name]) for name in ("dmn4", "protonet"))


def test_a_data_set_embedded_on_the_cluster_has_the_same_maps(cluster):
    images, look = draw_clutter(5, 40, 0.2, 24), Transform(24)
    torch.manual_seed(0)
    network = build_backbone("conv4", width=0.125).eval()
    with embedder("ray", cluster.address) as embed:
        kept = store_maps(network, images, look, embed=embed)
    assert torch.equal(kept.values, embed_all(network, images, look).values)


def test_the_cells_of_a_table_are_tasks_and_a_worker_may_die(cluster, tmp_path, monkeypatch):
    def killing(workshop, steps):
        @contextmanager
        def ahead():
            with on_ray(cluster.address, None, 0, workshop, steps) as wait:
                while not (busy := workers(b"ray::work_there")):
                    time.sleep(0.02)
                os.kill(busy[0], signal.SIGKILL)
                yield wait
        return ahead()

    monkeypatch.chdir(tmp_path)
    alone = measure_sheet(toy_sheet, Workshop(Path("a"), "tiny", {}, shown=False), "toy")
    spread = measure_sheet(toy_sheet, Workshop(Path("b"), "tiny", {}, shown=False, crew=killing), "toy")
    assert spread.read_text().replace("b/cards", "a/cards") == alone.read_text()


def backbone(folder: Path) -> Path:
    torch.manual_seed(0)
    save_backbone(folder / "narrow.safetensors", build_backbone("conv4", width=0.125), {})
    return folder / "narrow.safetensors"


def test_a_pipeline_of_ray_data_gives_the_same_verdicts(cluster, home):
    ray = pytest.importorskip("ray")
    while len([node for node in cluster.list_all_nodes() if node]) < 2:
        time.sleep(0.2)
    ray.init(address=cluster.address, log_to_driver=False)
    some = sorted(map(str, (home / "inbox").iterdir()))[:60]
    said = ray.data.read_binary_files(some, include_paths=True).map_batches(
        dmn4.RayPredictor, fn_constructor_args=[str(home / "model.dmn4")], batch_size=20, concurrency=1)
    rows = {row["path"]: (row["verdict"], row["probability"]) for row in said.take_all()}
    ray.shutdown()
    local = {row["path"]: (row["verdict"], row["probability"]) for row in pq.read_table(home / "local").to_pylist()}
    assert rows == {path: local[path] for path in some}
