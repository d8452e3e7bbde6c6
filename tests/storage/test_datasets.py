"""Datasets on the disk: what comes back, and what is refused."""

import json

import numpy as np
import pytest

from sbeed.collect.record_dataset import record_dataset
from sbeed.data.dataset import BadData, Dataset, from_arrays
from sbeed.storage import tensors
from sbeed.storage.datasets import fingerprint, load_dataset, save_dataset
from sbeed.storage.tensor_folder import DATASET
from sbeed.storage.tensors import MANIFEST, DamagedModel
from tests.manifests import forge


@pytest.fixture(scope="module")
def pendulum():
    return record_dataset("Pendulum-v1", [None], 30, names=["random"])


def _same(a: Dataset, b: Dataset) -> bool:
    return all(np.array_equal(x, y) and x.dtype == y.dtype for x, y in zip(a.data, b.data))


@pytest.mark.parametrize("env", ["Pendulum-v1", "CartPole-v1", "FrozenLake-v1", "jax:pendulum"])
def test_what_was_saved_comes_back(tmp_path, env):
    made = record_dataset(env, [None], 40, seed=3)
    save_dataset(tmp_path / "d", made)
    found = load_dataset(tmp_path / "d")
    assert _same(found, made)
    assert found.spec == made.spec
    assert (found.observation_space, found.action_space) == (made.observation_space, made.action_space)
    assert found.origin == made.origin
    assert {path.name for path in (tmp_path / "d").iterdir()} == {DATASET.file, MANIFEST}


def test_recording_is_a_function_of_its_seed(pendulum):
    assert _same(record_dataset("Pendulum-v1", [None], 30), pendulum)
    assert not _same(record_dataset("Pendulum-v1", [None], 30, seed=1), pendulum)


def test_a_single_path_has_no_time_limit():
    assert record_dataset("Pendulum-v1", [None], 250).lengths.tolist() == [200, 50]
    assert record_dataset("Pendulum-v1", [None], 250, single_path=True).single_path
    with pytest.raises(ValueError, match="single_path: the time limit of jax:pendulum"):
        record_dataset("jax:pendulum", [None], 10, single_path=True)


def test_a_fingerprint_is_of_what_is_learned_from(pendulum):
    d = pendulum
    assert fingerprint(
        Dataset(d.name, d.observation_space, d.action_space, d.data, {"told": "otherwise"})
    ) == fingerprint(d)
    other = d.data._replace(reward=d.data.reward + np.float32(1))
    assert fingerprint(Dataset(d.name, d.observation_space, d.action_space, other, d.origin)) != fingerprint(d)


def test_a_flipped_bit_is_found(tmp_path, pendulum):
    save_dataset(tmp_path / "d", pendulum)
    path = tmp_path / "d" / DATASET.file
    content = bytearray(path.read_bytes())
    content[-5] ^= 1
    path.write_bytes(content)
    with pytest.raises(DamagedModel, match="is not what was saved"):
        load_dataset(tmp_path / "d")


def test_a_forger_who_fits_the_hashes_is_stopped_by_the_checks(tmp_path, pendulum):
    save_dataset(tmp_path / "d", pendulum)
    named = {key: np.array(x) for key, x in pendulum.data._asdict().items()}
    named["reward"][17] = np.nan
    described = tensors.write_tensors(tmp_path / "d" / DATASET.file, named)
    manifest = json.loads((tmp_path / "d" / MANIFEST).read_text())
    manifest |= {"file": {key: described[key] for key in ("bytes", "sha256")}, "tensors": described["tensors"]}
    forge(tmp_path / "d" / MANIFEST, **manifest)
    with pytest.raises(BadData, match=r"reward\[17\] \(episode 0, step 17\): is not finite") as refusal:
        load_dataset(tmp_path / "d")
    assert "in '" in refusal.value.__notes__[0]


def test_nothing_of_anybody_elses_is_overwritten(tmp_path, pendulum):
    (tmp_path / "thesis.tex").write_text("years of work")
    with pytest.raises(FileExistsError, match="is not a dataset"):
        save_dataset(tmp_path, pendulum)
    save_dataset(tmp_path / "d", pendulum)
    save_dataset(tmp_path / "d", pendulum)  # one of ours is replaced


# ------------------------------------------------------------------------------------------------- Minari's


def test_minari_and_back(tmp_path):
    pytest.importorskip("h5py")
    from sbeed.storage import minari as minari_files

    made = record_dataset("CartPole-v1", [None], 60)
    minari_files.write(tmp_path / "m", made)
    for place in (tmp_path / "m", tmp_path / "m" / "data"):
        assert _same(minari_files.read(place), made)


def test_minari_reads_what_we_write(tmp_path, monkeypatch):
    pytest.importorskip("h5py")
    minari = pytest.importorskip("minari")
    from sbeed.storage import minari as minari_files

    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path))
    made = record_dataset("CartPole-v1", [None], 60)
    minari_files.write(tmp_path / "sbeed" / "cartpole-v1-v0", made)
    found = minari.load_dataset("sbeed/cartpole-v1-v0")
    assert found.total_steps == 60
    assert found.observation_space == made.observation_space
    episodes = list(found.iterate_episodes())
    assert [episode.rewards.sum() for episode in episodes] == made.returns.tolist()


def test_bad_data_of_minari_has_its_place(tmp_path):
    h5py = pytest.importorskip("h5py")
    from sbeed.storage import minari as minari_files

    made = record_dataset("Pendulum-v1", [None], 250)
    minari_files.write(tmp_path / "m", made)
    with h5py.File(tmp_path / "m/data/main_data.hdf5", "a") as file:
        file["episode_1/rewards"][7] = np.nan
    with pytest.raises(BadData, match=r"reward\[207\] \(episode 1, step 7\)"):
        minari_files.read(tmp_path / "m")


def test_arrays_of_python_make_a_file(tmp_path):
    arrays = {
        **{"observations": np.zeros((4, 2)), "actions": np.zeros((4, 1)), "rewards": np.ones(4)},
        **{"terminals": [0, 0, 0, 1]},
    }
    save_dataset(tmp_path / "d", from_arrays(arrays))
    assert load_dataset(tmp_path / "d").returns.tolist() == [4.0]
