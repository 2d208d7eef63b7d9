/* web_page: replies with the files of the embedded web page (pl_web.h).
 *
 *   /runs/c41d  ──▶ index.html with <base href="../">: its addresses hold below any path that a proxy adds
 *   /ui/NAME    ──▶ the file, in an encoding that the client accepts; its name has a hash, so it is kept for ever
 *
 * Any thread. */
#pragma once

#include "pipelined/net/server/http_server.h"

/* Replies with index.html, made for the depth of the request's path. PL_EUNAVAILABLE: built without a page. */
void pl_web_page_reply_index(struct pl_http_request *req, unsigned status);
/* Replies with the file ui/`name`. PL_ENOTFOUND; PL_EUNAVAILABLE: built without a page. */
void pl_web_page_reply_file(struct pl_http_request *req, const char *name);
