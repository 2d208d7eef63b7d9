/* storage/http: HTTP requests to object stores and to the Kubernetes API, by libcurl; rules for connections to other servers.
 *
 * In:      A request with its buffers and an optional cancel flag.
 * Out:     Status, headers and body, or one error per attempt; the caller retries.
 * Uses:    storage/base
 * Threads: One I/O thread of its own; start from any thread.
 *
 * Headers for other rooms:
 *   cancel              per-thread cancel flag of blocking requests
 *   curl_library        loads libcurl on first use
 *   http_io             concurrent HTTP exchanges on one curl-multi thread
 *   ip_network          IP addresses and networks
 *   loopback_host       recognizes names and addresses of this machine
 *   outbound            servers that the daemon may connect to for its users
 *   trace_context       trace of the request that a thread works for
 *   uri                 percent-encoding
 *
 * Inside:
 *   http_response_head  parses the response headers of an exchange */
#pragma once
