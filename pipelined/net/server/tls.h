/* tls: the certificate of the process, one for all its listeners, from two PEM files that are read again when they
 * change. Existing connections keep theirs. TLS 1.2 and 1.3 by GnuTLS, which libmicrohttpd uses.
 *
 * There is one per process, because libmicrohttpd's callback does not tell listeners apart. Any thread. */
#pragma once

#include "storage/base/err.h"

#define PL_TLS_CHAIN_MAX  16
#define PL_TLS_SOON_DAYS  14 /* days before its end from which a certificate is warned of when read */
#define PL_TLS_PRIORITIES "SECURE128:-VERS-ALL:+VERS-TLS1.3:+VERS-TLS1.2"

/* Reads the two files: the certificate followed by its chain to the root, and its key without a passphrase.
 * PL_ENOTFOUND, PL_EIO; PL_EINVAL: no certificate or key, they do not match, or all users may read the key. On
 * error the previous certificate stays. */
PL_MUST_CHECK
int pl_tls_open(const char *cert_file, const char *key_file, struct pl_err *err);
/* Reads the files again if one has changed; an error is logged once per change and the previous certificate stays.
 * Accesses the files: not too often, and not on the loop. Does nothing before pl_tls_open. */
void pl_tls_look(void);
/* Frees the certificate; no listener may be left. */
void pl_tls_close(void);
/* libmicrohttpd's MHD_OPTION_HTTPS_CERT_CALLBACK2: a gnutls_certificate_retrieve_function3. */
void *pl_tls_callback(void);
