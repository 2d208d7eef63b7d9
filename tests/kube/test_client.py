"""Our client against a real API server: the rows that the fake one is asked too, and every way to say who we are."""
import os
import pathlib
import subprocess

import control_plane
import pytest

ROWS = pathlib.Path(os.environ["PL_BIN"]) / "pl-kube-rows"


def rows(kubeconfig, *words):
    return subprocess.run([ROWS, kubeconfig, *words], capture_output=True, text=True, check=False, timeout=200)


def test_what_any_api_server_must_do(plane):
    done = rows(plane.kubeconfig(), "rows")
    assert done.returncode == 0, done.stdout + done.stderr


def plugin(plane, token):
    script = plane.folder / "plugin"
    script.write_text("#!/bin/sh\necho '{\"apiVersion\":\"client.authentication.k8s.io/v1\",\"kind\":\"ExecCredential\",\"status\":"
                      f"{{\"token\":\"{token}\"}}}}'\n", encoding="ascii")
    script.chmod(0o700)
    return {"exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": "./plugin", "interactiveMode": "Never"}}


@pytest.mark.parametrize("name", ["token", "file", "certificate", "certificate-data", "plugin"])
def test_every_way_to_say_who_we_are(plane, name):
    (plane.folder / "token").write_text(control_plane.ADMIN + "\n", encoding="ascii")
    users = {"token": {"token": control_plane.ADMIN}, "file": {"tokenFile": "token"},
             "certificate": {"client-certificate": "certs/client.crt", "client-key": "certs/client.key"},
             "certificate-data": {"client-certificate-data": plane.pem("client.crt"), "client-key-data": plane.pem("client.key")},
             "plugin": plugin(plane, control_plane.ADMIN)}
    done = rows(plane.kubeconfig(name, users[name]), "namespaces")
    assert done.returncode == 0 and "default" in done.stdout.split(), done.stdout + done.stderr


def test_the_ca_may_be_in_the_file_and_the_server_may_have_another_name(plane):
    cluster = {"certificate-authority-data": plane.pem("apiserver.crt")}
    assert rows(plane.kubeconfig("data", **cluster), "namespaces").returncode == 0
    done = rows(plane.kubeconfig("name", **cluster, **{"tls-server-name": "kubernetes.default"}), "namespaces")
    assert done.returncode == 0, done.stderr
    done = rows(plane.kubeconfig("other", **cluster, **{"tls-server-name": "elsewhere.test"}), "namespaces")
    assert done.returncode == 1 and "elsewhere.test" in done.stderr
    done = rows(plane.kubeconfig("insecure", **{"certificate-authority": "", "insecure-skip-tls-verify": True}), "namespaces")
    assert done.returncode == 0, done.stderr


def test_who_is_not_trusted_and_who_is_nobody_is_said(plane):
    done = rows(plane.kubeconfig("foreign", **{"certificate-authority": "certs/ca.crt"}), "namespaces")
    assert done.returncode == 1 and "certificate" in done.stderr
    done = rows(plane.kubeconfig("wrong", {"token": "nonsense"}), "namespaces")
    assert done.returncode == 1 and "Unauthorized" in done.stderr
    done = rows(plane.kubeconfig("nobody", {"token": control_plane.NOBODY}), "namespaces")
    assert done.returncode == 1 and 'namespaces is forbidden: User "nobody" cannot list resource "namespaces"' in done.stderr


def test_what_we_may_is_asked_and_what_is_off_is_said(plane):
    assert rows(plane.kubeconfig(), "access").stdout == "pods: yes\n"
    done = rows(plane.kubeconfig("nobody", {"token": control_plane.NOBODY}), "access")
    assert done.returncode == 0 and done.stdout.startswith("pods: no\ncreate pods, get pods, list pods, watch pods, delete pods: not allowed: "), done.stderr
    rules = [{"apiGroups": [""], "resources": ["pods"], "verbs": ["create", "get", "list", "watch", "delete"]},
             {"apiGroups": [""], "resources": ["configmaps", "secrets"], "verbs": ["get"]},
             {"apiGroups": [""], "resources": ["events"], "verbs": ["list", "watch"]}]
    api = "/apis/rbac.authorization.k8s.io/v1/namespaces/default"
    assert plane.request("POST", f"{api}/roles", {"metadata": {"name": "few"}, "rules": rules})[0] == 201
    assert plane.request("POST", f"{api}/rolebindings", {
        "metadata": {"name": "few"}, "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "few"},
        "subjects": [{"kind": "User", "name": "nobody", "apiGroup": "rbac.authorization.k8s.io"}]})[0] == 201
    plane.until("the right", lambda: plane.request("GET", "/api/v1/namespaces/default/pods", token=control_plane.NOBODY)[0] == 200)
    lines = rows(plane.kubeconfig("nobody", {"token": control_plane.NOBODY}), "access").stdout.splitlines()
    assert lines[0] == "pods: yes" and len(lines) == 11, lines
    assert any(line.startswith("create events: not allowed: ") for line in lines)
    assert any(line.startswith("list nodes (cluster), watch nodes (cluster): not allowed: ") for line in lines)
