"""Statuses of commits, and previews of branches: a server of repositories that also has the API of GitHub, GitLab or Gitea, and records what it is told."""
import json
import re

import pytest
import servers
from conftest import TOKEN, HttpError, reading, told_nowhere, wait_until
from source_kit import copy, follow, pipelines, source_of, spec, sync

INVALID = 5
PATHS = {"github": "/api/v3/repos/repositories/team/statuses/", "gitlab": "/api/v4/projects/repositories%2Fteam/statuses/",
         "gitea": "/api/v1/repos/repositories/team/statuses/"}
PROOF = {"github": ("Authorization", f"Bearer {TOKEN}"), "gitlab": ("PRIVATE-TOKEN", TOKEN), "gitea": ("Authorization", f"token {TOKEN}")}


class Handler(servers.HttpHandler):
    def serve(self):
        if "/api/" not in self.path:
            return super().serve()
        owner, body = self.owner, self.body()
        owner.posts.append((self.path, dict(self.headers), json.loads(body)))
        return owner.answer(self)

    do_GET = do_POST = serve


class Hub(servers.HttpServer):
    """Repositories, and the API for statuses of their commits. `answer` says what a post gets."""
    handler = Handler

    def __init__(self, root):
        self.posts = []
        self.answer = self.created
        super().__init__(root, users={"git": TOKEN})

    @staticmethod
    def created(handler):
        handler.reply(201, {"Content-Type": "application/json"}, b"{}")

    @staticmethod
    def refusing(status, message="No", **headers):
        return lambda handler: handler.reply(status, {"Content-Type": "application/json", **headers}, json.dumps({"message": message}).encode())

    @staticmethod
    def hanging(handler):
        handler.owner.hang(handler.connection)

    def told(self):
        """[(start of the commit, state, text)] of all posts."""
        return [(path.rsplit("/", 1)[1], body["state"], body["description"]) for path, _, body in self.posts]


@pytest.fixture
def hub(git, tmp_path):
    with Hub(tmp_path) as server:
        yield server


@pytest.fixture
def daemon(make_daemon, authority, git):
    return make_daemon(*reading(authority), "--git-local-folders", git.bare.parent, "--public-url", "https://pipelined.example.org").start()


@pytest.fixture
def team(daemon, hub, tmp_path):
    """team(OPTIONS…) follows the hub's repository."""
    (tmp_path / "token").write_text(TOKEN + "\n")
    daemon.ctl("create", "secret", "key", "--file", f"token={tmp_path / 'token'}")

    def make(*options, ok=True):
        return follow(daemon, hub.url("repositories/team.git"), "team", "--secret", "key", *options, ok=ok)
    return make


# --- the commit at the tip

@pytest.mark.parametrize("kind", PATHS)
def test_valid_invalid_and_repaired_commits_are_told(daemon, git, hub, team, kind):
    bad_state = "failed" if kind == "gitlab" else "failure"
    good = git.write("pipelines/p.json", spec("p", copy())).write("pipelines/q.json", spec("q", copy("other"))).push()
    team("--status", kind)
    path, headers, body = hub.posts[0]
    name, value = PROOF[kind]
    assert path == PATHS[kind] + good and headers[name] == value and headers["Content-Type"] == "application/json" and headers["User-Agent"] == "pipelined"
    assert body == {"state": "success", "description": "2 pipelines set, 2 changed", "target_url": "https://pipelined.example.org",
                    "name" if kind == "gitlab" else "context": "pipelined/team"}
    bad = git.write("pipelines/p.json", '{"pipeline": "p",\n "stages": 1}').push()
    assert sync(daemon, ok=False).code == INVALID
    repaired = git.write("pipelines/p.json", spec("p", copy())).push()
    sync(daemon)
    commits, states, texts = zip(*hub.told())
    assert (commits, states) == ((good, bad, repaired), ("success", bad_state, "success"))
    assert re.match(r"pipelines/p\.json:2:\d+: .*stages", texts[1]) and texts[2] == "2 pipelines set"
    assert "warnings" not in source_of(daemon) or not source_of(daemon)["warnings"]
    told_nowhere(daemon, TOKEN)


def test_nothing_is_posted_twice(daemon, git, hub, team):
    good = git.write("pipelines/p.json", spec("p", copy())).push()
    team("--status", "gitea")
    sync(daemon)
    daemon.ctl("update", "source", "team", "--interval", "2h")
    sync(daemon)
    bad = git.write("pipelines/p.json", "{").push()
    for _ in range(3):
        sync(daemon, ok=False)
    daemon.stop()
    daemon.start()
    sync(daemon, ok=False)
    assert [(commit, state) for commit, state, _ in hub.told()] == [(good, "success"), (bad, "failure")]
    git("reset", "-q", "--hard", good)
    git.push("Rewritten", "--force")
    sync(daemon)
    assert len(hub.posts) == 3
    daemon.ctl("update", "source", "team", "--status", "off")
    git.write("README.md", "more").push()
    sync(daemon)
    assert len(hub.posts) == 3 and "posted" not in source_of(daemon)


@pytest.mark.parametrize("answer, said", [
    (Hub.refusing(401, "Bad credentials"), "answered with status 401: Bad credentials"),
    (Hub.refusing(500, f"unexpected {TOKEN}"), "answered with status 500"),
    (Hub.refusing(302, "Moved", Location="http://127.0.0.1:1/elsewhere"), "redirects are not followed"),
    (Hub.hanging, "did not answer within 10 s")], ids=["401", "500", "redirect", "hang"])
def test_a_server_that_refuses_a_status_holds_up_nothing_and_is_asked_again(daemon, git, hub, team, answer, said):
    hub.answer = answer
    first = git.write("pipelines/p.json", spec("p", copy())).push()
    shown = team("--status", "github").out
    source = source_of(daemon)
    assert (source["state"], source["applied"], set(pipelines(daemon))) == ("following", first, {"p"})
    assert [warning for warning in source["warnings"] if f"the status of commit {first[:12]} could not be posted: " in warning and said in warning], source
    assert "could not be posted" in shown and source["posted"]["tries"] == 1 and not source["posted"]["done"]
    hub.answer = hub.created
    daemon.ctl("sync", "source", "team")
    assert [commit for commit, _, _ in hub.told()] == [first, first] and source_of(daemon)["posted"]["done"]
    assert not source_of(daemon)["warnings"]
    told_nowhere(daemon, TOKEN)


def test_a_status_that_failed_waits_before_it_is_sent_again(daemon, git, hub, team):
    hub.answer = hub.refusing(503)
    git.write("pipelines/p.json", spec("p", copy())).push()
    team("--status", "github")
    daemon.ctl("update", "source", "team", "--interval", "1s")
    wait_until(lambda: source_of(daemon)["posted"]["tries"] == 2, "the try after the update")
    seen = source_of(daemon)["looked_us"]
    wait_until(lambda: source_of(daemon)["looked_us"] > seen + 2_000_000, "further looks")
    assert len(hub.posts) == 2 and source_of(daemon)["posted"]["again_us"] > source_of(daemon)["looked_us"]


def test_a_token_does_not_follow_a_redirect(daemon, git, hub, team, tmp_path):
    git.write("pipelines/p.json", spec("p", copy())).push()
    with Hub(tmp_path) as other:
        hub.answer = hub.refusing(307, "Moved", Location=other.url("api/v1/statuses"))
        team("--status", "gitea")
        assert "redirects are not followed" in source_of(daemon)["posted"]["error"] and not other.posts and not other.asked


def test_a_stop_and_a_kill_lose_no_status(daemon, git, hub, team):
    hub.answer = hub.hanging
    git.write("pipelines/p.json", spec("p", copy())).push()
    team()
    for end, tries in ((daemon.stop, 1), (daemon.kill, 2)):
        daemon.http("PATCH", "/api/v1/sources/team", {"settings": {"status": "gitea"}})
        wait_until(lambda wanted=tries: len(hub.posts) == wanted, "a post that hangs")
        end()
        daemon.start()
    wait_until(lambda: len(hub.posts) == 3, "the post after the restart")
    hub.answer = hub.created
    sync(daemon)
    assert source_of(daemon)["posted"]["done"] and len(set(hub.told())) == 1


def test_gitlab_has_a_state_already(daemon, git, hub, team):
    hub.answer = hub.refusing(400, "Cannot transition status via :succeed from :success (Reason(s): Status cannot transition via \"succeed\")")
    git.write("pipelines/p.json", spec("p", copy())).push()
    team("--status", "gitlab")
    assert source_of(daemon)["posted"]["done"]


def test_settings_that_cannot_work_are_refused(daemon, git, hub, team, tmp_path):
    git.write("pipelines/p.json", spec("p", copy())).push()
    url = hub.url("repositories/team.git")
    for options, part in ((["--git", git.bare, "--status", "github"], "https://"), (["--git", "git@example.org:a/b", "--secret", "key", "--status", "gitlab"], "https://"),
                          (["--git", url, "--status", "github"], "needs a secret"), (["--git", url, "--secret", "none", "--status", "gitea"], "has no secret"),
                          (["--git", hub.url("x"), "--secret", "key", "--status", "gitea"], "OWNER/REPOSITORY"), (["--git", url, "--status", "svn"], "github, gitlab, gitea or off")):
        refused = daemon.ctl("create", "source", "bad", *options, ok=False)
        assert refused.code != 0 and part in refused.err, (options, refused.err)
    team("--status", "gitea")
    assert "needs a secret" in daemon.ctl("update", "source", "team", "--secret", "", ok=False).err
    with pytest.raises(HttpError):
        daemon.http("PATCH", "/api/v1/sources/team", {"settings": {"preview": "yes"}})
    assert "exclude each other" in daemon.ctl("update", "source", "team", "--preview", "--no-preview", ok=False).err


# --- branches

def previews(daemon):
    return {one["branch"]: one for one in source_of(daemon)["previews"]}


def branch(git, name, path, content, start="main"):
    """Pushes a change to a branch; the commit's id."""
    git("checkout", "-q", "-B", name, start)
    git.write(path, content)
    git("add", "-A")
    git("commit", "-q", "--allow-empty", "-m", f"Change {path}")
    git("push", "-q", "--force", "origin", f"HEAD:{name}")
    sha = git("rev-parse", "HEAD")
    git("checkout", "-q", "main")
    return sha


def test_a_branch_is_planned_and_nothing_runs(daemon, git, hub, team):
    stage = {"name": "each", "input": {"repo": "in", "name": "x", "glob": "/*"}, "script": "cat $x >$PL_OUT/$(basename $x)"}
    main = git.write("pipelines/p.json", spec("p", stage)).push()
    team("--status", "gitea", "--preview")
    daemon.default.run("in", {"a": b"1", "b": b"2", "c": b"3"})
    before, runs = pipelines(daemon), daemon.get("/runs")["runs"]
    changed = branch(git, "faster", "pipelines/p.json", spec("p", {**stage, "script": "sort $x >$PL_OUT/$(basename $x)"}))
    new = branch(git, "more/new", "pipelines/q.json", spec("q", copy("other")))
    broken = branch(git, "broken", "pipelines/p.json", '{"pipeline": "p",\n "stages": 1}')
    same = branch(git, "same", "README.md", "no spec")
    for ref in ("refs/pull/7/head", "refs/merge-requests/7/head", "refs/tags/v1"):
        git("push", "-q", "origin", f"{broken}:{ref}")
    sync(daemon)
    found = previews(daemon)
    assert set(found) == {"faster", "more/new", "broken", "same"}
    assert {name: one["commit"] for name, one in found.items()} == {"faster": changed, "more/new": new, "broken": broken, "same": same}
    assert found["faster"]["text"] == "would update 1 pipeline: 3 datums to run (1 stage)"
    assert found["more/new"]["text"] == "would create 1 pipeline: 1 new stage to run" and found["same"]["text"] == "would change nothing"
    assert found["broken"]["state"] == "failure" and found["broken"]["text"].startswith("pipelines/p.json:2:")
    assert pipelines(daemon) == before and daemon.get("/runs")["runs"] == runs and source_of(daemon)["applied"] == main
    told = {commit: (state, text) for commit, state, text in hub.told()}
    assert told[changed] == ("success", found["faster"]["text"]) and told[broken][0] == "failure" and set(told) == {main, changed, new, broken, same}
    assert {body["context"] for _, _, body in hub.posts[1:]} == {"pipelined/team/preview"}
    out = daemon.ctl("inspect", "source", "team").out
    assert f"branch faster at {changed[:12]} would update 1 pipeline" in out and f"branch broken at {broken[:12]} is not valid: pipelines/p.json:2:" in out
    posted = len(hub.posts)
    daemon.ctl("update", "source", "team", "--interval", "2h")
    sync(daemon)
    assert len(hub.posts) == posted, "nothing is posted twice"
    repaired = branch(git, "broken", "pipelines/p.json", spec("p", stage))
    git("push", "-q", "origin", ":faster")
    sync(daemon)
    assert set(previews(daemon)) == {"more/new", "broken", "same"} and hub.told()[posted:] == [(repaired, "success", "would change nothing")]
    git("merge", "-q", "--ff-only", "more/new")
    git("push", "-q", "origin", "main")
    sync(daemon)
    assert set(pipelines(daemon)) == {"p", "q"} and set(previews(daemon)) == {"broken", "same"}
    assert hub.told()[-1] == (new, "success", "2 pipelines set, 1 changed")
    daemon.ctl("update", "source", "team", "--no-preview")
    sync(daemon)
    assert source_of(daemon)["previews"] == []


def test_previews_need_no_status_and_many_branches_take_several_looks(daemon, git, hub, team):
    git.write("pipelines/p.json", spec("p", copy())).push()
    for i in range(25):
        branch(git, f"b{i}", "pipelines/q.json", spec("q", copy("other", note=str(i))) if i % 2 else spec(f"q{i}", copy(f"other{i}")))
    team("--preview")
    assert len(previews(daemon)) == 20
    sync(daemon)
    assert len(previews(daemon)) == 25 and not hub.posts


def test_a_repository_with_too_many_branches_says_so(daemon, git, hub, team):
    git.write("pipelines/p.json", spec("p", copy())).push()
    sha = branch(git, "b", "README.md", "no spec")
    git("push", "-q", "origin", *(f"{sha}:refs/heads/many/{i}" for i in range(501)))
    team("--preview")
    assert [w for w in source_of(daemon)["warnings"] if "more than 500 branches" in w] and len(previews(daemon)) == 20
    git("push", "-q", "origin", *(f":refs/heads/many/{i}" for i in range(500)))
    sync(daemon)
    assert not source_of(daemon)["warnings"] and set(previews(daemon)) == {"b", "many/500"}


def test_previews_of_a_local_repository(make_daemon, git):
    daemon = make_daemon("--git-local-folders", git.bare.parent).start()
    git.write("pipelines/p.json", spec("p", copy())).push()
    sha = branch(git, "next", "pipelines/q.json", spec("q", copy("other")))
    follow(daemon, git, "team", "--preview")
    assert previews(daemon)["next"]["commit"] == sha
    assert [r for r in daemon.get("/runs")["runs"] if r.get("message", "").endswith(sha[:12])] == []


def test_a_preview_does_not_count_pipelines_that_are_stopped_already(make_daemon, git):
    daemon = make_daemon("--git-local-folders", git.bare.parent).start()
    git.write("pipelines/p.json", spec("p", copy())).write("pipelines/q.json", spec("q", copy("other"))).push()
    follow(daemon, git, "team", "--preview", "--prune", "stop")
    git("rm", "-q", "pipelines/q.json")
    branch(git, "early", "README.md", "no spec")
    sync(daemon)
    assert previews(daemon)["early"]["text"] == "would stop 1 pipeline"
    git("rm", "-q", "pipelines/q.json")
    git.push()
    branch(git, "late", "README.md", "no spec, too")
    sync(daemon)
    assert pipelines(daemon)["q"]["state"] == "stopped"
    assert previews(daemon)["late"]["text"] == "would change nothing"
