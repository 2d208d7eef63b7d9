/* tls: the TLS certificate of the process, which all its listeners use. It is read from two PEM files, and again when
 * they change; existing connections keep the old one. TLS 1.2 and 1.3 by GnuTLS, which libmicrohttpd uses.
 *
 * There is only one certificate for all listeners, because libmicrohttpd's callback does not tell which listener a
 * connection belongs to. Any thread. */
#pragma once

#include "storage/base/err.h"

#define PL_TLS_CHAIN_MAX 16
/* a certificate that expires within this number of days causes a warning when it is read */
#define PL_TLS_SOON_DAYS  14
#define PL_TLS_PRIORITIES "SECURE128:-VERS-ALL:+VERS-TLS1.3:+VERS-TLS1.2"

/* Reads two files: one with the certificate followed by its chain to the root, one with its key, without a
 * passphrase. PL_ENOTFOUND, PL_EIO; PL_EINVAL: a file has no certificate or key, the two do not match, or all
 * users may read the key. On error the previous certificate stays in use. */
PL_MUST_CHECK
int pl_tls_open(const char *cert_file, const char *key_file, struct pl_err *err);
/* Reads the files again if one has changed. An error is logged once for each change, and the previous
 * certificate stays in use. Accesses the files, so call it not too often, and not on the loop. Does nothing
 * before pl_tls_open. */
void pl_tls_look(void);
/* Frees the certificate. Call it when there is no listener any more. */
void pl_tls_close(void);
/* Callback for libmicrohttpd's MHD_OPTION_HTTPS_CERT_CALLBACK2 (a gnutls_certificate_retrieve_function3). */
void *pl_tls_callback(void);
