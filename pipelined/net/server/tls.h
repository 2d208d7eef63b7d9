/* tls: the certificate that this program shows: one, for all its listeners, out of two PEM files, which are read anew when they change.
 * Connections that stand keep what they began with. TLS 1.2 and 1.3, by GnuTLS, which libmicrohttpd is built on.
 *
 * One a process, because libmicrohttpd tells its callback nothing by which to tell listeners apart. Any thread. */
#pragma once

#include "storage/base/err.h"

#define PL_TLS_CHAIN_MAX  16
#define PL_TLS_SOON_DAYS  14 /* a certificate that ends within so many days is warned of when it is read */
#define PL_TLS_PRIORITIES "SECURE128:-VERS-ALL:+VERS-TLS1.3:+VERS-TLS1.2"

/* Reads the two files: the certificate with those that lead to its root behind it, and its key without a passphrase. PL_ENOTFOUND, PL_EIO;
 * PL_EINVAL: no certificate or key, the key is another's, or all the world may read it. On an error what was there before stays. */
PL_MUST_CHECK
int pl_tls_open(const char *cert_file, const char *key_file, struct pl_err *err);
/* Reads them again when one of them has changed; what is wrong is logged, once, and the certificate of before stays. Looks at the files:
 * not too often, and not on the loop. Nothing before pl_tls_open. */
void pl_tls_look(void);
/* Forgets all; no listener may be left. */
void pl_tls_close(void);
/* libmicrohttpd's MHD_OPTION_HTTPS_CERT_CALLBACK2: a gnutls_certificate_retrieve_function3. */
void *pl_tls_callback(void);
