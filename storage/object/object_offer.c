/* The file has no name while it is written (O_TMPFILE): a client that is killed leaves nothing. It gets its name by
 * linkat, shortly before the daemon is told of it. */
#include "storage/object/object_offer.h"

#include "storage/base/clock.h"
#include "storage/base/hash.h"
#include "storage/object/object.h"
#include "storage/system/io.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

#define OFFER_PREFIX "offer-"
#define OFFER_RANDOM 12u
/* bytes a write: larger ones make the kernel take larger folios for the page cache, which costs more than it saves */
#define WRITE_PIECE ((size_t)128 << 10)

static bool name_ok(const char *name)
{
    size_t prefix = strlen(OFFER_PREFIX);

    return strlen(name) == PL_OBJECT_OFFER_NAME - 1 && strncmp(name, OFFER_PREFIX, prefix) == 0 &&
           strspn(name + prefix, "0123456789abcdef") == 2 * (size_t)OFFER_RANDOM;
}

static bool tmp_path(const char *dir, const char *name, char out[PATH_MAX])
{
    return snprintf(out, PATH_MAX, "%s/tmp%s%s", dir, *name != '\0' ? "/" : "", name) < PATH_MAX;
}

/* True if the path is a folder of the process's own user, and none of the `others` may make names in it. An access list
 * that lets others write shows in the bits of the group. `link`: 0, or AT_SYMLINK_NOFOLLOW if it may be no link. */
static bool is_own_folder(const char *path, mode_t others, int link)
{
    struct stat st;

    return fstatat(AT_FDCWD, path, &st, link) == 0 && S_ISDIR(st.st_mode) && st.st_uid == geteuid() && (st.st_mode & others) == 0;
}

static void remove_stale(const char *tmp)
{
    DIR *dir = opendir(tmp);
    struct dirent *e;
    struct stat st;

    while (dir != NULL && (e = readdir(dir)) != NULL) {
        if (name_ok(e->d_name) && fstatat(dirfd(dir), e->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
            st.st_mtime < pl_clock_wall_us() / 1000000 - PL_OBJECT_OFFER_STALE_SECONDS)
            (void)unlinkat(dirfd(dir), e->d_name, 0);
    }
    if (dir != NULL)
        closedir(dir);
}

bool pl_object_offer_allowed(const char *dir)
{
    char tmp[PATH_MAX];

    /* a group that may write to `dir` can at most put another folder of this user into the place of `tmp` */
    if (!tmp_path(dir, "", tmp) || !is_own_folder(dir, S_IWOTH, 0) || !is_own_folder(tmp, S_IWGRP | S_IWOTH, AT_SYMLINK_NOFOLLOW))
        return false;
    remove_stale(tmp);
    return true;
}

/* Sets an error of making a file. PL_EUNAVAILABLE if the next attempt would fail too: the system or its file system
 * has no unnamed files, or this process may not write there. */
static int make_failed(struct pl_err *err, int errnum, const char *path)
{
    static const int lasting[] = {EOPNOTSUPP, EISDIR, EROFS, EACCES, EPERM, ENOENT, ENOTDIR};

    for (size_t i = 0; i < PL_ARRAY_SIZE(lasting); i++)
        if (errnum == lasting[i])
            return pl_err_set(err, PL_EUNAVAILABLE, "no file can be offered in %s: %s", path, strerrordesc_np(errnum));
    return pl_err_errno(err, errnum, "cannot make a file in %s", path);
}

/* Refuses to leave fewer than `keep_free` bytes of the disk free after `n` bytes more. */
static int check_space(int fd, size_t n, uint64_t keep_free, const char *path, struct pl_err *err)
{
    struct statvfs fs;
    uint64_t left;

    if (fstatvfs(fd, &fs) < 0)
        return pl_err_errno(err, errno, "cannot read the free space of %s", path);
    left = (uint64_t)fs.f_bavail * fs.f_frsize;
    if (left >= keep_free && left - keep_free >= n)
        return 0;
    return pl_err_set(err, PL_ENOSPC, "the disk of %s has %llu bytes free, of which %llu stay reserved: no space for %zu more",
                      path, (unsigned long long)left, (unsigned long long)keep_free, n);
}

int pl_object_offer_make(const char *dir, const void *bytes, size_t n, uint64_t keep_free, char ret_name[PL_OBJECT_OFFER_NAME],
                         struct pl_err *err)
{
    char name[PL_OBJECT_OFFER_NAME] = OFFER_PREFIX, path[PATH_MAX], unnamed[64];
    uint8_t random[OFFER_RANDOM];
    _cleanup_close_ int fd = -1;
    int r = 0;

    if (!tmp_path(dir, "", path))
        return pl_err_set(err, PL_EINVAL, "the folder name %.64s… is too long", dir);
    fd = open(path, O_TMPFILE | O_WRONLY | O_CLOEXEC, 0644);
    if (fd < 0)
        return make_failed(err, errno, path);
    r = check_space(fd, n, keep_free, path, err);
    for (size_t at = 0; at < n && r == 0; at += WRITE_PIECE)
        r = pl_io_write(fd, (const uint8_t *)bytes + at, PL_MIN(n - at, WRITE_PIECE), "a pack", err);
    if (r < 0)
        return r;
    pl_random_bytes(random, sizeof(random));
    pl_hex_encode(random, sizeof(random), name + strlen(OFFER_PREFIX));
    (void)snprintf(unnamed, sizeof(unnamed), "/proc/self/fd/%d", fd);
    if (!tmp_path(dir, name, path))
        return pl_err_set(err, PL_EINVAL, "the folder name %.64s… is too long", dir);
    if (linkat(AT_FDCWD, unnamed, AT_FDCWD, path, AT_SYMLINK_FOLLOW) < 0)
        return make_failed(err, errno, path);
    memcpy(ret_name, name, sizeof(name));
    return 0;
}

void pl_object_offer_withdraw(const char *dir, const char *name)
{
    char path[PATH_MAX];

    if (tmp_path(dir, name, path))
        (void)unlink(path);
}

/* Refuses what the daemon's user did not put there: a link, a folder, a file of another user, a second name of
 * a file. */
static int offer_check(const char *path, uint64_t *ret_size, struct pl_err *err)
{
    struct stat st;

    if (lstat(path, &st) < 0)
        return errno == ENOENT ? pl_err_set(err, PL_ENOTFOUND, "there is no offered file %s", path)
                               : pl_err_errno(err, errno, "cannot stat %s", path);
    if (!S_ISREG(st.st_mode) || st.st_uid != geteuid() || st.st_nlink != 1)
        return pl_err_set(err, PL_EFORBIDDEN, "%s is not a file of the daemon's user with one name", path);
    *ret_size = (uint64_t)st.st_size;
    return 0;
}

/* Returns the folder of the store's temporary files. */
static int store_tmp(struct pl_object_store *s, char out[PATH_MAX], struct pl_err *err)
{
    int r = pl_object_tmp_path(s, out, err);

    if (r < 0)
        return r;
    *strrchr(out, '/') = '\0';
    return is_own_folder(out, S_IWGRP | S_IWOTH, AT_SYMLINK_NOFOLLOW)
               ? 0
               : pl_err_set(err, PL_EFORBIDDEN, "other users may write to %s: send the bytes", out);
}

int pl_object_offer_take(struct pl_object_store *s, const char *name, char ret_path[PATH_MAX], uint64_t *ret_size,
                         struct pl_err *err)
{
    char tmp[PATH_MAX], offered[PATH_MAX], to[PATH_MAX];
    uint64_t size = 0;
    int r;

    if (!name_ok(name))
        return pl_err_set(err, PL_EINVAL, "\"%.64s\" is not the name of an offered file", name);
    r = store_tmp(s, tmp, err);
    if (r == 0 && snprintf(offered, sizeof(offered), "%s/%s", tmp, name) >= PATH_MAX)
        r = pl_err_set(err, PL_EINVAL, "the folder name %.64s… is too long", tmp);
    if (r == 0)
        r = offer_check(offered, &size, err);
    if (r == 0)
        r = pl_object_tmp_path(s, to, err);
    if (r == 0)
        r = pl_io_rename_noreplace(offered, to, err);
    if (r < 0)
        return r;
    memcpy(ret_path, to, strlen(to) + 1);
    *ret_size = size;
    return 0;
}
