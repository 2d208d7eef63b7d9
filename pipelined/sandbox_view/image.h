/* image: container images on one machine. podman fetches and keeps them; our own sandbox shows their files.
 *
 * No container is run: the sandbox of a stage (agent/sandbox) shows the image's files in the place of this
 * machine's, with the same rules otherwise. So a datum costs the same with an image as without. podman mounts an
 * image read-only; its layers are on disk once for all images and workers.
 *
 * A user that is not root has the images in a user namespace, which a waiting process of podman keeps open. Their
 * files are visible only inside: pl_image_enter.
 *
 * Any thread; a call blocks as long as podman works. */
#pragma once

#include "pipelined/spec/spec.h"
#include "storage/base/err.h"

#include <jansson.h>
#include <sys/types.h>

#define PL_IMAGE_PODMAN "podman"
/* how long a fetch of an image may take */
#define PL_IMAGE_FETCH_MS      (6 * 3600 * INT64_C(1000))
#define PL_SANDBOX_SHEBANG_MAX 256  /* bytes of the kernel's buffer for a first line "#!…" */
#define PL_IMAGE_NAME_MAX      512u /* most bytes of an image's name */
/* most bytes of a description (pl_image.doc) as text, which the agent gets as one argument */
#define PL_IMAGE_TEXT_MAX 100000u
/* exit code of the agent's --get-image if no other try will do better */
#define PL_IMAGE_EXIT_HOPELESS 2

/* An image of this machine. `doc` is the argument of the agent's option --image. */
struct pl_image {
    json_t *doc;        /* owner of all texts: {"name", "root", "digest", "env", "holder"} */
    const char *name;   /* as the stage has it */
    const char *root;   /* folder with the image's files */
    const char *digest; /* "docker.io/library/debian@sha256:…"; of an image without a registry its id */
    const char *path;   /* PATH of its variables; NULL = none */
    const json_t *env;  /* list of "NAME=VALUE" */
    pid_t holder;       /* the process that keeps the namespace with the files open; 0 = they are visible to all */
};

/* Describes what a stage runs in its image, for pl_stage_image_get of the agent, which checks that its programs are there.
 * A new reference; NULL without memory.
 *
 *   {"podman": PROGRAM, "name": IMAGE, "locks"?: folder, "run"?: first word, "script"?: first line,
 *    "path"?: the stage's own PATH, "environment"?: true: the stage has an environment, whose programs are not known}
 *
 * `locks`: an image is fetched by one process at a time of all that name this folder; NULL = none. */
json_t *pl_image_request(const char *podman, const char *locks, const struct pl_stage *stage);
/* Checks that the text is the name of an image in a registry or on this machine, NAME[:TAG][@DIGEST], and nothing else
 * that podman would take: an option, or a store or archive at some path. PL_EINVAL. */
PL_MUST_CHECK
int pl_image_check_name(const char *name, struct pl_err *err);
/* Fetches the image unless this machine has it, and mounts its files. `podman`: the program. `locks`: as for
 * pl_image_request. Without root it sets XDG_RUNTIME_DIR, if nobody else has, so that podman's namespace is found. The
 * caller finishes `ret`. PL_ESTAGE: trying again will fail in the same way (no such image, no right to it, another architecture);
 * PL_EUNAVAILABLE: the registry or podman does not work now. */
PL_MUST_CHECK
int pl_image_get(const char *podman, const char *name, const char *locks, struct pl_image *ret, struct pl_err *err);
/* Reads the `doc` of an image. Takes over `doc`, also on failure. PL_EINVAL. */
PL_MUST_CHECK
int pl_image_read(json_t *doc, struct pl_image *ret, struct pl_err *err);
void pl_image_finish(struct pl_image *i);
/* Moves this process, which must have one thread, into the namespace that has the image's files; does nothing if
 * they are visible already. PL_EUNAVAILABLE. */
PL_MUST_CHECK
int pl_image_enter(const struct pl_image *i, struct pl_err *err);
/* Opens a file of the image with these flags of open(2), as a command in the sandbox would: its links lead to files of the
 * image. A descriptor that the caller closes, or -1 with errno. */
int pl_image_open(const struct pl_image *i, const char *path, int flags);
/* True if the program (a path, or a name in PATH) is on this machine. */
bool pl_image_has_podman(const char *podman);
