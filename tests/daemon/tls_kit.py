"""Certificates for tests: a CA of their own, and what it vouches for, by openssl."""

import os
import subprocess


def openssl(*args, cwd):
    subprocess.run(["openssl", *map(str, args)], cwd=cwd, check=True, capture_output=True, timeout=60)


class Authority:
    def __init__(self, folder, name="test CA"):
        self.folder = str(folder)
        os.makedirs(self.folder, exist_ok=True)
        self.ca = os.path.join(self.folder, "ca.pem")
        openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "30", "-subj", f"/CN={name}", "-keyout", "ca.key",
                "-out", "ca.pem", "-addext", "basicConstraints=critical,CA:TRUE", "-addext", "keyUsage=critical,keyCertSign", cwd=self.folder)

    def vouch(self, name="server", hosts=("IP:127.0.0.1", "DNS:localhost"), days=30):
        """A certificate with its key: the paths of both."""
        cert, key = os.path.join(self.folder, name + ".pem"), os.path.join(self.folder, name + ".key")
        openssl("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj", f"/CN={name}", "-keyout", key + ".new", "-out", name + ".csr",
                cwd=self.folder)
        with open(os.path.join(self.folder, name + ".ext"), "w", encoding="utf-8") as f:
            f.write("subjectAltName=" + ",".join(hosts) + "\nextendedKeyUsage=serverAuth\n")
        openssl("x509", "-req", "-in", name + ".csr", "-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-days", days, "-extfile", name + ".ext", "-out",
                cert + ".new", cwd=self.folder)
        os.chmod(key + ".new", 0o600)
        os.replace(key + ".new", key)
        os.replace(cert + ".new", cert)
        return cert, key
