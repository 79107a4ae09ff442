import multiprocessing
import sys

import pytest
import torch

from dmn4.methods import build_method
from dmn4.methods.threads import crew, share_out


@pytest.fixture(params=[1, 2, 3])
def threads(request):
    before = torch.get_num_threads()
    torch.set_num_threads(request.param)
    yield request.param
    torch.set_num_threads(before)


def test_blocks_come_back_in_their_order_without_a_graph(threads):
    blocks = torch.arange(40.0, requires_grad=True).split(3)

    def double(block, room):
        room[: len(block)] = 2 * block
        return room[: len(block)].clone(), torch.get_num_threads(), torch.is_grad_enabled()

    doubled, alone, graph = zip(*share_out(double, blocks, room=3), strict=True)
    assert torch.equal(torch.cat(doubled), 2 * torch.arange(40.0))
    assert set(alone) == {1}
    assert set(graph) == {False}
    assert torch.get_num_threads() == threads
    assert torch.is_grad_enabled()


def test_an_error_in_a_thread_reaches_the_caller_and_the_next_call_works(threads):
    def fail(block, room):
        raise ValueError("no such block")

    with pytest.raises(ValueError, match="no such block"):
        share_out(fail, torch.zeros(8).split(1), room=1)
    assert share_out(lambda block, room: len(block), torch.zeros(8).split(4), room=1) == [4, 4]


def test_scores_do_not_depend_on_the_number_of_threads(threads, monkeypatch):
    monkeypatch.setattr("dmn4.methods.blocks.CPU_BLOCK", 4 * 25 * 40)
    generator = torch.Generator().manual_seed(0)
    support, query = (torch.randn(n, 8, 5, 5, generator=generator, dtype=torch.float64) for n in (10, 12))
    labels = torch.arange(5).repeat(2)
    scores = [build_method(name)(support, labels, query) for name in ("dn4", "mn4", "dmn4")]
    torch.set_num_threads(1)
    for name, one in zip(("dn4", "mn4", "dmn4"), scores, strict=True):
        torch.testing.assert_close(one, build_method(name)(support, labels, query))


@pytest.mark.parametrize("name", ["dn4", "dn4:k=3", "mn4", "dmn4", "dmn4-semi", "mn4-semi"])
@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode, torch.enable_grad])
def test_threads_are_in_the_mode_of_the_caller(threads, monkeypatch, name, mode):
    monkeypatch.setattr("dmn4.methods.blocks.CPU_BLOCK", 4 * 25 * 40)
    name, _, k = name.partition(":k=")
    method = build_method(name, **({"k": int(k)} if k else {}))
    with mode():
        maps = torch.randn(17, 8, 5, 5, requires_grad=mode is torch.enable_grad)
        scores = method(maps[:5], torch.arange(5), maps[5:])
        scores += 1                                            # what came from a thread is as good as any other tensor
    assert scores.is_inference() == (mode is torch.inference_mode)
    assert scores.requires_grad == (mode is torch.enable_grad)


def test_threads_that_begin_later_have_as_many_as_before():
    before = torch.get_num_threads()
    crew(2)
    torch.set_num_threads(before)
    assert list(crew(2).map(lambda _: torch.get_num_threads(), range(4))) == [1] * 4
    assert torch.get_num_threads() == before


@pytest.mark.skipif(sys.platform == "win32", reason="no fork")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_fork_makes_its_own_threads():
    crew(2)
    with multiprocessing.get_context("fork").Pool(1) as child:
        assert child.apply_async(crew_sum).get(timeout=60) == 6


def crew_sum() -> int:
    return sum(crew(2).map(int, "123"))
