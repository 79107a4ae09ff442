import torch
from hypothesis import given
from hypothesis import strategies as st

from dmn4.classify.maps import Maps
from dmn4.classify.pictures import Pictures


def numbered(*numbers: int) -> Maps:
    """A map of 1 x 1 x 2 for each number, filled with it."""
    return Maps.of(torch.tensor(numbers, dtype=torch.float16)[:, None, None, None].expand(-1, 1, 1, 2).clone())


def numbers(maps: Maps) -> list[int]:
    return maps.read()[:, 0, 0, 0].int().tolist()


@given(st.lists(st.tuples(st.booleans(), st.integers(1, 6)), min_size=1, max_size=12), st.randoms())
def test_maps_that_come_and_go_are_those_of_a_plain_list(steps, random):
    maps, plain, fresh = numbered(0, 1, 2), [0, 1, 2], 3
    for grows, count in steps:
        if grows:
            more = list(range(fresh, fresh + count))
            maps, plain, fresh = maps.joined(numbered(*more)), plain + more, fresh + count
        else:
            stay = sorted(random.sample(range(len(plain)), max(1, len(plain) - count)))
            maps, plain = maps[torch.tensor(stay)], [plain[row] for row in stay]
        assert numbers(maps) == plain
        assert maps.means[:, 0].int().tolist() == plain
        assert [number for batch in maps.batches() for number in batch[:, 0, 0, 0].int().tolist()] == plain


def test_a_mask_chooses_as_places_do():
    maps = numbered(5, 6, 7)
    assert numbers(maps[torch.tensor([True, False, True])]) == numbers(maps[torch.tensor([0, 2])]) == [5, 7]
    assert numbers(maps[torch.tensor([2, 0])]) == [7, 5]


def test_adding_one_at_a_time_keeps_few_pieces_and_copies_few_maps():
    maps = numbered(*range(64))
    first = maps.pieces[0]
    for number in range(64, 128):
        maps = maps.joined(numbered(number))
    assert len(maps.pieces) <= 9
    assert maps.pieces[0] is first


def test_what_is_left_out_does_not_stay_for_ever():
    maps = numbered(0, 1)
    for number in range(2, 100):
        maps = maps.joined(numbered(number))[torch.tensor([0, 2])]
    assert sum(map(len, maps.pieces)) < 20


@given(st.lists(st.binary(max_size=20), max_size=5))
def test_pictures_come_back(contents):
    pictures = Pictures(contents)
    joined = torch.frombuffer(bytearray(b"".join(contents) or b"\0"), dtype=torch.uint8)
    assert Pictures.unpacked(joined, pictures.ends) == contents
    assert list(pictures + Pictures([b"more"])) == [*contents, b"more"]
    assert pictures.chosen(range(len(contents))[::-1]) == contents[::-1]
