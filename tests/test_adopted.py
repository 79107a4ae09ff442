"""The picture of adoption: where adopted patches lie, who took them, and how many came from distractors."""

import numpy as np
import torch
from PIL import Image

from dmn4.episodes.sampling import sample_episodes
from dmn4.methods.mn4_semi import MN4Semi
from dmn4.reproduce.adopted import DISTRACTOR, Adopted, draw_adopted, find_adopted, outline, tally, true_classes


def test_adopted_descriptors_are_found_again_where_they_came_from():
    support = torch.tensor([[[[1.0, 0.0]], [[0.0, 1.0]]], [[[-1.0, 0.0]], [[0.0, -1.0]]]])        # (2, 2, 1, 2)
    unlabelled = torch.zeros(2, 2, 1, 2)
    unlabelled[1, :, 0, 1] = torch.tensor([-0.9, 0.1])                       # like the first place of class 1
    pool = MN4Semi().derive_with(support, torch.tensor([0, 1]), unlabelled)
    found = find_adopted(pool, labelled=2)
    pairs = set(zip(found.image.tolist(), found.place.tolist(), found.owner.tolist(), strict=True))
    assert (1, 1, 1) in pairs


def test_distractors_are_the_classes_that_no_support_image_has():
    labels = np.arange(4).repeat(6)
    episode = next(sample_episodes(labels, 2, 1, 1, episodes=1, unlabelled=3, distractors=2))
    truth = true_classes(episode, labels)
    assert truth.tolist().count(DISTRACTOR) == 6
    for row, true in zip(episode.unlabelled.tolist(), truth.tolist(), strict=True):
        assert true == DISTRACTOR or episode.classes[true] == labels[row]


def test_a_tally_tells_own_pictures_from_others_and_from_distractors():
    adopted = Adopted(torch.tensor([0, 0, 1, 2]), torch.zeros(4, dtype=torch.long), torch.tensor([0, 1, 1, 1]))
    assert tally(adopted, torch.tensor([0, 1, DISTRACTOR]), ways=3).tolist() == [[1, 0, 0], [1, 1, 1], [0, 0, 0]]


def test_a_frame_covers_its_place_of_the_map():
    box = outline(5, (2, 4), (20, 40), 0)
    assert (box.get_x(), box.get_y(), box.get_width(), box.get_height()) == (9.5, 9.5, 10, 10)


def test_the_picture_is_written_whole(tmp_path):
    adopted = Adopted(torch.tensor([0, 2]), torch.tensor([0, 3]), torch.tensor([1, 0]))
    pictures = np.zeros((3, 8, 8, 3), dtype=np.uint8)
    path = tmp_path / "new" / "a.png"
    draw_adopted(adopted, pictures, torch.tensor([0, 1, DISTRACTOR]), (2, 2), ["wren", "gull"], path)
    with Image.open(path) as drawn:
        colours = {colour for _, colour in drawn.convert("RGB").getcolors(1 << 20)}
    assert {(31, 119, 180), (255, 127, 14)} <= colours                       # the frames of both classes
    assert [file.name for file in path.parent.iterdir()] == ["a.png"]
