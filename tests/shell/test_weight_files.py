"""Where first weights come from: lanes, and repositories of Speedtronic 2.0."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from huggingface_hub import HfApi, close_session, constants
from safetensors.torch import save_file
from tests.shell.distributed.small_run import MODEL, begin

from speedtronic.errors import ConfigError
from speedtronic.pure.transformer import Transformer
from speedtronic.shell.distributed.files import read_weights
from speedtronic.shell.distributed.look import Looker
from speedtronic.shell.lanes import parse_lane
from speedtronic.shell.weight_files import find_weights
from speedtronic.shell.weights import load_weights
from speedtronic.testing.hub import HubEmulator


def transformer(seed: int = 0) -> Transformer:
    """As large as the model of the small run."""
    return Transformer(**MODEL, seed=seed)


def of_2_0(folder: Path, module: Transformer) -> Path:
    """A repository in the layout of Speedtronic 2.0, which has every tied name."""
    (folder / "global").mkdir(parents=True)
    state = {name: x.clone() for name, x in module.state_dict().items()}
    save_file(state, folder / "global" / "latest.safetensors")
    count = {
        "algorithm": "dumb_diloco",
        "model_file": "global/latest.safetensors",
        "optimizer": "nesterov_sgd",
        "outer_step": 12,
        "updated_at": "2026-01-01T00:00:00Z",
    }
    (folder / "global" / "step_count.json").write_text(json.dumps(count))
    (folder / "nodes" / "worker-1").mkdir(parents=True)
    delta = {"transformer.ln_f.weight": torch.zeros(16)}
    save_file(delta, folder / "nodes" / "worker-1" / "delta_500.safetensors")
    return folder


def same(a: Transformer, b: Transformer) -> bool:
    """Whether all parameters are."""
    pairs = zip(a.parameters(), b.parameters(), strict=True)
    return all(torch.equal(x, y) for x, y in pairs)


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[HubEmulator]:
    """An emulated Hub that this process asks; caches are temporary."""
    with HubEmulator() as emulator:
        monkeypatch.chdir(tmp_path)
        monkeypatch.setenv("HF_TOKEN", emulator.token)
        monkeypatch.setattr(constants, "ENDPOINT", emulator.endpoint)
        template = f"{emulator.endpoint}/{{repo_id}}/resolve/{{revision}}/{{filename}}"
        monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", template)
        monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "cache"))
        monkeypatch.setattr(constants, "HF_HUB_DISABLE_XET", True)
        monkeypatch.setattr(constants, "HF_HUB_DISABLE_TELEMETRY", True)
        yield emulator
        close_session()


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The lane of a finished run."""
    folder = tmp_path_factory.mktemp("run")
    begin(folder, f"dir:{folder / 'lane'}")
    return f"dir:{folder / 'lane'}"


def test_a_clone_of_2_0(tmp_path: Path) -> None:
    """How far it was is told."""
    source, target = transformer(1), transformer()
    folder = of_2_0(tmp_path / "clone", source)
    (told,) = load_weights(target, str(folder))

    assert same(source, target)
    assert told.endswith(f"{folder}, a run of Speedtronic 2.0 at outer step 12")


def test_a_repository_of_2_0(tmp_path: Path, hub: HubEmulator) -> None:
    """By its name, as it is now; at a revision, as it was then."""
    old, new, target = transformer(1), transformer(2), transformer()
    api = HfApi(endpoint=hub.endpoint, token=hub.token)
    hub.create_repo("owner/old")
    first = api.upload_folder(
        repo_id="owner/old", folder_path=of_2_0(tmp_path / "a", old)
    ).oid
    api.upload_folder(repo_id="owner/old", folder_path=of_2_0(tmp_path / "b", new))

    (told,) = load_weights(target, "hub:owner/old")
    assert same(new, target)
    assert told.endswith("hub:owner/old, a run of Speedtronic 2.0 at outer step 12")
    load_weights(target, f"owner/old@{first}")
    assert same(old, target)


def test_what_2_0_left_beside_a_lane(tmp_path: Path, hub: HubEmulator) -> None:
    """A run may begin in the repository that it starts from."""
    source, target = transformer(1), transformer()
    api = HfApi(endpoint=hub.endpoint, token=hub.token)
    hub.create_repo("owner/old")
    api.upload_folder(repo_id="owner/old", folder_path=of_2_0(tmp_path / "a", source))
    lane = parse_lane("hub:owner/old")
    lane.commit({"tokens/x": b"1"}, parent=lane.head())

    load_weights(target, "hub:owner/old")
    assert same(source, target)


def test_the_lane_of_a_run(run: str, tmp_path: Path) -> None:
    """Its newest global model, under Llama's names there."""
    target = transformer()
    (told,) = load_weights(target, run)
    lane = parse_lane(run)
    view = Looker(lane).look()
    lane.fetch("model.safetensors", str(view.revision), tmp_path / "global")
    expected = read_weights(tmp_path / "global").params
    found = dict(target.named_parameters())

    assert expected.keys() == found.keys()
    assert all(torch.equal(x, found[name]) for name, x in expected.items())
    assert view.manifest is not None
    assert told.endswith(f"{run}, round {view.manifest.round}")


def test_a_lane_that_lies(run: str, tmp_path: Path) -> None:
    """The manifest names the weights."""
    lane = parse_lane(f"dir:{tmp_path / 'lane'}", create=True)
    there = parse_lane(run)
    head = str(there.head())
    copied = {
        name: there.read(name, head)
        for name in ("manifest.json", "model.safetensors", "config.json")
    }
    weights = bytearray(copied["model.safetensors"])
    weights[-1] ^= 1
    lane.commit({**copied, "model.safetensors": bytes(weights)}, parent=None)
    with pytest.raises(ConfigError, match="the manifest says sha256"):
        find_weights(f"dir:{tmp_path / 'lane'}", tmp_path)


@pytest.mark.parametrize(
    ("init_from", "told"),
    [
        ("dir:empty", "dir:empty is empty"),
        ("dir:other", "expected model.safetensors"),
        ("dir:nowhere", "no lane there"),
        ("hub:owner/none", "no such repository"),
        ("hub:none", "expected OWNER/NAME"),
        ("hub:owner/plain", "expected model.safetensors"),
    ],
)
def test_a_lane_without_weights(
    hub: HubEmulator, tmp_path: Path, init_from: str, told: str
) -> None:
    """Each in one line that names it."""
    parse_lane("dir:empty", create=True)
    parse_lane("dir:other", create=True).commit({"a": b"1"}, parent=None)
    hub.create_repo("owner/plain")
    (work := tmp_path / "work").mkdir()
    with pytest.raises(ConfigError) as caught:
        find_weights(init_from, work)
    (line,) = caught.value.problems

    assert told in line and init_from.partition(":")[2] in line
