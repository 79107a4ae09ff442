"""The promise: public names and signatures are those on record, and what goes warns first."""

import ast
from pathlib import Path

import pytest
from public_api import compared, public_api

import dmn4
from dmn4.deprecation import deprecated, renamed_argument

ROOT = Path(__file__).parents[1]


def test_no_public_name_or_parameter_on_record_is_gone():
    gone, new = compared()
    assert not gone, f"on record but gone: {gone}; new: {new}. What users have goes by docs/reference/deprecation.md"


@pytest.mark.parametrize("name", [*dmn4.__all__, "keep_mutual"])
def test_every_public_name_has_its_entry_and_an_example_in_the_reference(name):
    text = "".join(path.read_text() for path in sorted((ROOT / "docs" / "reference").glob("*.md")))
    assert any(f":: dmn4.{home}{name}\n" in text for home in ("", "methods.neighbors.")), "no entry"
    examples = "".join(text.split("```python")[1:])
    assert name in examples, "no example"


def test_every_public_method_of_the_classifier_is_shown_in_an_example():
    page = (ROOT / "docs" / "reference" / "classifier.md").read_text()
    methods = {line.split()[0] for line in public_api().splitlines() if line.startswith("FewShotClassifier.")}
    missing = [name for name in methods if f".{name.partition('.')[2]}(" not in page]
    assert not missing


def test_a_deprecated_function_works_and_says_what_takes_its_place():
    @deprecated(since="0.2", until="0.4", instead="twice(x)")
    def double(x: int) -> int:
        """Two times x."""
        return 2 * x

    with pytest.warns(FutureWarning, match=r"double is deprecated since dmn4 0.2 and goes in 0.4: use twice\(x\)"):
        assert double(3) == 6
    assert ".. deprecated:: 0.2" in double.__doc__


def test_a_renamed_argument_is_taken_under_both_names_but_not_twice():
    @renamed_argument("many", "count", since="0.2", until="0.4")
    def some(count: int = 1) -> int:
        return count

    assert some(count=2) == some(2) == 2
    with pytest.warns(FutureWarning, match=r"many= of .*some is deprecated .*: use count="):
        assert some(many=3) == 3
    with pytest.raises(TypeError, match="give count= alone"):
        some(many=3, count=3)


def test_nothing_deprecated_has_outlived_its_last_version():
    here = tuple(map(int, dmn4.__version__.split(".")[:2]))
    late = [f"{path.relative_to(ROOT)}:{call.lineno}" for path in sorted((ROOT / "dmn4").rglob("*.py"))
            for call in ast.walk(ast.parse(path.read_text())) if isinstance(call, ast.Call)
            and getattr(call.func, "id", "") in ("deprecated", "renamed_argument")
            for word in call.keywords if word.arg == "until"
            and tuple(map(int, ast.literal_eval(word.value).split("."))) <= here]
    assert not late
