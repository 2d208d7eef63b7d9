/* seal: encrypts small secrets for storage: AES-256-GCM (OpenSSL) under a key derived from the machine's
 * master key. A sealed secret has this layout:
 *
 *      u8 version = 1 │ nonce 12 bytes │ ciphertext, as long as the secret │ tag 16 bytes
 *
 * The string `purpose` is authenticated together with the secret: a secret that was sealed for one purpose
 * cannot be opened for another one. Any thread. */
#pragma once

#include "storage/base/buf.h"

#define PL_SEAL_KEY_BYTES   32
#define PL_SEAL_EXTRA_BYTES 29   /* bytes that sealing adds to the secret */
#define PL_SEAL_SECRET_MAX  4096 /* maximum size of a secret, in bytes */

/* Seals `n` bytes and appends the result to `out`. PL_ELIMIT (secret too long), PL_ENOMEM, PL_ETOOBIG. */
PL_MUST_CHECK
int pl_seal(const uint8_t master[PL_SEAL_KEY_BYTES], const char *purpose, const void *secret, size_t n, struct pl_buf *out,
            struct pl_err *err);
/* Opens a sealed secret and appends it to `out`. PL_ECORRUPT: it was sealed under another key or for another
 * purpose, or it was modified. PL_ENOMEM, PL_ETOOBIG. */
PL_MUST_CHECK
int pl_unseal(const uint8_t master[PL_SEAL_KEY_BYTES], const char *purpose, const void *sealed, size_t n, struct pl_buf *out,
              struct pl_err *err);
