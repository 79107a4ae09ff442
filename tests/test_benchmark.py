import json
import os
import threading
import time
from dataclasses import asdict, fields

import pytest
import reference
import torch

from dmn4.benchmark import evaluation, heads, ratios
from dmn4.benchmark.bulk import Rates
from dmn4.benchmark.classes import benchmark_classes
from dmn4.benchmark.heads import Case, benchmark_heads
from dmn4.benchmark.race import Figures, busy_share, peak_memory, race
from dmn4.benchmark.service import Load
from dmn4.benchmark.yardsticks import bare_products, dense_scores
from dmn4.data.samples import draw_clutter
from dmn4.episodes.scoring import right_shares
from dmn4.evaluation.contenders import load_trained
from dmn4.evaluation.split import EmbeddedSplit
from dmn4.files import read_json, write_json
from dmn4.methods import METHODS, build_method


@pytest.fixture(autouse=True)
def short(monkeypatch):
    monkeypatch.setattr("dmn4.benchmark.race.ENOUGH", 0.0)


@pytest.mark.parametrize(("name", "rule"), [("dn4", "all"), ("mn4", "mnn"), ("dmn4", "dmnn")])
def test_the_dense_contestant_computes_the_same_scores(name, rule):
    generator = torch.Generator().manual_seed(0)
    support, query = torch.randn(6, 5, 3, 3, generator=generator), torch.randn(4, 5, 3, 3, generator=generator)
    labels = torch.arange(3).repeat_interleave(2)
    dense = dense_scores(support, labels, query, name)
    torch.testing.assert_close(dense, reference.dense_scores(support, labels, query, rule))
    torch.testing.assert_close(dense, build_method(name)(support, labels, query))


def test_peak_memory_counts_what_is_held_at_a_time():
    def run():
        for _ in range(3):
            torch.empty(1000, 1000)                       # 4 MB, freed each time
    assert peak_memory(run) == pytest.approx(4e6, rel=0.01)


def test_a_race_divides_by_the_floor_of_the_same_round():
    seen = []
    runners = {name: lambda name=name: seen.append(name) for name in ("floor", "dmn4", "dmn4 dense")}
    figures = race(runners, rounds=3)
    assert seen[-9:] == ["floor", "dmn4", "dmn4 dense"] * 3
    assert figures["floor"].floor_ratio == 1.0
    assert figures["dmn4"].dense_ratio is not None
    assert figures["dmn4 dense"].dense_ratio is None


def test_a_short_race_goes_on_for_a_while(monkeypatch):
    monkeypatch.setattr("dmn4.benchmark.race.ENOUGH", 60.0)
    assert len(race({"floor": lambda: None}, rounds=3)["floor"].seconds) == 15


def test_the_floor_is_nothing_but_the_products(monkeypatch):
    products = []
    real = torch.mm
    monkeypatch.setattr(torch, "mm", lambda a, b, out: products.append((a.shape, b.shape)) or real(a, b, out=out))
    support, query = torch.randn(2, 4, 3, 3), torch.randn(5, 4, 3, 3)
    bare_products(support, torch.arange(2), query)()
    assert products == [((45, 4), (4, 18))]


@pytest.mark.parametrize(("ways", "shots"), [(5, 2), (25, 1)])
def test_a_case_has_one_map_a_shot_and_fifteen_queries_for_five_classes(ways, shots):
    support, labels, query = Case("small", "conv4", ways, shots).maps()
    assert support.shape == (ways * shots, 64, 19, 19)
    assert labels.bincount().tolist() == [shots] * ways
    assert query.shape == (75, 64, 19, 19)


def test_the_command_prints_a_table_and_writes_every_figure(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(heads, "CASES", [Case("deep 2-way", "resnet12", 2, 1)])
    monkeypatch.setattr(Case, "maps", lambda self: (torch.randn(5, 8, 3, 3), torch.arange(5), torch.randn(75, 8, 3, 3)))
    benchmark_heads(1, tmp_path / "figures.json", [], ["dmn4", "protonet"])
    written = json.loads((tmp_path / "figures.json").read_text())
    assert set(written["cases"]["deep 2-way"]) == {"floor", "dmn4", "dmn4 train", "dmn4 dense", "dmn4 dense train",
                                                   "protonet", "protonet train"}
    assert "x floor" in capsys.readouterr().out


def test_a_busy_machine_is_noticed():
    def spin(until: float) -> None:
        while time.perf_counter() < until:
            pass

    busy = threading.Thread(target=spin, args=(time.perf_counter() + 0.8,))
    busy.start()
    assert busy_share(0.5) > 0.9 / (os.cpu_count() or 1) * 0.5
    busy.join()


def test_an_episode_over_stored_maps_is_timed_beside_its_head_and_beside_embedding(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(evaluation, "CASES", {"protonet 1-shot": (["protonet"], 1)})
    found = evaluation.benchmark_evaluation(2, tmp_path / "figures.json")["protonet 1-shot"]
    assert 0 < found.head < found.stored < found.embedded
    assert found.embedded_ratio == pytest.approx(found.embedded / found.stored)
    assert json.loads((tmp_path / "figures.json").read_text())["cases"]["protonet 1-shot"]["plain"] == found.plain
    assert "beyond head" in capsys.readouterr().out


def test_embedding_anew_and_heads_alone_give_the_accuracies_of_the_stored_maps():
    trained = load_trained()
    contenders = {name: trained.with_method(name) for name in evaluation.FOUR}
    table = EmbeddedSplit(draw_clutter(6, 17, size=84, seed=0), contenders, shots=1)
    stored = evaluation.over_the_store(table)()
    assert list(stored) == ["protonet", "dmn4", "mn4", "dn4"]
    torch.testing.assert_close(evaluation.embedding_anew(table, table.backbone)(), stored)
    [alone] = evaluation.head_alone(table)()
    episode = next(evaluation.episodes(table))
    torch.testing.assert_close(right_shares({name: score[None] for name, score in alone.items()}, [episode]), stored)


def test_every_method_takes_part(tmp_path, monkeypatch):
    generator = torch.Generator().manual_seed(0)
    small = torch.randn(5, 8, 3, 3, generator=generator), torch.arange(5), torch.randn(75, 8, 3, 3, generator=generator)
    monkeypatch.setattr(Case, "maps", lambda case: small)
    monkeypatch.setattr(heads, "CASES", [Case("small", "conv4", 5, 1)])
    found = benchmark_heads(1, tmp_path / "figures.json", [], [])["cases"]["small"]
    assert {name.split()[0] for name in found} == {"floor", *METHODS}
    assert {"dmn4 train", "protonet train", "deepemd train", "frn train"} <= found.keys()


def test_the_floor_of_many_pictures_is_the_network_and_the_unpacking_in_turn():
    rates = Rates(network=[60.0], unpacking=[30.0], decoding=[25.0], bulk=[16.0])
    assert rates.floors == [20.0]
    assert rates.ratio == 1.25
    assert "predict_many 16.0: 0.80 of the floor, 0.27 of the bare network" in rates.text


def test_all_benchmarks_become_ratios_to_their_floors(tmp_path, monkeypatch):
    def writes(facts):
        return lambda *arguments, out=None, **others: write_json(out or arguments[1], facts)

    figures = {name: asdict(Figures([1.0], ratio)) for name, ratio in
               (("floor", 1.0), ("dmn4", 1.2), ("dmn4 train", 1.7), ("dmn4 dense", 6.0))}
    cost = evaluation.Cost(head=0.1, stored=0.1, embedded=0.2, plain=0.3, beyond=0.04, embedded_ratio=2, plain_ratio=3)
    monkeypatch.setattr(ratios, "benchmark_heads", writes({"cases": {"conv4 5-way 1-shot": figures}}))
    monkeypatch.setattr(ratios, "benchmark_evaluation", writes({"cases": {"dmn4 1-shot": asdict(cost)}}))
    monkeypatch.setattr(ratios, "benchmark_classes",
                        lambda ways, rounds, out: write_json(out, {"classes": {str(ways[-1]): {"ratio": 1.1}}}))
    rates = Rates(network=[8.0, 9.0], unpacking=[8.0, 18.0], decoding=[7.0, 16.0], bulk=[4.0, 3.0])
    monkeypatch.setattr(ratios, "benchmark_bulk", writes({"rates": asdict(rates)}))
    load = {field.name: 1 for field in fields(Load)} | {"floor": 30.0, "answers": 20.0}
    monkeypatch.setattr(ratios, "load_test", writes(load))
    found = ratios.benchmark_all(2, tmp_path / "all.json")
    assert json.loads((tmp_path / "all.json").read_text())["ratios"] == found == {
        "scores": {"dmn4, conv4 5-way 1-shot": 1.2}, "training step": {"dmn4, conv4 5-way 1-shot": 1.7},
        "evaluation": {"dmn4 1-shot": 1.04}, "answer": {"1,000 classes": 1.1}, "many pictures": {"predict_many": 1.5},
        "service": {"predictions": 1.5}}


def test_classifiers_of_few_and_of_many_classes_are_learnt_kept_and_asked(tmp_path):
    costs = benchmark_classes([3, 14], 1, tmp_path / "classes.json")
    assert read_json(tmp_path / "classes.json")["classes"] == costs
    few, many = costs["3"], costs["14"]
    assert many["file_mb"] > 4 * few["file_mb"]
    for cost in costs.values():
        assert cost["fit_ratio"] == pytest.approx(cost["fit"] / cost["embedding"])
        assert cost["ratio"] == pytest.approx(cost["answer"] / cost["backbone"])
        assert cost["answered_mb"] > 100
