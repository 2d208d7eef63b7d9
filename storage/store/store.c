/* A store consists of an index, the pack files and a cache of decoded records. Opening a store brings the
 * index up to date with the packs that exist. When a record is found damaged, its id and pack are remembered
 * until a verification finds the pack intact. */
#include "storage/store/store.h"

#include "storage/pack/chunk_reader.h"
#include "storage/pack/recent_ids.h"
#include "storage/store/pack_files.h"
#include "storage/store/record_cache.h"
#include "storage/system/io.h"
#include "storage/system/lock_order.h"
#include "storage/system/thread_pool.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>

#define FOOTER_THREADS 8u
#define COPY_MAX_BYTES ((size_t)8 << 20)

struct pl_store {
    struct pl_object_store *objects;
    char project[PL_NAME_MAX_BYTES + 1];
    struct pl_index *index;
    struct pl_pack_files *files;
    struct pl_record_cache *cache;
    struct pl_hash *bad; /* packs whose footer failed verification when the store was opened */
    size_t bad_count;
    pthread_mutex_t holds_lock;  /* guards the next two fields */
    struct pl_store_hold *holds; /* list of holds, newest first */
    uint64_t moment;
    pthread_mutex_t damaged_lock;
    /* set of damaged records: keys made by damage_key from the ids of record and pack; guarded by
     * `damaged_lock` */
    struct pl_recent_ids damaged;
    atomic_bool any_damaged;
};

/* A growing array of pack ids. */
struct pack_ids {
    struct pl_hash *ids;
    size_t n, cap;
};

static int pack_ids_add(struct pack_ids *v, const struct pl_hash *id, struct pl_err *err)
{
    if (v->n == v->cap) {
        size_t cap = v->cap != 0 ? v->cap * 2 : 64;
        struct pl_hash *ids = reallocarray(v->ids, cap, sizeof(*ids));

        if (ids == NULL)
            return pl_err_nomem(err);
        v->ids = ids;
        v->cap = cap;
    }
    v->ids[v->n++] = *id;
    return 0;
}

static void pack_ids_finish(struct pack_ids *v)
{
    free(v->ids);
    *v = (struct pack_ids){0};
}

static int hash_cmp(const void *a, const void *b)
{
    return memcmp(a, b, PL_HASH_BYTES);
}

static int list_pack(void *arg, const char *key, uint64_t size, struct pl_err *err)
{
    struct pl_hash id;

    (void)size;
    return pl_pack_key_parse(key, &id) ? pack_ids_add(arg, &id, err) : 0;
}

/* Drops from the index all packs that the object store no longer has. */
static int store_drop_missing(struct pl_store *s, const struct pack_ids *there, struct pl_err *err)
{
    _cleanup_free_ struct pl_hash *known = NULL;
    size_t n;
    int r = pl_index_packs(s->index, &known, &n, err);

    for (size_t i = 0; i < n && r == 0; i++)
        if (there->n == 0 || bsearch(&known[i], there->ids, there->n, sizeof(*there->ids), hash_cmp) == NULL)
            pl_index_drop_pack(s->index, &known[i]);
    return r;
}

/* State shared by the threads that read footers when a store is opened. */
struct catch_up {
    struct pl_store *store;
    const struct pack_ids *there;
    struct pack_ids bad;
    pthread_mutex_t lock;
    size_t next;
    int result;
    struct pl_err err;
};

/* Reads a pack's footer and adds the pack to the index. A damaged footer is not an error here, so that the
 * store can be opened with all other packs; fsck reports the damage. */
static void catch_up_one(struct catch_up *c, const struct pl_hash *id)
{
    struct pl_err err;
    int r = pl_store_add_pack(c->store, id, 0, &err);

    pthread_mutex_lock(&c->lock);
    if (r == PL_ECORRUPT || r == PL_EFORMAT || r == PL_ETOOBIG)
        r = pack_ids_add(&c->bad, id, &err);
    if (r < 0 && c->result == 0) {
        c->result = r;
        c->err = err;
    }
    pthread_mutex_unlock(&c->lock);
}

static const struct pl_hash *catch_up_next(struct catch_up *c)
{
    const struct pl_hash *id = NULL;

    pthread_mutex_lock(&c->lock);
    if (c->result == 0 && c->next < c->there->n)
        id = &c->there->ids[c->next++];
    pthread_mutex_unlock(&c->lock);
    return id;
}

static void catch_up_run(void *arg)
{
    struct catch_up *c = arg;
    const struct pl_hash *id;

    while ((id = catch_up_next(c)) != NULL)
        catch_up_one(c, id);
}

/* Adds all packs to the index, on several threads if reading a footer is a network request. */
static int catch_up_all(struct catch_up *c, struct pl_err *err)
{
    struct pl_pool *pool = NULL;
    int r = 0;

    if ((pl_object_caps(c->store->objects) & PL_OBJECT_FILES) == 0 && c->there->n > 1)
        r = pl_pool_create("pl-footers", FOOTER_THREADS, FOOTER_THREADS, &pool, err);
    for (unsigned i = 0; pool != NULL && r == 0 && i < FOOTER_THREADS; i++)
        r = pl_pool_submit(pool, catch_up_run, c, err);
    if (r == 0)
        catch_up_run(c);
    if (pool != NULL)
        pl_pool_destroy(pool);
    if (r == 0 && c->result < 0) {
        if (err != NULL)
            *err = c->err;
        r = c->result;
    }
    return r;
}

/* Reads the footers of the packs that are missing in the index. */
static int store_catch_up(struct pl_store *s, struct pl_err *err)
{
    _cleanup_(pack_ids_finish) struct pack_ids there = {0};
    struct catch_up c = {.store = s, .there = &there, .lock = PTHREAD_MUTEX_INITIALIZER};
    char prefix[PL_PACK_KEY_BYTES];
    int r;

    (void)snprintf(prefix, sizeof(prefix), "p/%s/", s->project);
    r = pl_object_list(s->objects, prefix, list_pack, &there, err);
    if (r < 0)
        return r;
    if (there.n > 0)
        qsort(there.ids, there.n, sizeof(*there.ids), hash_cmp);
    r = store_drop_missing(s, &there, err);
    if (r == 0)
        r = catch_up_all(&c, err);
    pthread_mutex_destroy(&c.lock);
    if (r < 0) {
        pack_ids_finish(&c.bad);
        return r;
    }
    s->bad = TAKE_PTR(c.bad.ids);
    s->bad_count = c.bad.n;
    return 0;
}

static int store_open_index(struct pl_store *s, const char *index_dir, struct pl_err *err)
{
    char dir[PATH_MAX];

    if (index_dir == NULL)
        return pl_index_open(NULL, &s->index, err);
    if (snprintf(dir, sizeof(dir), "%s/%s", index_dir, s->project) >= (int)sizeof(dir))
        return pl_err_set(err, PL_EINVAL, "the folder name %.64s… is too long", index_dir);
    return pl_index_open(dir, &s->index, err);
}

int pl_store_open(struct pl_object_store *objects, const char *project, const char *index_dir, struct pl_store **ret,
                  struct pl_err *err)
{
    _cleanup_(pl_store_closep) struct pl_store *s = NULL;
    int r = pl_name_check("project", project, err);

    if (r < 0)
        return r;
    s = calloc(1, sizeof(*s));
    if (s == NULL)
        return pl_err_nomem(err);
    s->objects = objects;
    pthread_mutex_init(&s->holds_lock, NULL);
    pthread_mutex_init(&s->damaged_lock, NULL);
    s->damaged.max = PL_STORE_DAMAGED_IDS;
    memcpy(s->project, project, strlen(project) + 1);
    s->files = pl_pack_files_create(objects, s->project, PL_STORE_OPEN_PACKS);
    s->cache = pl_record_cache_create(PL_STORE_CACHE_BYTES);
    if (s->files == NULL || s->cache == NULL)
        return pl_err_nomem(err);
    r = store_open_index(s, index_dir, err);
    if (r == 0)
        r = store_catch_up(s, err);
    if (r < 0)
        return pl_err_wrap(err, r, "open store of project %s", project);
    *ret = TAKE_PTR(s);
    return 0;
}

struct pl_store *pl_store_close(struct pl_store *s)
{
    if (s == NULL)
        return NULL;
    pl_index_close(s->index);
    pl_pack_files_destroy(s->files);
    pl_record_cache_destroy(s->cache);
    pthread_mutex_destroy(&s->holds_lock);
    pthread_mutex_destroy(&s->damaged_lock);
    pl_recent_ids_finish(&s->damaged);
    free(s->bad);
    free(s);
    return NULL;
}

const char *pl_store_project(const struct pl_store *s)
{
    return s->project;
}

struct pl_object_store *pl_store_objects(const struct pl_store *s)
{
    return s->objects;
}

/* ---- damaged records ---- */

/* Returns the key of a record in one pack. The key includes the pack, because another pack may have an intact
 * copy of the record. */
static struct pl_hash damage_key(const struct pl_hash *id, const struct pl_hash *pack)
{
    struct pl_hash key;

    for (size_t i = 0; i < PL_HASH_BYTES; i++)
        key.b[i] = id->b[i] ^ pack->b[i];
    return key;
}

/* Remembers that a record of this pack is damaged. From now on lookups prefer other packs over this one. */
static void note_damage(struct pl_store *s, const struct pl_hash *id, const struct pl_hash *pack)
{
    struct pl_hash key = damage_key(id, pack);

    pthread_mutex_lock(&s->damaged_lock);
    (void)pl_recent_ids_put(&s->damaged, &key);
    pthread_mutex_unlock(&s->damaged_lock);
    atomic_store(&s->any_damaged, true);
    pl_index_set_doubt(s->index, pack, PL_DOUBT_DAMAGED, true);
}

static bool is_damaged(struct pl_store *s, const struct pl_hash *id, const struct pl_hash *pack)
{
    struct pl_hash key = damage_key(id, pack);
    bool yes;

    if (!atomic_load(&s->any_damaged))
        return false;
    pthread_mutex_lock(&s->damaged_lock);
    yes = pl_recent_ids_has(&s->damaged, &key);
    pthread_mutex_unlock(&s->damaged_lock);
    return yes;
}

/* Called when a whole pack was found intact: removes all damage remembered for it. */
static void forget_damage(struct pl_store *s, const struct pl_hash *pack, const struct pl_pack_footer *f)
{
    if (!atomic_load(&s->any_damaged))
        return;
    pthread_mutex_lock(&s->damaged_lock);
    for (uint32_t i = 0; i < f->count; i++) {
        struct pl_hash key = damage_key(&f->entries[i].id, pack);

        pl_recent_ids_forget(&s->damaged, &key);
    }
    pthread_mutex_unlock(&s->damaged_lock);
    pl_index_set_doubt(s->index, pack, PL_DOUBT_DAMAGED, false);
}

static bool kind_is_cached(uint8_t kind)
{
    return kind == PL_REC_NODE || kind == PL_REC_LIST || kind == PL_REC_COMMIT;
}

int pl_store_get(struct pl_store *s, const struct pl_hash *id, uint8_t kind, struct pl_buf *ret, struct pl_err *err)
{
    struct pl_location at, again;
    char hex[PL_HASH_HEX + 1];
    int r;

    pl_lock_order_request("a record");
    if ((kind == 0 || kind_is_cached(kind)) && pl_record_cache_get(s->cache, id, ret))
        return 0;
    r = pl_store_locate(s, id, &at, err);
    if (r < 0)
        return r;
    if (kind != 0 && at.raw > pl_pack_raw_max(kind))
        return pl_err_set(err, PL_ECORRUPT, "record %s has %u bytes, more than the expected kind of record can have",
                          pl_hash_hex(id, hex), at.raw);
    while ((r = pl_pack_files_record(s->files, id, &at, ret, err)) < 0) {
        /* Look the record up again: garbage collection may have removed the pack after copying the record,
         * or the record is damaged in this pack and another pack has a new copy. */
        if (r == PL_ECORRUPT)
            note_damage(s, id, &at.pack);
        if (!pl_index_find(s->index, id, &again) || pl_hash_eq(&again.pack, &at.pack) || is_damaged(s, id, &again.pack))
            return pl_err_wrap(err, r, "record %s", pl_hash_hex(id, hex));
        at = again;
    }
    if (kind_is_cached(at.kind))
        pl_record_cache_put(s->cache, id, ret->data, ret->len);
    return 0;
}

bool pl_store_has(struct pl_store *s, const struct pl_hash *id)
{
    struct pl_location at;

    return pl_index_find(s->index, id, &at) && !at.hidden && !at.unread && !is_damaged(s, id, &at.pack);
}

void pl_store_has_many(struct pl_store *s, const struct pl_hash *ids, size_t n, uint8_t *ret_bitmap, uint32_t *packs)
{
    pl_index_find_many(s->index, ids, n, ret_bitmap, packs);
    for (size_t i = 0; atomic_load(&s->any_damaged) && i < n; i++) {
        if ((ret_bitmap[i / 8] & 1u << i % 8) == 0 || pl_store_has(s, &ids[i]))
            continue;
        ret_bitmap[i / 8] &= (uint8_t) ~(1u << i % 8);
        if (packs != NULL)
            packs[i] = UINT32_MAX;
    }
}

int pl_store_locate(struct pl_store *s, const struct pl_hash *id, struct pl_location *ret, struct pl_err *err)
{
    char hex[PL_HASH_HEX + 1];

    if (pl_index_find(s->index, id, ret))
        return 0;
    return pl_err_set(err, PL_ENOTFOUND, "record %s is not in the store", pl_hash_hex(id, hex));
}

int pl_store_read_pack(struct pl_store *s, const struct pl_hash *pack_id,
                       int (*fn)(const struct pl_pack_input *in, void *arg, struct pl_err *err), void *arg, struct pl_err *err)
{
    return pl_pack_files_read(s->files, pack_id, fn, arg, err);
}

static int read_footer(const struct pl_pack_input *in, void *arg, struct pl_err *err)
{
    return pl_pack_footer_read(in, arg, err);
}

int pl_store_pack_footer(struct pl_store *s, const struct pl_hash *pack_id, struct pl_pack_footer *ret, struct pl_err *err)
{
    struct pl_pack_footer f = {0};
    char hex[PL_HASH_HEX + 1];
    int r = pl_pack_files_read(s->files, pack_id, read_footer, &f, err);

    if (r < 0)
        return r;
    if (!pl_hash_eq(&f.pack_id, pack_id) || !pl_streq(f.header.project, s->project)) {
        pl_pack_footer_finish(&f);
        return pl_err_set(err, PL_ECORRUPT, "pack %s: its id or project does not match its key", pl_hash_hex(pack_id, hex));
    }
    *ret = f;
    return 0;
}

int pl_store_add_pack(struct pl_store *s, const struct pl_hash *pack_id, unsigned doubt, struct pl_err *err)
{
    _cleanup_(pl_pack_footer_finish) struct pl_pack_footer f = {0};
    int r;

    if (pl_index_has_pack(s->index, pack_id))
        return 0;
    r = pl_store_pack_footer(s, pack_id, &f, err);
    if (r == 0 && (doubt & PL_DOUBT_UNREAD) != 0)
        r = pl_pack_footer_check_raw(&f, PL_PACK_RAW_BYTES, err);
    return r < 0 ? r : pl_index_add_pack(s->index, pack_id, f.entries, f.count, doubt, err);
}

/* Verifies a received pack file, or its head and checksum only, and reads its footer. Lets the kernel start writing the file to
 * disk, so that the later sync, when the file is adopted, is short. */
static int verify_received(struct pl_store *s, int fd, const struct pl_hash *claimed, bool sum_only, struct pl_pack_footer *ret,
                           struct pl_err *err)
{
    struct pl_pack_verify how = {
        .project = s->project, .claimed = claimed, .raw_max = PL_PACK_RAW_BYTES, .two_threads = true, .sum_only = sum_only};
    struct pl_pack_input in;
    struct stat st;

    if (fstat(fd, &st) < 0)
        return pl_err_errno(err, errno, "cannot read the size of a received pack");
    (void)sync_file_range(fd, 0, 0, SYNC_FILE_RANGE_WRITE);
    in = pl_pack_input_fd(&fd, (uint64_t)st.st_size);
    return pl_pack_verify(&in, &how, ret, err);
}

/* True if a copy of the pack should stay on this machine: it has tree nodes, which at least the next
 * commit will read, it is small, and the object store is remote. */
static bool wants_copy(const struct pl_store *s, const struct pl_pack_footer *f, uint64_t size)
{
    return (pl_object_caps(s->objects) & PL_OBJECT_FILES) == 0 && f->header.kind != PL_PACK_DATA && size <= COPY_MAX_BYTES;
}

/* Reads the bytes of the received file into memory for the local copy, before the file is moved into the
 * object store. Leaves the buffer empty if no copy is wanted or the read fails. */
static void read_copy(const struct pl_store *s, const struct pl_pack_footer *f, const char *path, struct pl_buf *ret)
{
    ret->max = COPY_MAX_BYTES;
    if (wants_copy(s, f, f->footer_offset) && pl_io_read_file(path, ret, NULL) < 0)
        pl_buf_clear(ret);
}

/* True if the object under the pack's key was verified and has no known damage. If false, the object may be
 * wrong, or was never verified. */
static bool is_sure(struct pl_store *s, const struct pl_hash *pack_id)
{
    return pl_index_has_pack(s->index, pack_id) && pl_index_doubt(s->index, pack_id) == 0;
}

/* Overwrites the object under the pack's key with these verified bytes. */
static int replace_pack(struct pl_store *s, const struct pl_pack_footer *f, const void *bytes, size_t n, struct pl_err *err)
{
    struct iovec iov = {(void *)bytes, n};
    char key[PL_PACK_KEY_BYTES];
    int r = pl_object_put(s->objects, pl_pack_key(s->project, &f->pack_id, key), &iov, 1, false, err);

    pl_pack_files_forget(s->files, &f->pack_id);
    if (r == 0)
        forget_damage(s, &f->pack_id, f);
    return r;
}

/* Overwrites the object under the pack's key with the verified bytes of an open file. The file's name may
 * have been removed already. */
static int replace_from(struct pl_store *s, const struct pl_pack_footer *f, int fd, struct pl_err *err)
{
    struct stat st;
    void *bytes;
    int r;

    if (fstat(fd, &st) < 0)
        return pl_err_errno(err, errno, "cannot read the size of a received pack");
    bytes = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (bytes == MAP_FAILED)
        return pl_err_errno(err, errno, "cannot map a received pack into memory");
    r = replace_pack(s, f, bytes, (size_t)st.st_size, err);
    (void)munmap(bytes, (size_t)st.st_size);
    return r;
}

/* Moves the received file into the object store. An existing object is overwritten only if is_sure returns
 * false for it, and only by records that were verified. */
static int adopt_pack(struct pl_store *s, const char *tmp_path, int fd, const struct pl_pack_footer *f, bool sum_only,
                      struct pl_err *err)
{
    char key[PL_PACK_KEY_BYTES];
    int r = pl_object_adopt(s->objects, pl_pack_key(s->project, &f->pack_id, key), tmp_path, err);

    if (r != PL_EEXISTS)
        return r;
    if (is_sure(s, &f->pack_id))
        return 0;
    r = sum_only ? verify_received(s, fd, &f->pack_id, false, NULL, err) : 0;
    return r < 0 ? r : replace_from(s, f, fd, err);
}

static int receive_pack(struct pl_store *s, const char *tmp_path, const struct pl_hash *claimed_id, bool sum_only,
                        struct pl_err *err)
{
    _cleanup_(pl_pack_footer_finish) struct pl_pack_footer f = {0};
    _cleanup_(pl_buf_finish) struct pl_buf copy = {0};
    _cleanup_close_ int fd = open(tmp_path, O_RDONLY | O_CLOEXEC);
    char key[PL_PACK_KEY_BYTES], hex[PL_HASH_HEX + 1];
    int r = fd < 0 ? pl_err_errno(err, errno, "cannot open %s", tmp_path) : verify_received(s, fd, claimed_id, sum_only, &f, err);

    if (r < 0) {
        unlink(tmp_path);
        return pl_err_wrap(err, r, "receive pack %s", pl_hash_hex(claimed_id, hex));
    }
    read_copy(s, &f, tmp_path, &copy);
    r = adopt_pack(s, tmp_path, fd, &f, sum_only, err);
    if (r == 0 && copy.len > 0)
        pl_object_keep_local(s->objects, pl_pack_key(s->project, claimed_id, key), copy.data, copy.len);
    if (r == 0)
        r = pl_index_add_pack(s->index, claimed_id, f.entries, f.count, 0, err);
    return r < 0 ? pl_err_wrap(err, r, "receive pack %s", pl_hash_hex(claimed_id, hex)) : 0;
}

int pl_store_receive_pack(struct pl_store *s, const char *tmp_path, const struct pl_hash *claimed_id, struct pl_err *err)
{
    return receive_pack(s, tmp_path, claimed_id, false, err);
}

int pl_store_take_pack(struct pl_store *s, const char *tmp_path, const struct pl_hash *claimed_id, struct pl_err *err)
{
    return receive_pack(s, tmp_path, claimed_id, true, err);
}

int pl_store_put_pack(struct pl_store *s, const struct pl_hash *pack_id, const void *bytes, size_t n, struct pl_err *err)
{
    _cleanup_(pl_pack_footer_finish) struct pl_pack_footer f = {0};
    struct pl_pack_memory memory = {bytes, n};
    struct pl_pack_input in = pl_pack_input_memory(&memory);
    struct iovec iov = {(void *)bytes, n};
    char key[PL_PACK_KEY_BYTES], hex[PL_HASH_HEX + 1];
    int r = pl_pack_footer_read(&in, &f, err);

    if (r == 0 && (!pl_hash_eq(&f.pack_id, pack_id) || !pl_streq(f.header.project, s->project)))
        r = pl_err_set(err, PL_EINVAL, "its id or project is not the expected one");
    if (r == 0)
        r = pl_object_put(s->objects, pl_pack_key(s->project, pack_id, key), &iov, 1, true, err);
    if (r == PL_EEXISTS)
        r = is_sure(s, pack_id) ? 0 : replace_pack(s, &f, bytes, n, err);
    if (r == 0 && wants_copy(s, &f, n))
        pl_object_keep_local(s->objects, key, bytes, n);
    if (r == 0)
        r = pl_index_add_pack(s->index, pack_id, f.entries, f.count, 0, err);
    return r < 0 ? pl_err_wrap(err, r, "put pack %s", pl_hash_hex(pack_id, hex)) : 0;
}

int pl_store_flush(struct pl_store *s, struct pl_err *err)
{
    return pl_object_flush(s->objects, err);
}

void pl_store_drop_pack(struct pl_store *s, const struct pl_hash *pack_id)
{
    pl_index_drop_pack(s->index, pack_id);
    pl_pack_files_forget(s->files, pack_id);
}

bool pl_store_has_pack(struct pl_store *s, const struct pl_hash *pack_id)
{
    for (size_t i = 0; i < s->bad_count; i++)
        if (pl_hash_eq(&s->bad[i], pack_id))
            return true;
    return pl_index_has_pack(s->index, pack_id);
}

void pl_store_set_seen(struct pl_store *s, const struct pl_hash *pack_id, enum pl_pack_seen seen)
{
    pl_index_set_seen(s->index, pack_id, seen);
}

void pl_store_set_unread(struct pl_store *s, const struct pl_hash *pack_id, bool unread)
{
    pl_index_set_doubt(s->index, pack_id, PL_DOUBT_UNREAD, unread);
}

bool pl_store_is_unread(struct pl_store *s, const struct pl_hash *pack_id)
{
    return (pl_index_doubt(s->index, pack_id) & PL_DOUBT_UNREAD) != 0;
}

bool pl_store_pack_id(struct pl_store *s, uint32_t no, struct pl_hash *ret)
{
    return pl_index_pack_id(s->index, no, ret);
}

void pl_store_hold(struct pl_store *s, struct pl_store_hold *h)
{
    pthread_mutex_lock(&s->holds_lock);
    *h = (struct pl_store_hold){.store = s, .next = s->holds, .since = ++s->moment, .packs = pl_index_pack_count(s->index)};
    if (h->next != NULL)
        h->next->prev = h;
    s->holds = h;
    pthread_mutex_unlock(&s->holds_lock);
}

void pl_store_release(struct pl_store_hold *h)
{
    struct pl_store *s = h->store;

    if (s == NULL)
        return;
    pthread_mutex_lock(&s->holds_lock);
    if (h->prev != NULL)
        h->prev->next = h->next;
    else
        s->holds = h->next;
    if (h->next != NULL)
        h->next->prev = h->prev;
    pthread_mutex_unlock(&s->holds_lock);
    *h = (struct pl_store_hold){0};
}

uint64_t pl_store_moment(struct pl_store *s)
{
    uint64_t now;

    pthread_mutex_lock(&s->holds_lock);
    now = s->moment;
    pthread_mutex_unlock(&s->holds_lock);
    return now;
}

bool pl_store_quiet_since(struct pl_store *s, uint64_t moment)
{
    bool quiet = true;

    pthread_mutex_lock(&s->holds_lock);
    for (const struct pl_store_hold *h = s->holds; h != NULL; h = h->next)
        quiet = quiet && h->since > moment;
    pthread_mutex_unlock(&s->holds_lock);
    return quiet;
}

uint32_t pl_store_settled_packs(struct pl_store *s)
{
    uint32_t packs;

    pthread_mutex_lock(&s->holds_lock);
    packs = pl_index_pack_count(s->index);
    for (const struct pl_store_hold *h = s->holds; h != NULL; h = h->next)
        packs = PL_MIN(packs, h->packs);
    pthread_mutex_unlock(&s->holds_lock);
    return packs;
}

int pl_store_view(struct pl_store *s, struct pl_index_view **ret, struct pl_err *err)
{
    return pl_index_view_open(s->index, ret, err);
}

int pl_store_packs(struct pl_store *s, struct pl_hash **ret, size_t *ret_n, struct pl_err *err)
{
    struct pl_hash *ids, *all;
    size_t n;
    int r = pl_index_packs(s->index, &ids, &n, err);

    if (r < 0)
        return r;
    all = reallocarray(ids, n + s->bad_count + 1, sizeof(*ids));
    if (all == NULL) {
        free(ids);
        return pl_err_nomem(err);
    }
    if (s->bad_count > 0)
        memcpy(all + n, s->bad, s->bad_count * sizeof(*all));
    *ret = all;
    *ret_n = n + s->bad_count;
    return 0;
}

struct verifying {
    struct pl_store *store;
    const struct pl_hash *pack;
    void (*bad)(void *arg, const struct pl_pack_entry *e, const struct pl_err *why);
    void *arg;
    const struct pl_pack_verify *how;
    struct pl_pack_footer footer; /* set if the pack is intact */
};

static int verify_input(const struct pl_pack_input *in, void *arg, struct pl_err *err)
{
    struct verifying *v = arg;

    return pl_pack_verify(in, v->how, &v->footer, err);
}

static void note_bad(void *arg, const struct pl_pack_entry *e, const struct pl_err *why)
{
    struct verifying *v = arg;

    if (why->code == PL_ECORRUPT)
        note_damage(v->store, &e->id, v->pack);
    if (v->bad != NULL)
        v->bad(v->arg, e, why);
}

int pl_store_verify_pack(struct pl_store *s, const struct pl_hash *pack_id,
                         void (*bad)(void *arg, const struct pl_pack_entry *e, const struct pl_err *why), void *arg,
                         struct pl_err *err)
{
    struct verifying v = {.store = s, .pack = pack_id, .bad = bad, .arg = arg};
    struct pl_pack_verify how = {.project = s->project, .claimed = pack_id, .bad = note_bad, .arg = &v};

    int r;

    v.how = &how;
    r = pl_pack_files_read(s->files, pack_id, verify_input, &v, err);
    if (r == 0)
        forget_damage(s, pack_id, &v.footer);
    pl_pack_footer_finish(&v.footer);
    return r;
}

void pl_store_index_stats(struct pl_store *s, struct pl_index_stats *ret)
{
    pl_index_stats(s->index, ret);
}

int pl_store_sync_index(struct pl_store *s, struct pl_err *err)
{
    return pl_index_sync(s->index, err);
}

static int sink_has(void *self, const struct pl_hash *ids, size_t n, uint8_t *ret_bitmap, struct pl_err *err)
{
    (void)err;
    pl_store_has_many(self, ids, n, ret_bitmap, NULL);
    return 0;
}

static int sink_put_pack(void *self, const struct pl_hash *pack_id, const void *bytes, size_t n, struct pl_err *err)
{
    return pl_store_put_pack(self, pack_id, bytes, n, err);
}

static int sink_flush(void *self, struct pl_err *err)
{
    return pl_store_flush(self, err);
}

struct pl_pack_sink pl_store_sink(struct pl_store *s)
{
    return (struct pl_pack_sink){.self = s, .has = sink_has, .put_pack = sink_put_pack, .flush = sink_flush};
}

/* Reads a record that a tree, a list or a commit refers to. If that record is missing, the store is damaged,
 * because the reference to it did not come from the caller. */
static int get_named(struct pl_store *s, const struct pl_hash *id, uint8_t kind, struct pl_buf *ret, struct pl_err *err)
{
    char hex[PL_HASH_HEX + 1];
    int r = pl_store_get(s, id, kind, ret, err);

    return r == PL_ENOTFOUND ? pl_err_set(err, PL_ECORRUPT, "the store is damaged: record %s is missing", pl_hash_hex(id, hex))
                             : r;
}

int pl_store_node_get(void *store, const struct pl_hash *id, struct pl_buf *ret, struct pl_err *err)
{
    return get_named(store, id, 0, ret, err);
}

int pl_store_node_show(void *store, const struct pl_hash *id, pl_byte_view_fn look, void *arg, struct pl_err *err)
{
    struct pl_store *s = store;
    _cleanup_(pl_buf_finish) struct pl_buf bytes = {0};
    int r;

    if (pl_record_cache_show(s->cache, id, look, arg, &r, err))
        return r;
    r = get_named(s, id, 0, &bytes, err); /* this also caches the record for later calls */
    return r < 0 ? r : look(arg, &(struct pl_byte_view){bytes.data, bytes.len, NULL}, err);
}

static int reader_get(void *self, const struct pl_hash *id, unsigned kind, struct pl_buf *ret, struct pl_err *err)
{
    return get_named(self, id, (uint8_t)kind, ret, err);
}

struct pl_chunk_reader pl_store_chunk_reader(struct pl_store *store)
{
    return (struct pl_chunk_reader){.self = store, .get = reader_get};
}
