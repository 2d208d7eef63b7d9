/* seal: small secrets at rest: AES-256-GCM (OpenSSL) under a key that is drawn from the master key of the machine.
 *
 *   u8 1 │ nonce 12 │ ciphertext, as long as the secret │ tag 16
 *
 * What a secret is for is bound to it: sealed for one purpose it does not open for another. Any thread. */
#pragma once

#include "storage/base/buf.h"

#define PL_SEAL_KEY_BYTES   32
#define PL_SEAL_EXTRA_BYTES 29   /* beside the secret itself */
#define PL_SEAL_SECRET_MAX  4096 /* bytes of a secret */

/* Appends the sealed secret. PL_ELIMIT, PL_ENOMEM. */
PL_MUST_CHECK
int pl_seal(const uint8_t master[PL_SEAL_KEY_BYTES], const char *purpose, const void *secret, size_t n, struct pl_buf *out,
            struct pl_err *err);
/* Appends the secret. PL_ECORRUPT: it was sealed under another key or for another purpose, or is not what was sealed. */
PL_MUST_CHECK
int pl_unseal(const uint8_t master[PL_SEAL_KEY_BYTES], const char *purpose, const void *sealed, size_t n, struct pl_buf *out,
              struct pl_err *err);
