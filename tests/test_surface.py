"""The public names, frozen."""

import importlib
import subprocess
import sys

import speedtronic

NAMES = """
Config Delta InnerState ModuleLoss Optimizer Origin OuterRule OuterState
SpeedtronicError StepInfo StepRule StepRunner TrainResult Weights accumulate adamw
aggregate apply build_model cautious chain compute_delta gradient init_inner
init_outer inner_step key_from_seed load_config muon outer_step partition
register_model sgd split train
"""


def test_the_public_names_are_these() -> None:
    """Adding or removing one is a decision."""
    assert sorted(NAMES.split()) == speedtronic.__all__


def test_every_public_name_can_be_imported() -> None:
    """Each stands where the table says."""
    for name in speedtronic.__all__:
        assert getattr(speedtronic, name) is not None


def test_a_submodule_does_not_hide_a_public_name() -> None:
    """Importing `speedtronic.shell.train` leaves `speedtronic.train` alone."""
    importlib.import_module("speedtronic.shell.train")

    assert callable(speedtronic.train)


def test_importing_the_package_does_not_import_torch() -> None:
    """Nor does reading a config."""
    code = (
        "import sys, speedtronic; speedtronic.Config; speedtronic.load_config;"
        " assert 'torch' not in sys.modules, 'torch'; print('ok')"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)

    assert ("ok\n", "") == (done.stdout, done.stderr)
