// link: storage/base storage/dataset/checkout storage/dataset/commit storage/dataset/fsck storage/dataset/gc storage/dataset/ingest storage/pack storage/store storage/system storage/tree storage/tree_edit
/* Whatever goes through a tree holds each node against what the one above says of it: reach, fsck and the mark of garbage collection. Nodes
 * that name one node again and again, or lie deeper than a tree has levels, cost no more than what is stored. */
#include "tests/support/fixtures/dataset_fixture.h"

#include "storage/dataset/fsck/fsck.h"
#include "storage/dataset/gc/gc_mark.h"
#include "storage/dataset/gc/reachability.h"
#include "storage/tree/tree_node.h"

#define CHAIN 20000 /* more frames than a stack holds */

/* A node of `n` items, all of which name `below`; a leaf when that is NULL. Keys are "00000", "00001", … */
static struct pl_hash add_node(struct fixture *f, struct pl_pack_builder *session, unsigned level, uint32_t n,
                               const struct pl_node_child *below)
{
    _cleanup_(pl_buf_finish) struct pl_buf b = {0};
    struct pl_hash id;

    OK(f, pl_buf_add(&b, "PLTN\1\1", 6, &f->err));
    OK(f, pl_buf_add_u8(&b, (uint8_t)level, &f->err));
    OK(f, pl_buf_add_le32(&b, n, &f->err));
    for (uint32_t i = 0; i < n; i++) {
        char key[16], before[16];
        size_t shared = 0;

        print_to(key, sizeof key, "%05u", i);
        print_to(before, sizeof before, "%05u", i - 1);
        while (i && key[shared] == before[shared])
            shared++;
        OK(f, pl_buf_add_varint(&b, shared, &f->err));
        OK(f, pl_buf_add_varint(&b, 5 - shared, &f->err));
        OK(f, pl_buf_add(&b, key + shared, 5 - shared, &f->err));
        if (below)
            OK(f, pl_node_child_encode(below, &b, &f->err));
        else
            OK(f, pl_buf_add(&b, "\1\1\1x", 4, &f->err)); /* a file of one byte */
    }
    OK(f, pl_pack_builder_add(session, PL_REC_NODE, b.data, b.len, &id, &f->err));
    return id;
}

enum shape { GOOD, SHARED, CHAINED, WRONG_SUM, WRONG_KEY };

static struct pl_hash make_tree(struct fixture *f, enum shape shape)
{
    _cleanup_(pl_pack_builder_closep) struct pl_pack_builder *session = NULL;
    struct pl_pack_sink sink = pl_store_sink(f->store);
    struct pl_node_child below = {.stats = {1, 1}};

    OK(f, pl_pack_builder_open(&sink, "default", &session, &f->err));
    below.id = add_node(f, session, 0, shape == WRONG_KEY ? 2 : 1, NULL);
    if (shape == WRONG_KEY)
        below.stats = (struct pl_tree_stats){2, 2}; /* its last key is 00001 */
    for (unsigned level = 1; level <= (shape == CHAINED ? CHAIN : shape == SHARED ? 5 : 2); level++) {
        uint32_t n = shape == SHARED ? 1000 : 1;

        below.stats.files += shape == WRONG_SUM && level == 2;
        below.id = add_node(f, session, shape == CHAINED ? 1 : level, n, &below);
        below.stats.files *= n;
        below.stats.bytes *= n;
    }
    OK(f, pl_pack_builder_finish(session, &f->err));
    return below.id;
}

static int no_hidden(void *self, const struct pl_hash *pack, struct pl_err *err)
{
    (void)self;
    (void)pack;
    (void)err;
    fail();
    return 0;
}

static int reach(struct fixture *f, const struct pl_hash *root)
{
    struct pl_effort effort = {.visits_max = 100000};
    struct pl_reachability how = {.store = f->store, .hidden = no_hidden, .effort = &effort};

    return pl_reachability_check_tree(&how, root, &f->err);
}

static int mark(struct fixture *f, const struct pl_hash *root)
{
    _cleanup_(pl_gc_mark_destroyp) struct pl_gc_mark *m = NULL;
    struct pl_gc_mark_config config = {.store = f->store};

    OK(f, pl_gc_mark_create(&config, &m, &f->err));
    OK(f, pl_gc_mark_begin(m, &f->err));
    return pl_gc_mark_tree(m, root, NULL, NULL, &f->err);
}

static int mark_nodes(struct fixture *f, const struct pl_hash *root)
{
    _cleanup_(pl_gc_mark_destroyp) struct pl_gc_mark *m = NULL;
    struct pl_gc_mark_config config = {.store = f->store};

    OK(f, pl_gc_mark_create(&config, &m, &f->err));
    OK(f, pl_gc_mark_begin(m, &f->err));
    return pl_gc_mark_nodes(m, root, &f->err);
}

/* A finding is what it says of damage. */
static int check(struct fixture *f, const struct pl_hash *root)
{
    struct pl_fsck_root one = {.label = "code", .object = *root, .kind = PL_FSCK_TREE};
    struct pl_fsck_options o = {0};
    struct pl_fsck_report report = {0};

    OK(f, pl_fsck(f->store, &one, 1, &o, &report, &f->err));
    return report.findings ? PL_ECORRUPT : 0;
}

static void every_walker_holds_nodes_against_what_names_them(void **state)
{
    static const struct {
        const char *name;
        int (*walk)(struct fixture *f, const struct pl_hash *root);
    } walkers[] = {{"reach", reach}, {"fsck", check}, {"gc mark", mark}, {"gc mark of nodes", mark_nodes}};
    static const char *const names[] = {[GOOD] = "good",
                                        [SHARED] = "one node at many places",
                                        [CHAINED] = "deeper than levels",
                                        [WRONG_SUM] = "a wrong sum",
                                        [WRONG_KEY] = "a wrong last key"};
    struct fixture *f = *state;

    for (enum shape shape = GOOD; shape <= WRONG_KEY; shape++) {
        struct pl_hash root = make_tree(f, shape);

        for (size_t i = 0; i < PL_ARRAY_SIZE(walkers); i++) {
            int r = walkers[i].walk(f, &root);

            if (r != (shape == GOOD ? 0 : PL_ECORRUPT))
                fail_msg("%s, %s: %d %s", walkers[i].name, names[shape], r, f->err.msg);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(every_walker_holds_nodes_against_what_names_them, fixture_setup, fixture_teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
