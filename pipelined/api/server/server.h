/* api/server: Start and stop of the REST API, state shared by handlers, OpenAPI document, events, web page.
 *
 * In:      Configuration, tables of routes.
 * Out:     Listeners; parsed requests for handlers.
 * Uses:    api/{graph_view, transfer}, db/{gc, stage_log, writer}, engine, policy, text, net/{loop, server}, storage/{base, store,
 *          system}
 * Threads: HTTP threads and pool.
 *
 * Headers for other rooms:
 *   api             the API's configuration, start and stop
 *   api_context     the API's state and helpers for route handlers
 *
 * Inside:
 *   openapi         OpenAPI document from the route tables
 *   request_params  bodies, pages and names of a request
 *   routes_events   event stream and event pages
 *   routes_openapi  the OpenAPI document as a route
 *   routes_page     web page, health checks, login link
 *   run_waiters     requests that wait for the end of a run
 *   web_page        files of the embedded web page */
#pragma once
