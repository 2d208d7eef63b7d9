#!/bin/sh
# certificate.sh [NAME…]: makes the daemon's certificate in tls/ beside this file, and the authority that stages' pods check it with.
# NAMEs are more names or addresses by which people reach the daemon. An authority that is there is kept; the certificate is made anew.
# With cert-manager or a company's authority, put tls.crt, tls.key and ca.crt there yourself.
set -eu

folder=$(cd "$(dirname "$0")" && pwd)/tls
names=DNS:pipelined.pipelined.svc,DNS:pipelined.pipelined.svc.cluster.local,DNS:pipelined.pipelined,DNS:localhost,IP:127.0.0.1,IP:::1
for name in "$@"; do
    case $name in
    *:* | *[0-9].[0-9]*.[0-9]*.[0-9]*) names=$names,IP:$name ;;
    *) names=$names,DNS:$name ;;
    esac
done
umask 077
mkdir -p "$folder"
cd "$folder"
if [ ! -s ca.key ]; then
    openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -keyout ca.key -out ca.crt -days 3650 \
        -subj "/CN=pipelined" -addext "basicConstraints=critical,CA:TRUE" -addext "keyUsage=critical,keyCertSign"
fi
openssl req -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -keyout tls.key -out tls.csr -subj "/CN=pipelined.pipelined.svc"
printf 'subjectAltName=%s\nextendedKeyUsage=serverAuth\nbasicConstraints=CA:FALSE\n' "$names" >extensions
openssl x509 -req -in tls.csr -CA ca.crt -CAkey ca.key -CAcreateserial -out tls.crt -days 825 -extfile extensions
rm -f tls.csr extensions
echo "$folder: ca.crt, tls.crt and tls.key for $names; keep ca.key somewhere safe"
