/* crc32c: CRC-32C (Castagnoli's polynomial, RFC 3720), the checksum of the header x-amz-checksum-crc32c in
 * S3. Uses the processor's CRC32 instruction if it has one. Pure; any thread. */
#pragma once

#include "storage/base/base.h"

#include <sys/uio.h>

/* Continues a checksum over `n` bytes; `crc` is 0 at first, then the previous result. */
uint32_t pl_crc32c(uint32_t crc, const void *data, size_t n);
/* Writes a checksum in S3's form: base64 of its four bytes, most significant first. Returns `out`. */
#define PL_CRC32C_BASE64 8
char *pl_crc32c_base64(uint32_t crc, char out[PL_CRC32C_BASE64 + 1]);
