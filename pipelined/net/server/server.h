/* net/server: HTTP/1.1 server over libmicrohttpd, server-sent events, TLS certificate.
 *
 * In:      Connections.
 * Out:     Requests for handlers; responses and streams.
 * Uses:    net/loop, text, storage/{base, http, system}
 * Threads: libmicrohttpd's threads move bytes; handlers run on loop or pool.
 *
 * Headers for other rooms:
 *   http_server    HTTP server: listeners, threads, life of a request
 *   sse            server-sent events from a ring of recent events
 *   tls            the listeners' certificate, reloaded when it changes
 *
 * Inside:
 *   http_body      streams a request body into a sink
 *   http_internal  state shared by the server's files
 *   http_peer      the local user at the other end of a connection
 *   http_reply     responses
 *   http_request   request line, arguments, headers, cookies
 *   http_route     matches a request to a route
 *   http_stream    streamed responses
 *   http_timeouts  closes connections that do not complete a request in time */
#pragma once
