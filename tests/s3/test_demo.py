"""The demo, unchanged, over a bucket: the daemon's folder is deleted in the middle and comes back from the bucket."""
import contextlib
import os
import signal
import subprocess

import pytest

from conftest import BIN, NAMES, TOP, check_log


@pytest.fixture
def folder(tmp_path):
    """Where the demo's daemon lives: it does not outlive a test that was cut off."""
    data = tmp_path / "data"
    yield data
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        os.kill(int((data / "demo.pid").read_text()), signal.SIGKILL)


@pytest.mark.timeout(900)
@pytest.mark.parametrize("server", NAMES[:1], indirect=True)
def test_the_demo_goes_on_where_its_folder_was_lost(server, bucket, folder):
    store = f"s3://{bucket}/demo"
    env = {**os.environ, "PIPELINED_DEMO_DIR": str(folder), "PIPELINED_DEMO_BIN": BIN, "AWS_ENDPOINT_URL": server.endpoint,
           "AWS_REGION": server.region, "AWS_ACCESS_KEY_ID": server.access_key, "AWS_SECRET_ACCESS_KEY": server.secret_key}
    demo = subprocess.run(["sh", os.path.join(TOP, "pipelines", "demo.sh"), "--exit", "--store", store, "--recover"], capture_output=True, text=True, env=env,
                          timeout=840, check=False)
    said = demo.stdout + demo.stderr
    assert demo.returncode == 0, said
    assert f"recovered from {store}" in said
    assert "1 prepared, 7 reused" in said
    assert "All checks held" in said
    assert not (folder / "store").exists()
    check_log(str(folder / "pipelined.out"))
    check_log(str(folder / "logs" / "workers.log"))


def test_the_demo_deletes_no_folder_that_has_the_store_in_it(tmp_path):
    demo = subprocess.run(["sh", os.path.join(TOP, "pipelines", "demo.sh"), "--recover"], capture_output=True, text=True, check=False,
                          env={**os.environ, "PIPELINED_DEMO_DIR": str(tmp_path)})
    assert demo.returncode == 2 and "--store" in demo.stderr
