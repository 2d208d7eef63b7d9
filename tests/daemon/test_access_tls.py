"""Listening: what may be reached from where, TLS with a certificate that changes, and proxies that name users."""

import http.client
import json
import os
import shutil
import signal
import socket
import ssl
import subprocess
import warnings

import pytest
from conftest import BIN, SANITIZER, sh, wait_until
from people import User
from tls_kit import Authority

FAILED, INVALID, NO_SERVER = 1, 5, 6


@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    return Authority(tmp_path_factory.mktemp("ca"))


@pytest.fixture
def pair(authority, tmp_path):
    """A certificate and its key in files of the test's own."""
    cert, key = authority.vouch()
    return str(shutil.copy(cert, tmp_path / "cert.pem")), str(shutil.copy(key, tmp_path / "key.pem"))


def refused(daemon):
    """Starts what must not start; what it said."""
    daemon.start(expect_failure=True)
    assert daemon.process.returncode not in (0, None)
    daemon.process = None
    return daemon.log()


@pytest.fixture
def secure(make_daemon, pair):
    d = make_daemon("--tls-cert", pair[0], "--tls-key", pair[1]).start()
    d.https = d.get("/status")["url"]
    assert d.https.startswith("https://127.0.0.1:") and d.url.startswith("http://127.0.0.1:"), "this machine's own go by a port of theirs"
    d.port = int(d.https.rsplit(":", 1)[1])
    return d


def connect(d, authority, host="127.0.0.1"):
    """A handshake that checks: gives the connection."""
    context = ssl.create_default_context(cafile=authority.ca)
    return context.wrap_socket(socket.create_connection(("127.0.0.1", d.port), timeout=30), server_hostname=host)


def older_tls():
    old = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    old.check_hostname, old.verify_mode = False, ssl.CERT_NONE
    old.set_ciphers("ALL:@SECLEVEL=0")
    old.minimum_version, old.maximum_version = ssl.TLSVersion.TLSv1, ssl.TLSVersion.TLSv1_1
    return old


def serial(d, authority):
    with connect(d, authority) as s:
        return s.getpeercert()["serialNumber"]


def ask(d, authority, method, path, body=None, **headers):
    """Status, headers and body over https."""
    c = http.client.HTTPSConnection("127.0.0.1", d.port, context=ssl.create_default_context(cafile=authority.ca), timeout=60)
    try:
        c.request(method, "/api/v1" + path, body, {"Authorization": "Bearer " + d.token, **headers})
        reply = c.getresponse()
        return reply.status, reply.headers, reply.read()
    finally:
        c.close()


# --- what may listen


@pytest.mark.parametrize("listen", ["0.0.0.0:0", "192.0.2.1:7380", "[::]:0", "somewhere.example:80"])
def test_nothing_beyond_this_machine_without_tls(make_daemon, listen):
    for option in ("--listen", "--s3-listen"):
        said = refused(make_daemon(option, listen))
        assert f"{option} {listen} can be reached from other machines" in said and "--tls-cert" in said and "--behind-proxy" in said, said


def test_behind_a_proxy_it_may(make_daemon):
    said = refused(make_daemon("--listen", "192.0.2.1:7380", "--behind-proxy"))  # no address of this machine: that it tried is enough
    assert "listen on 192.0.2.1:7380" in said and "beyond" not in said, said


def test_what_tls_cannot_be_made_of_is_named(make_daemon, authority, pair, tmp_path):
    cert, key = pair
    other = authority.vouch("other")[1]
    nothing = tmp_path / "nothing.pem"
    nothing.write_text("no certificate\n")
    open_key = shutil.copy(key, tmp_path / "open.key")
    os.chmod(open_key, 0o644)
    for options, said in (
        (["--tls-cert", cert], "--tls-cert is given without --tls-key"),
        (["--tls-key", key], "--tls-key is given without --tls-cert"),
        (["--tls-cert", cert, "--tls-key", other], "does not belong to the certificate"),
        (["--tls-cert", str(nothing), "--tls-key", key], "holds no certificate in PEM"),
        (["--tls-cert", cert, "--tls-key", cert], "all users of this machine can read the key" if os.stat(cert).st_mode & 7 else "holds no key in PEM"),
        (["--tls-cert", cert, "--tls-key", open_key], "all users of this machine can read the key"),
        (["--tls-cert", str(tmp_path / "nix"), "--tls-key", key], "nix"),
    ):
        log = refused(make_daemon(*options))
        assert said in log, (options, log)


# --- TLS


def test_a_handshake_that_checks(secure, authority, tmp_path):
    d = secure
    assert json.loads(ask(d, authority, "GET", "/whoami")[2])["name"] == "daemon"
    with connect(d, authority) as s:
        assert s.version() in ("TLSv1.2", "TLSv1.3")
    with pytest.raises(ssl.SSLCertVerificationError):
        connect(d, Authority(tmp_path / "another"))
    with pytest.raises(ssl.SSLCertVerificationError):
        connect(d, authority, "pipelined.example")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it is deprecated: that is the point
        old = older_tls()
    with pytest.raises(OSError):
        old.wrap_socket(socket.create_connection(("127.0.0.1", d.port), timeout=30))
    with socket.create_connection(("127.0.0.1", d.port), timeout=30) as plain:
        plain.sendall(b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
        assert plain.makefile("rb").read().startswith(b"HTTP/1.1 400 ")
    told = d.ctl("--server", d.https.replace("https", "http"), "list", "repo", ok=False)
    assert told.code == INVALID and "this port speaks HTTPS" in told.err and "https://" in told.err
    told = d.ctl("--server", d.url.replace("http", "https"), "list", "repo", ok=False)
    assert told.code == NO_SERVER and "does not speak TLS" in told.err and "http://" in told.err, told.err


def test_a_certificate_that_has_ended_is_refused_and_told_of(make_daemon, authority, tmp_path):
    cert, key = authority.vouch("ended", days=-1)
    d = make_daemon("--tls-cert", cert, "--tls-key", key).start()
    assert "expired on" in d.log()
    told = d.ctl("--server", d.get("/status")["url"], "--ca", authority.ca, "list", "repo", ok=False)
    assert told.code == NO_SERVER and "certificate" in told.err and "not trusted" in told.err, told.err
    assert d.ctl("list", "repo", ok=False).code == 0, "this machine's own go by their own port"


def test_everything_goes_over_tls(secure, authority):
    """Bodies both ways, streams, refusals in the middle of a body, many requests on one connection."""
    d = secure
    d.default.repo("data")
    big = os.urandom(9 << 20)
    status, _, _ = ask(d, authority, "PUT", "/repos/default/data/branches/master/files/big", big)
    assert status in (200, 201)
    status, headers, got = ask(d, authority, "GET", "/repos/default/data/refs/master/files/big")
    assert (status, got == big) == (200, True)
    assert ask(d, authority, "GET", "/repos/default/data/refs/master/files/big", Range="bytes=1000-1999")[2] == big[1000:2000]
    with connect(d, authority) as s:  # a long body that is refused is answered before it is sent
        s.sendall(b"PUT /api/v1/repos/default/data/branches/master/files/x HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 1000000000\r\n\r\n" + b"x" * 70000)
        assert s.recv(4096).startswith(b"HTTP/1.1 401 ")
    with connect(d, authority) as s:  # events, as they come
        s.sendall(f"GET /api/v1/events HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {d.token}\r\n\r\n".encode())
        reader = s.makefile("rb")
        while reader.readline().strip():
            pass
        d.default.repo("seen")
        while b'"repo":"seen"' not in reader.readline():
            pass
    c = http.client.HTTPSConnection("127.0.0.1", d.port, context=ssl.create_default_context(cafile=authority.ca), timeout=60)
    for i in range(300):
        c.request("GET", f"/api/v1/repos?limit={i + 1}", headers={"Authorization": "Bearer " + d.token})
        reply = c.getresponse()
        assert (reply.status, len(json.loads(reply.read())["repos"])) == (200, min(2, i + 1))
    c.close()


def test_the_s3_gateway_speaks_it_too(make_daemon, authority, pair):
    d = make_daemon("--tls-cert", pair[0], "--tls-key", pair[1], "--s3-listen", "127.0.0.1:0").start()
    url = d.get("/status")["s3_url"]
    assert url.startswith("https://127.0.0.1:")
    c = http.client.HTTPSConnection("127.0.0.1", int(url.rsplit(":", 1)[1]), context=ssl.create_default_context(cafile=authority.ca), timeout=60)
    c.request("GET", "/")
    reply = c.getresponse()
    assert reply.status == 403 and b"AccessDenied" in reply.read()


def test_a_stage_runs_and_pipelinectl_logs_in(secure, authority, tmp_path):
    d = secure
    d.default.repo("in").stages(sh("s", "cp $PL_INPUT_IN/* $PL_OUT"))
    d.default.run("in", {"x": "1"})
    user = User(d, "bob", ("", "writer"))

    def ctl(*args, **env):
        done = subprocess.run([os.path.join(BIN, "pipelinectl"), *args], input=user.token, capture_output=True, text=True, cwd=tmp_path, timeout=120, check=False,
                              env={"PATH": os.environ["PATH"], "HOME": str(tmp_path), "XDG_DATA_HOME": str(tmp_path / "none"), **env})
        assert not SANITIZER.search(done.stderr), done.stderr
        return done

    done = ctl("login", d.https)
    assert done.returncode == NO_SERVER and "is not trusted here" in done.stderr and "--ca FILE" in done.stderr
    shutil.copy(authority.ca, tmp_path / "ca.pem")
    assert ctl("login", d.https, "--ca", "nix.pem").returncode == 3
    assert ctl("login", d.https, "--ca", "ca.pem").returncode == 0
    (tmp_path / "below").mkdir()
    assert "x" in ctl("--project", "default", "list", "file", "s@master").stdout, "the context knows its CA"
    assert ctl("get", "file", "s@master", "-r", "-o", "got").returncode == 0 and (tmp_path / "got" / "x").read_text() == "1"
    assert ctl("--server", d.https, "status", PIPELINED_CA=str(tmp_path / "ca.pem")).returncode == 0
    run = d.get("/runs")["runs"][0]["id"]
    assert "1" in ctl("--project", "default", "try", "s", "--at", run, "-o", "tried").stderr + (tmp_path / "tried" / "x").read_text(), "its worker trusts, too"
    link = d.http("POST", "/api/v1/login-links", token=user.token)["url"]
    assert link.startswith(d.https + "/login?token=")
    path = link[len(d.https):]
    c = http.client.HTTPSConnection("127.0.0.1", d.port, context=ssl.create_default_context(cafile=authority.ca), timeout=60)
    c.request("GET", path, headers=NO_PORT)
    reply = c.getresponse()
    cookie = reply.headers["Set-Cookie"]
    assert reply.status == 303 and "; Secure" in cookie and "HttpOnly" in cookie and "SameSite=Strict" in cookie
    cookie = cookie.split(";")[0]
    assert json.loads(ask_with_cookie(d, authority, cookie))["name"] == "bob"
    d.stop()
    d.start()
    d.https = d.get("/status")["url"]
    d.port = int(d.https.rsplit(":", 1)[1])
    assert json.loads(ask_with_cookie(d, authority, cookie))["name"] == "bob", "a session outlives a restart"
    bob = {"PIPELINED_URL": d.https, "PIPELINED_TOKEN": user.token, "PIPELINED_CA": str(tmp_path / "ca.pem")}
    listed = ctl("list", "login-session", **bob).stdout.splitlines()
    session = listed[1].split()[0]
    assert listed[0].split()[:2] == ["SESSION", "USER"] and "bob" in listed[1] and "good" in listed[1], listed
    assert ctl("delete", "login-session", session[:6], **bob).returncode == 0
    assert ask_with_cookie(d, authority, cookie, status=True) == 401 and ctl("delete", "login-session", session[:6], **bob).returncode == 3


NO_PORT = {"Host": "127.0.0.1"}  # a cookie has the port in its name, and the daemon gets another one when it starts again


def ask_with_cookie(d, authority, cookie, status=False):
    c = http.client.HTTPSConnection("127.0.0.1", d.port, context=ssl.create_default_context(cafile=authority.ca), timeout=60)
    c.request("GET", "/api/v1/whoami", headers={"Cookie": cookie, **NO_PORT})
    reply = c.getresponse()
    return reply.status if status else reply.read()


def test_a_page_that_came_without_tls_changes_nothing_over_it(secure, authority):
    """Who sits on the way can show any page as http:// of the daemon's own host and port."""
    body = json.dumps({"name": "by-a-page"})
    own, plain = f"https://127.0.0.1:{secure.port}", f"http://127.0.0.1:{secure.port}"
    status, _, said = ask(secure, authority, "POST", "/repos", body, Origin=plain)
    assert (status, json.loads(said)["error"]["code"]) == (403, "foreign_origin"), said
    assert ask(secure, authority, "POST", "/repos", body, Origin=own)[0] == 201
    assert ask(secure, authority, "GET", "/repos", Origin=plain)[0] == 200


@pytest.mark.parametrize("how", ["by itself", "on SIGHUP"])
def test_a_new_certificate_is_shown(secure, authority, pair, how):
    d = secure
    before = serial(d, authority)
    cert, key = authority.vouch("newer")
    with connect(d, authority) as standing:
        shutil.copy(key, pair[1] + ".new")
        shutil.copy(cert, pair[0] + ".new")
        os.replace(pair[1] + ".new", pair[1])
        os.replace(pair[0] + ".new", pair[0])
        if how == "on SIGHUP":
            d.process.send_signal(signal.SIGHUP)
        wait_until(lambda: serial(d, authority) != before, "the new certificate")
        standing.sendall(f"GET /api/v1/whoami HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {d.token}\r\n\r\n".encode())
        assert standing.recv(100).startswith(b"HTTP/1.1 200")


def test_a_certificate_that_is_none_leaves_the_one_before(secure, authority, pair):
    d = secure
    before = serial(d, authority)
    with open(pair[0] + ".new", "w", encoding="utf-8") as f:
        f.write("nothing\n")
    os.replace(pair[0] + ".new", pair[0])
    d.process.send_signal(signal.SIGHUP)
    wait_until(lambda: "the old certificate stays in use" in d.log(), "the complaint")
    assert serial(d, authority) == before


def test_a_key_that_others_may_read_leaves_the_one_before(secure, authority, pair):
    d = secure
    before = serial(d, authority)
    os.chmod(pair[1], 0o644)
    for _ in range(3):
        d.process.send_signal(signal.SIGHUP)
    wait_until(lambda: "the old certificate stays in use" in d.log(), "the complaint")
    assert d.log().count("the old certificate stays in use") == 1 and serial(d, authority) == before


# --- proxies


def from_address(d, address, path, **headers):
    c = http.client.HTTPConnection("127.0.0.1", int(d.url.rsplit(":", 1)[1]), timeout=60, source_address=(address, 0))
    try:
        c.request("GET", "/api/v1" + path, headers=headers)
        reply = c.getresponse()
        return reply.status, json.loads(reply.read())
    finally:
        c.close()


def test_a_user_whom_a_proxy_names(make_daemon):
    d = make_daemon("--behind-proxy", "--auth-proxy-header", "X-Forwarded-User", "--auth-proxy-addresses", "127.0.0.2, 127.0.9.0/24").start()
    assert "can act as any user" in d.log()
    bob = User(d, "bob@example.org", ("", "reader"))
    d.default.repo("data")
    for address in ("127.0.0.2", "127.0.9.77"):
        assert from_address(d, address, "/whoami", **{"x-forwarded-user": bob.name})[1]["name"] == bob.name
        assert from_address(d, address, "/repos/default/data", **{"X-Forwarded-User": bob.name})[0] == 200
    for address in ("127.0.0.1", "127.0.0.3", "127.0.8.255", "127.0.10.0"):
        status, answer = from_address(d, address, "/whoami", **{"X-Forwarded-User": bob.name})
        assert status == 401 and "not that of a proxy that may name a user" in answer["error"]["message"], address
    assert from_address(d, "127.0.0.2", "/whoami", **{"X-Forwarded-User": "eve"})[0] == 401, "who is no user here is nobody"
    assert from_address(d, "127.0.0.2", "/whoami", **{"X-Forwarded-User": "daemon"})[0] == 401
    assert from_address(d, "127.0.0.2", "/whoami")[0] == 401
    admin = User(d, "admin", ("", "admin"))
    twice = socket.create_connection(("127.0.0.1", int(d.url.rsplit(":", 1)[1])), timeout=60, source_address=("127.0.0.2", 0))
    twice.sendall(f"GET /api/v1/users HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Forwarded-User: {admin.name}\r\nx-forwarded-user: {bob.name}\r\n\r\n".encode())
    assert twice.recv(100).startswith(b"HTTP/1.1 401 "), "one of the two is whoever asks"
    twice.close()
    told = from_address(d, "127.0.0.1", "/whoami", **{"X-Forwarded-User": "eve", "Authorization": "Bearer " + bob.token})
    assert (told[0], told[1]["name"]) == (200, bob.name), "a token counts before a header"
    d.http("DELETE", "/api/v1/users/bob%40example.org")
    assert from_address(d, "127.0.0.2", "/whoami", **{"X-Forwarded-User": bob.name})[0] == 401


def test_what_the_proxy_header_wants_is_said(make_daemon):
    behind = ["--behind-proxy", "--auth-proxy-header", "X-User"]
    for options, said in (
        (["--auth-proxy-header", "X-User", "--auth-proxy-addresses", "10.0.0.3"], "auth.proxy_header is set without --behind-proxy"),
        (behind, "without auth.proxy_addresses"),
        (behind + ["--auth-proxy-addresses", "10.0.0.300"], '"10.0.0.300" is neither an address nor a network'),
        (behind + ["--auth-proxy-addresses", "10.0.0.0/33"], "is neither"),
        (["--public-url", "somewhere"], "public_url"), (["--worker-url", "ftp://x"], "worker_url"),
    ):
        log = refused(make_daemon(*options))
        assert said in log, (options, log)


def test_the_file_has_it_as_an_object(make_daemon, tmp_path):
    config = tmp_path / "c.json"
    config.write_text(json.dumps({"auth": {"proxy_header": "X-User", "proxy_addresses": "127.0.0.2"}, "behind_proxy": True}))
    d = make_daemon("--config", str(config)).start()
    User(d, "bob", ("", "reader"))
    assert from_address(d, "127.0.0.2", "/whoami", **{"X-User": "bob"})[0] == 200
    config.write_text(json.dumps({"auth": {"proxy_haeder": "X-User"}}))
    assert 'did you mean "auth.proxy_header"' in refused(make_daemon("--config", str(config)))
    config.write_text(json.dumps({"behind_proxy": "yes"}))
    assert "behind_proxy must be true or false" in refused(make_daemon("--config", str(config)))


def test_the_hosts_of_the_urls_are_ours(make_daemon):
    d = make_daemon("--public-url", "https://people.example/pl", "--worker-url", "http://inside.example:7380").start()
    for host, status in (("people.example", 200), ("inside.example:7380", 200), ("inside.example", 421), ("other.example", 421)):
        assert from_address(d, "127.0.0.1", "/whoami", Host=host, Authorization="Bearer " + d.token)[0] == status, host


def test_wrong_tokens_of_one_address_do_not_slow_another(make_daemon):
    d = make_daemon().start()
    wrong = {"Authorization": "Bearer wrong"}
    wait_until(lambda: from_address(d, "127.0.0.3", "/whoami", **wrong)[0] == 503, "the address to be turned away")
    assert from_address(d, "127.0.0.4", "/whoami", **wrong)[0] == 401
    assert from_address(d, "127.0.0.3", "/whoami", Authorization="Bearer " + d.token)[0] == 200
