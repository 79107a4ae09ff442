"""The class lists and split rules are those of the papers."""

import pytest

from dmn4.data.splits import (
    TIERED_META_INAT,
    benchmarks,
    class_key,
    class_list,
    cub_part,
    family,
    identify,
    identify_whole,
)

COUNTS = {                                                         # classes that the papers report
    "miniimagenet": (64, 16, 20),
    "tieredimagenet": (351, 97, 160),
    "cifar-fs": (64, 16, 20),
    "meta-inat": (908, 0, 227),
}


@pytest.mark.parametrize("name", COUNTS)
def test_the_lists_have_the_counts_of_the_papers_and_no_class_twice(name):
    splits = class_list(name)
    assert tuple(len(splits[split]) for split in ("train", "val", "test")) == COUNTS[name]
    everything = [class_ for classes in splits.values() for class_ in classes]
    assert len(set(everything)) == len(everything)


def test_the_lists_start_as_published():
    assert [class_list("miniimagenet")[split][0] for split in ("train", "val", "test")] == [
        "n01532829", "n01855672", "n01930112"]


@pytest.mark.parametrize("rule", ["frn", "closerlook"])
def test_the_rules_split_cub_into_100_50_and_50_classes(rule):
    splits = [cub_part(number, rule) for number in range(1, 201)]
    assert [splits.count(split) for split in ("train", "val", "test")] == [100, 50, 50]


def test_the_rules_for_cub_contradict_each_other():
    assert [cub_part(number, "frn") for number in (1, 2, 3, 4)] == ["val", "train", "test", "train"]
    assert [cub_part(number, "closerlook") for number in (1, 2, 3, 4)] == ["train", "val", "train", "test"]
    for number in range(1, 201):                                   # the training classes of one are no others' ...
        assert (cub_part(number, "frn") == "train") != (cub_part(number, "closerlook") == "train")


def test_tiered_meta_inat_splits_nine_kinds_of_animals():
    assert len(TIERED_META_INAT["train"]) == 7
    assert TIERED_META_INAT["test"] == ("Insecta", "Arachnida")


@pytest.mark.parametrize("bench", benchmarks(), ids=lambda bench: bench.name)
def test_every_split_is_told_by_its_classes(bench):
    for split, classes in bench.classes.items():
        names = [f"{name}.Bird" if "CUB" in bench.name else name for name in classes]
        assert identify(names) == (bench, split)


def test_a_part_of_a_split_is_told_and_a_few_everyday_words_are_not():
    some = sorted(class_list("miniimagenet")["train"])[:40]
    assert identify(some)[0].name == "miniImageNet"
    assert identify(["apple", "bear"]) is None                     # both are classes of CIFAR-FS
    assert identify(["cats", "dogs"]) is None


def test_a_folder_of_all_classes_is_told_too():
    every = [name for names in class_list("cifar-fs").values() for name in names]
    assert identify_whole(every).name == "CIFAR-FS"
    assert identify_whole(every[:-1]) is None


def test_class_names_are_read_from_the_names_of_folders():
    assert class_key("017.Cardinal") == "017"
    assert class_key("flowers/rose") == "rose"
    assert class_key("n01532829") == "n01532829"
    assert class_key("121") == "121"
    assert family(["017.Cardinal", "018.Spotted_Catbird"]) == "CUB-200-2011"
    assert family(["n01532829"]) == "ImageNet"
    assert family(["cats"]) == ""
