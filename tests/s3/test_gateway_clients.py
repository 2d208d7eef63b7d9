"""Clients that people have, against the gateway: each pushes data that starts a run and reads its result, and does what it is usually asked."""
import os
import random
import textwrap

import pytest

import clients
from conftest import sh, wait_until
from gateway import Gateway

DAEMON_OPTIONS = ["--s3-listen", "127.0.0.1:0"]
MIB = 1 << 20


@pytest.fixture
def client(shared, tmp_path):
    return clients.Client(Gateway(shared), tmp_path)


def folder(path, seed):
    """Files as people have them: small ones in folders, names with blanks and umlauts, one in several parts; path → bytes."""
    rng = random.Random(seed)
    made = {f"part-{i:02}/x {i}.txt": rng.randbytes(rng.randrange(0, 5000)) for i in range(20)}
    made |= {"a+b/ü&.bin": b"odd", "empty": b"", "large.bin": rng.randbytes(18 * MIB + 5)}
    for name, data in made.items():
        (path / name).parent.mkdir(parents=True, exist_ok=True)
        (path / name).write_bytes(data)
    return made


def pipeline(shared, name):
    """A repo NAME-in whose files are listed with their sizes, and their numbers summed up, by stage NAME-out."""
    shared.post("/repos", {"name": f"{name}-in"})
    shared.default.stages(sh(f"{name}-out", f'cd "$PL_INPUT_{name.upper()}_IN" && find . -type f -printf "%s %P\\n" | LC_ALL=C sort -k2 >"$PL_OUT/sizes" && '
                                            "cat *.csv 2>/dev/null | awk '/^[0-9]/ {n += $1} END {print \"total\"; print n + 0}' >\"$PL_OUT/total.csv\"",
                                            f"{name}-in", glob="/"), pipeline=name)


def result(shared, name, want):
    """Waits for the run over exactly these files."""
    lines = "".join(f"{len(data)} {path}\n" for path, data in sorted(want.items(), key=lambda item: item[0].encode()))

    def is_there():
        try:
            return shared.read(f"{name}-out", "sizes").decode() == lines
        except Exception:  # no commit yet
            return False

    wait_until(is_there, f"the result of {name}", 120)
    return lines


def same(path, want):
    found = {os.path.relpath(os.path.join(top, name), path): None for top, _, names in os.walk(path) for name in names}
    assert set(found) == set(want)
    for name, data in want.items():
        assert (path / name).read_bytes() == data, name


@pytest.mark.timeout(900)
def test_aws(shared, client, tmp_path):
    aws, want = clients.aws(), folder(tmp_path / "up", 1)
    pipeline(shared, "aws")
    client.run(*aws, "s3", "cp", "--recursive", "--only-show-errors", "up", "s3://aws-in/")
    lines = result(shared, "aws", want)
    assert client.run(*aws, "s3", "cp", "s3://aws-out/sizes", "-") == lines
    client.run(*aws, "s3", "cp", "--recursive", "--only-show-errors", "s3://aws-in/", "down")
    same(tmp_path / "down", want)
    assert "upload:" not in client.run(*aws, "s3", "sync", "up", "s3://aws-in/", "--size-only")
    (tmp_path / "up" / "empty").unlink()
    assert client.run(*aws, "s3", "sync", "--delete", "--size-only", "up", "s3://aws-in/").count("delete:") == 1
    listed = client.run(*aws, "s3", "ls", "s3://aws-in/")
    assert "PRE part-00/" in listed and "large.bin" in listed
    client.run(*aws, "s3", "mv", "--only-show-errors", "s3://aws-in/large.bin", "s3://aws-in/moved/large.bin")
    client.run(*aws, "s3", "rm", "--recursive", "--only-show-errors", "s3://aws-in/part-01")
    del want["empty"], want["part-01/x 1.txt"]
    want["moved/large.bin"] = want.pop("large.bin")
    result(shared, "aws", want)
    client.run(*aws, "s3", "mb", "s3://aws-new")
    assert "aws-new" in client.run(*aws, "s3", "ls")
    client.run(*aws, "s3", "rb", "s3://aws-new")
    client.run(*aws, "s3", "ls", "s3://aws-new", ok=False)
    client.run(*aws, "s3api", "put-object", "--bucket", "aws-in", "--key", "once", "--if-none-match", "*")
    client.run(*aws, "s3api", "put-object", "--bucket", "aws-in", "--key", "once", "--if-none-match", "*", ok=False)
    assert '"ChecksumCRC' in client.run(*aws, "s3api", "head-object", "--bucket", "aws-in", "--key", "once", "--checksum-mode", "ENABLED")


def test_rclone(shared, client, tmp_path):
    want = folder(tmp_path / "up", 2)
    pipeline(shared, "rclone")
    client.run("rclone", "copy", "up", "pl:rclone-in")
    lines = result(shared, "rclone", want)
    assert client.run("rclone", "cat", "pl:rclone-out/sizes") == lines
    client.run("rclone", "check", "up", "pl:rclone-in")  # by MD5
    client.run("rclone", "copy", "pl:rclone-in", "down")
    same(tmp_path / "down", want)
    (tmp_path / "up" / "empty").write_bytes(b"more")
    (tmp_path / "up" / "large.bin").unlink()
    client.run("rclone", "sync", "up", "pl:rclone-in")
    want["empty"] = b"more"
    del want["large.bin"]
    result(shared, "rclone", want)
    assert sorted(client.run("rclone", "lsf", "pl:rclone-in").split("\n")[1:4]) == sorted(["empty", "part-00/", "part-01/"])
    client.run("rclone", "moveto", "pl:rclone-in/empty", "pl:rclone-in/renamed")
    client.run("rclone", "delete", "pl:rclone-in/part-00")
    client.run("rclone", "mkdir", "pl:rclone-new")
    client.run("rclone", "rmdir", "pl:rclone-new")
    want["renamed"] = want.pop("empty")
    del want["part-00/x 0.txt"]
    result(shared, "rclone", want)


def test_s5cmd(shared, client, tmp_path):
    s5cmd, want = clients.s5cmd(), folder(tmp_path / "up", 3)
    pipeline(shared, "s5")
    client.run(s5cmd, "cp", "--part-size", "5", "up/", "s3://s5-in/")
    lines = result(shared, "s5", want)
    assert client.run(s5cmd, "cat", "s3://s5-out/sizes") == lines
    client.run(s5cmd, "cp", "s3://s5-in/*", "down/")
    same(tmp_path / "down", want)
    client.run(s5cmd, "cp", "s3://s5-in/large.bin", "s3://s5-in/copy.bin")
    client.run(s5cmd, "mv", "s3://s5-in/empty", "s3://s5-in/moved")
    client.run(s5cmd, "rm", "s3://s5-in/part-0*")
    want = {name: data for name, data in want.items() if not name.startswith("part-0")}
    want["moved"], want["copy.bin"] = want.pop("empty"), want["large.bin"]
    result(shared, "s5", want)
    assert "large.bin" in client.run(s5cmd, "ls", "s3://s5-in/")
    client.run(s5cmd, "mb", "s3://s5-new")
    client.run(s5cmd, "rb", "s3://s5-new")
    assert "s5-in" in client.run(s5cmd, "ls")


def script(client, text):
    return client.run(clients.python(), "-c", textwrap.dedent(text))


def test_boto3_of_today(shared, client):
    """Its defaults: a checksum with every put, in a trailer."""
    pipeline(shared, "boto")
    script(client, """
        import boto3, os
        s3 = boto3.client("s3")
        put = s3.put_object(Bucket="boto-in", Key="a.csv", Body=b"n\\n1\\n2\\n")
        assert put["ChecksumCRC32"], put
        got = s3.get_object(Bucket="boto-in", Key="a.csv")
        assert got["Body"].read() == b"n\\n1\\n2\\n" and got["ChecksumCRC32"] == put["ChecksumCRC32"]
        open("big", "wb").write(os.urandom(17 << 20))
        s3.upload_file("big", "boto-in", "big")
        s3.download_file("boto-in", "big", "back")
        assert open("big", "rb").read() == open("back", "rb").read()
        assert s3.put_object(Bucket="boto-in", Key="stream", Body=open("big", "rb"))["ETag"]
        s3.delete_objects(Bucket="boto-in", Delete={"Objects": [{"Key": "big"}, {"Key": "stream"}]})
        """)
    result(shared, "boto", {"a.csv": b"n\n1\n2\n"})
    assert script(client, """
        import boto3
        s3 = boto3.client("s3")
        head = s3.head_object(Bucket="boto-out", Key="total.csv")
        got = s3.get_object(Bucket="boto-out", Key="total.csv", IfMatch=head["ETag"], VersionId=head["VersionId"])
        print([item["Key"] for item in s3.list_objects_v2(Bucket="boto-out")["Contents"]], got["Body"].read())
        """).strip() == r"['sizes', 'total.csv'] b'total\n3\n'"


def test_s3fs_and_pandas(shared, client):
    pipeline(shared, "pandas")
    script(client, """
        import pandas, s3fs
        fs = s3fs.S3FileSystem()
        pandas.DataFrame({"n": [1, 2, 39]}).to_csv("s3://pandas-in/numbers.csv", index=False)
        table = pandas.DataFrame({"a": range(100000), "b": ["x%d" % i for i in range(100000)]})
        table.to_parquet("s3://pandas-in/dir/table.parquet")
        assert pandas.read_parquet("s3://pandas-in/dir/table.parquet").equals(table)
        assert pandas.read_parquet("s3://pandas-in/dir/table.parquet", columns=["a"])["a"].sum() == 4999950000
        assert sorted(fs.ls("pandas-in")) == ["pandas-in/dir", "pandas-in/numbers.csv"], fs.ls("pandas-in")
        assert fs.find("pandas-in") == ["pandas-in/dir/table.parquet", "pandas-in/numbers.csv"]
        assert fs.isdir("pandas-in/dir") and not fs.exists("pandas-in/none")
        with fs.open("pandas-in/written", "wb") as f:
            for _ in range(12): f.write(b"x" * (1 << 20))
        assert fs.info("pandas-in/written")["size"] == 12 << 20
        fs.mv("pandas-in/written", "pandas-in/moved")
        fs.rm("pandas-in/moved")
        fs.rm("pandas-in/dir", recursive=True)
        """)
    result(shared, "pandas", {"numbers.csv": b"n\n1\n2\n39\n"})
    assert script(client, """
        import pandas
        print(pandas.read_csv("s3://pandas-out/total.csv")["total"][0])
        """).strip() == "42"


def test_pyarrow(shared, client):
    pipeline(shared, "arrow")
    script(client, """
        import os, pyarrow, pyarrow.csv, pyarrow.dataset, pyarrow.fs, pyarrow.parquet
        fs = pyarrow.fs.S3FileSystem(endpoint_override=os.environ["AWS_ENDPOINT_URL"].removeprefix("http://"), scheme="http")
        table = pyarrow.table({"n": [40, 2], "k": ["a", "b"]})
        pyarrow.dataset.write_dataset(table, "arrow-in/set", filesystem=fs, format="parquet", partitioning=["k"])
        assert pyarrow.dataset.dataset("arrow-in/set", filesystem=fs, partitioning=["k"]).to_table(columns=["n"]).num_rows == 2
        with fs.open_output_stream("arrow-in/numbers.csv") as f: f.write(b"n\\n40\\n2\\n")
        with fs.open_output_stream("arrow-in/large") as f: f.write(os.urandom(11 << 20))
        assert fs.get_file_info("arrow-in/large").size == 11 << 20
        assert fs.get_file_info("arrow-in/set").type == pyarrow.fs.FileType.Directory
        fs.create_dir("arrow-in/empty")
        names = sorted(i.path for i in fs.get_file_info(pyarrow.fs.FileSelector("arrow-in")))
        assert names == ["arrow-in/empty", "arrow-in/large", "arrow-in/numbers.csv", "arrow-in/set"], names
        fs.move("arrow-in/large", "arrow-in/moved")
        fs.delete_file("arrow-in/moved")
        fs.delete_dir("arrow-in/set")
        fs.delete_dir("arrow-in/empty")
        """)
    result(shared, "arrow", {"numbers.csv": b"n\n40\n2\n"})
    assert script(client, """
        import os, pyarrow.csv, pyarrow.fs
        fs = pyarrow.fs.S3FileSystem(endpoint_override=os.environ["AWS_ENDPOINT_URL"].removeprefix("http://"), scheme="http")
        print(pyarrow.csv.read_csv(fs.open_input_stream("arrow-out/total.csv"))["total"][0])
        """).strip() == "42"


def test_duckdb(shared, client):
    pipeline(shared, "duck")
    script(client, """
        import duckdb, s3fs
        db = duckdb.connect()
        db.register_filesystem(s3fs.S3FileSystem())
        db.sql("COPY (SELECT range AS n FROM range(10)) TO 's3://duck-in/numbers.csv' (HEADER)")
        db.sql("COPY (SELECT range AS n, range % 7 AS k FROM range(200000)) TO 's3://duck-in/t.parquet'")
        assert db.sql("SELECT sum(n) FROM 's3://duck-in/t.parquet' WHERE k = 3").fetchall()[0][0] == sum(i for i in range(200000) if i % 7 == 3)
        assert db.sql("SELECT count(*) FROM read_csv('s3://duck-in/*.csv')").fetchall()[0][0] == 10
        s3fs.S3FileSystem().rm("duck-in/t.parquet")
        """)
    result(shared, "duck", {"numbers.csv": b"n\n" + b"".join(b"%d\n" % i for i in range(10))})
    assert script(client, """
        import duckdb, s3fs
        db = duckdb.connect()
        db.register_filesystem(s3fs.S3FileSystem())
        print(db.sql("SELECT total FROM read_csv('s3://duck-out/total.csv')").fetchall()[0][0])
        """).strip() == "45"


@pytest.mark.parametrize("user", ["", "envy"])
def test_s3_env_is_all_that_a_client_needs(shared, client, tmp_path, user):
    """With the daemon's own token its own key; for a user a key of theirs, and the same one the next time."""
    home = {"XDG_CONFIG_HOME": str(tmp_path / "config")}
    if user:
        shared.post("/users", {"name": user, "roles": [{"scope": "", "role": "writer"}]})
    words = ["s3", "env", *(["--user", user] if user else [])]
    lines = shared.ctl(*words, env=home).out
    assert shared.ctl(*words, env=home).out == lines
    for name in [name for name in client.env if name.startswith("AWS_") and name != "AWS_EC2_METADATA_DISABLED"]:
        del client.env[name]
    python, aws = clients.aws()
    assert client.run("sh", "-ec", f"{lines}\n'{python}' '{aws}' s3 mb s3://env{user}; '{python}' '{aws}' s3 ls").count(f"env{user}\n") == 2
