// link: storage/tree_edit
/* Any bytes as a stream of operations: refused, or operations that are written as the same bytes again. */
#include "storage/tree_edit/tree_ops.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    struct pl_buf out = {0};
    struct pl_tree_ops_writer w = {0};
    struct pl_tree_op *ops = NULL;
    size_t count = 0;
    int r;

    if (pl_tree_ops_read(data, n, &ops, &count, NULL) == 0) {
        r = pl_tree_ops_writer_init(&w, &out, NULL);
        for (size_t i = 0; r == 0 && i < count; i++)
            r = pl_tree_ops_writer_add(&w, &ops[i], NULL);
        if (r == 0)
            r = pl_tree_ops_writer_end(&w, NULL);
        if (r < 0 || out.len != n || memcmp(out.data, data, n) != 0)
            abort();
    }
    free(ops);
    pl_tree_ops_writer_finish(&w);
    pl_buf_finish(&out);
    return 0;
}
