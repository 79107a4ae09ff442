import numpy as np
import pytest
import torch
from test_evaluate import IMAGES, enter

from dmn4 import InputError
from dmn4.backbones import build_backbone
from dmn4.bulk import play
from dmn4.bulk.play import Game, in_order, player
from dmn4.evaluation.evaluate import Protocol, evaluate

PROTOCOL = Protocol(ways=3, shots=1, queries=2, episodes=20, repeats=2)


def play_in_pieces(splits, protocol, labels, numbers):
    """As a cluster does it, the last piece first."""
    game = Game.of(splits, protocol, labels)
    for split in (*game.splits, *splits):
        split.__dict__.pop("images", None)                    # nobody needs the pictures any more
    bounds = [(start, min(start + 7, numbers.stop)) for start in numbers[::7]]
    yield from in_order([(start, game.play(start, stop)) for start, stop in reversed(bounds)],
                        [start for start, _ in bounds])


@pytest.mark.parametrize("methods", [["dmn4", "dn4", "protonet"], ["protonet", "meta-baseline"]])
def test_episodes_played_in_pieces_and_in_any_order_have_the_same_accuracies(methods):
    torch.manual_seed(0)
    contenders = enter(build_backbone("conv4", width=0.125).eval(), *methods)
    plain, pieces = (evaluate(IMAGES, contenders, PROTOCOL, shown=False, play=who)
                     for who in (play.play_here, play_in_pieces))
    for name in methods:
        assert np.array_equal(plain.values[name], pieces.values[name])
        assert len(set(plain.values[name].ravel().tolist())) > 2


def test_results_come_in_order_however_they_arrive():
    arriving = [(4, "c"), (0, "a"), (6, "d"), (2, "b")]
    assert list(in_order(arriving, [0, 2, 4, 6])) == ["a", "b", "c", "d"]


def test_only_a_cluster_takes_an_address():
    assert player() is play.play_here
    with pytest.raises(InputError, match="--address and --workers are for --engine ray"):
        player("local", "auto")
    with pytest.raises(InputError, match="unknown engine 'dask'; choose one of local, ray"):
        player("dask")
