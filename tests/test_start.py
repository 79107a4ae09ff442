"""What a command imports before it answers."""

import subprocess
import sys

import pytest

SLOW = {"sklearn", "scipy", "matplotlib", "pandas", "fastapi", "lightning", "pyarrow"}


@pytest.mark.parametrize("module", ["dmn4.classify.plain", "dmn4.sorting.predictions", "dmn4.evidence.explain"])
def test_what_answers_needs_neither_scikit_learn_nor_scipy(module):
    code = f"import sys, {module}; print(*{{name.split('.')[0] for name in sys.modules}})"
    imported = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert module.split(".")[0] in imported
    assert not SLOW & set(imported)


def test_building_the_default_network_does_not_import_a_compiler():
    code = "import sys, dmn4; dmn4.build_backbone('efficientnet_lite0', 'imagenet'); print(*sys.modules)"
    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert "dmn4.backbones.efficientnet" in printed
    assert "torch._dynamo" not in printed
