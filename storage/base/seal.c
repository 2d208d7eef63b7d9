/* seal: AES-256-GCM with a random nonce for each secret. The caller's purpose string is the additional
 * authenticated data of the cipher. */
#include "storage/base/seal.h"

#include "storage/base/hash.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>

#define SEAL_VERSION 1
#define NONCE_BYTES  12
#define TAG_BYTES    16

/* Derives the key of this module from the master key, so that keys derived from the master key for other uses
 * reveal nothing about sealed secrets. */
static void derive(const uint8_t master[PL_SEAL_KEY_BYTES], uint8_t out[PL_SEAL_KEY_BYTES])
{
    static const uint8_t label[] = "seal-1";
    unsigned len = PL_SEAL_KEY_BYTES;

    HMAC(EVP_sha256(), master, PL_SEAL_KEY_BYTES, label, sizeof label - 1, out, &len);
}

/* Encrypts (`seal`) or decrypts `in` in one pass, and writes or checks the tag. Returns false if the tag does
 * not match or memory is exhausted. */
static bool pass(bool seal, const uint8_t master[PL_SEAL_KEY_BYTES], const char *purpose, const uint8_t *nonce, const void *in,
                 size_t n, uint8_t *out, uint8_t *tag)
{
    EVP_CIPHER_CTX *ctx = EVP_CIPHER_CTX_new();
    uint8_t key[PL_SEAL_KEY_BYTES];
    int len;
    bool ok;

    derive(master, key);
    ok = ctx && EVP_CipherInit_ex(ctx, EVP_aes_256_gcm(), NULL, key, nonce, seal) == 1 &&
         EVP_CipherUpdate(ctx, NULL, &len, (const uint8_t *)purpose, (int)strlen(purpose)) == 1 &&
         EVP_CipherUpdate(ctx, out, &len, in, (int)n) == 1 &&
         (seal || EVP_CIPHER_CTX_ctrl(ctx, EVP_CTRL_GCM_SET_TAG, TAG_BYTES, tag) == 1) &&
         EVP_CipherFinal_ex(ctx, out + len, &len) == 1 &&
         (!seal || EVP_CIPHER_CTX_ctrl(ctx, EVP_CTRL_GCM_GET_TAG, TAG_BYTES, tag) == 1);
    EVP_CIPHER_CTX_free(ctx);
    OPENSSL_cleanse(key, sizeof key);
    return ok;
}

int pl_seal(const uint8_t master[PL_SEAL_KEY_BYTES], const char *purpose, const void *secret, size_t n, struct pl_buf *out,
            struct pl_err *err)
{
    uint8_t *at;
    int r;

    if (n > PL_SEAL_SECRET_MAX)
        return pl_err_set(err, PL_ELIMIT, "a secret has %zu bytes; at most %d are allowed", n, PL_SEAL_SECRET_MAX);
    r = pl_buf_reserve(out, n + PL_SEAL_EXTRA_BYTES, err);
    if (r < 0)
        return r;
    at = out->data + out->len;
    at[0] = SEAL_VERSION;
    pl_random_bytes(at + 1, NONCE_BYTES);
    if (!pass(true, master, purpose, at + 1, secret, n, at + 1 + NONCE_BYTES, at + 1 + NONCE_BYTES + n))
        return pl_err_nomem(err);
    out->len += n + PL_SEAL_EXTRA_BYTES;
    return 0;
}

int pl_unseal(const uint8_t master[PL_SEAL_KEY_BYTES], const char *purpose, const void *sealed, size_t n, struct pl_buf *out,
              struct pl_err *err)
{
    const uint8_t *from = sealed;
    uint8_t tag[TAG_BYTES];
    size_t secret;
    int r;

    if (n < PL_SEAL_EXTRA_BYTES || n > PL_SEAL_SECRET_MAX + PL_SEAL_EXTRA_BYTES || from[0] != SEAL_VERSION)
        return pl_err_set(err, PL_ECORRUPT, "the stored bytes are not a sealed secret");
    secret = n - PL_SEAL_EXTRA_BYTES;
    memcpy(tag, from + n - TAG_BYTES, TAG_BYTES);
    r = pl_buf_reserve(out, secret + 1, err);
    if (r < 0)
        return r;
    if (!pass(false, master, purpose, from + 1, from + 1 + NONCE_BYTES, secret, out->data + out->len, tag)) {
        OPENSSL_cleanse(out->data + out->len, secret);
        return pl_err_set(err, PL_ECORRUPT, "a sealed secret cannot be decrypted with this master.key");
    }
    out->len += secret;
    return 0;
}
