/* s3gateway/formats: S3 error codes, checksums, aws-chunked framing, files of multipart uploads.
 *
 * In:      Bytes.
 * Out:     Verified bytes, XML errors.
 * Uses:    net/server, storage/{base, s3, system, tree}
 * Threads: One object, one thread.
 *
 * Headers for other rooms:
 *   s3_checksum        checksums that S3 clients send
 *   s3_chunked         aws-chunked body framing
 *   s3_cors            CORS rules of buckets
 *   s3_error           S3 error codes
 *   s3_tags            tags of objects
 *   s3_upload_file     files of multipart uploads in progress
 *   s3_version_merge   page of ListObjectVersions, from the changes of commits
 *
 * Inside:
 *   completed_uploads  results of completed multipart uploads, for repeated requests */
#pragma once
