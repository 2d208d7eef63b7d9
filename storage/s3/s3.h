/* storage/s3: The S3 protocol: URLs, credentials, Signature V4 in both directions, XML documents, retries.
 *
 * In:      Method, key, body; or a received request to verify.
 * Out:     A classified response; or the access key and the result of the verification.
 * Uses:    storage/{base, http, system}
 * Threads: Any thread; callbacks on the I/O thread of storage/http.
 *
 * Headers for other rooms:
 *   crc32c               CRC-32C checksum
 *   s3_client            signed S3 requests with retries and a request queue
 *   s3_credentials       chooses and renews credentials
 *   s3_profile           reads the shared AWS credentials and config files
 *   s3_response          classifies S3 responses and builds their error messages
 *   s3_url               parses s3:// URLs and builds object URLs
 *   s3_xml               strict reader and writer of S3 XML documents
 *   sigv4                Signature Version 4: canonical request, signing key, signature
 *   sigv4_encoding       parses query strings into parameters, finds parameters and headers
 *   sigv4_verify         verifies Signature Version 4 of a received request
 *
 * Inside:
 *   s3_credentials_http  credential sources that are queried over HTTP */
#pragma once
