/* freshness: decides whether the output of a stage is out of date, why, and which command mends it. Pure.
 *
 *                     no reason
 *        ┌─────────────────────────────────▶ CURRENT
 *   facts┤ a reason, and an unfinished job ▶ UPDATING   "being brought up to date by run 9ab2f1c4"
 *        │ a reason                        ▶ STALE      "out of date: 22 datums, code changed in run 9ab2f1c4"
 *        └ nothing was made, nothing can   ▶ EMPTY
 *
 * A stage that reads the output of a stage that is out of date is out of date, too: the caller decides stages in the order
 * of the graph, each after those that it reads. Numbers of datums are those that are known without a plan. */
#pragma once

#include "pipelined/plan/stage_change.h"

#include <stdbool.h>
#include <stdint.h>

#define PL_FRESHNESS_TEXT_MAX 640 /* bytes of a sentence or a command, with the final NUL */

/* Reasons; a stage may have several. */
enum pl_stale {
    PL_STALE_CODE = 1 << 0,     /* the output was made by older code */
    PL_STALE_SPEC = 1 << 1,     /* it was made with another selection of inputs or another prefix */
    PL_STALE_INPUT = 1 << 2,    /* an input has a newer commit than the one that was read */
    PL_STALE_SKIPPED = 1 << 3,  /* datums that failed were left out (`on_error` "skip") */
    PL_STALE_UPSTREAM = 1 << 4, /* it was made from an output that is itself out of date */
    PL_STALE_MISSING = 1 << 5,  /* there is no output yet, although all inputs have commits */
};
#define PL_STALE_KINDS 6u

/* One input branch, in spec order. Texts are borrowed. */
struct pl_freshness_input {
    const char *name;   /* of the repo, as it is shown; of a stage, its name */
    const char *head;   /* the branch's newest commit; "" = it has none, or the caller may not read it */
    bool read;          /* the output was made from `head` */
    bool stale;         /* a stage writes it, and is out of date */
    unsigned stale_why; /* enum pl_stale: why it is */
    bool hidden;        /* the caller may not read the branch: whether it has a newer commit is not known */
};

struct pl_freshness_facts {
    bool has_output;              /* the branch that the stage writes has a commit */
    bool tried;                   /* the stage has had a job */
    enum pl_output_change change; /* from the stage that made the output to the stage as it is */
    const struct pl_freshness_input *inputs;
    size_t n_inputs;
    int64_t datums;  /* of the job that made the output; −1 = unknown */
    int64_t skipped; /* of them, the ones that were left out */
    int64_t
        left; /* datums that the newest job did not finish, if it read the present inputs with the present code; −1 = not so */
    bool uncached; /* no earlier result is reused: every run of the stage runs every datum */
    bool running;  /* an unfinished job of the stage as it is now; it waits or runs */
    bool stopped;  /* its pipeline is */
};

enum pl_freshness_state {
    PL_FRESHNESS_CURRENT,
    PL_FRESHNESS_STALE,
    PL_FRESHNESS_UPDATING,
    PL_FRESHNESS_EMPTY, /* no output, and nothing to make one from yet */
};

struct pl_freshness {
    enum pl_freshness_state state;
    unsigned why;    /* enum pl_stale; 0 if it is current or empty */
    int64_t datums;  /* that have to run; −1 = not known without a plan, or because an input is hidden */
    bool every;      /* a run of the stage runs every datum, whatever the reason */
    size_t input;    /* number of the first input that gives a reason; `n_inputs` = none does */
    unsigned others; /* further inputs that give the same reason */
};

/* Decides. `ret` is always set. Any thread. */
void pl_freshness_decide(const struct pl_freshness_facts *facts, struct pl_freshness *ret);
/* True if the stage is to be listed as out of date: it is stale, or being brought up to date. */
static inline bool pl_freshness_is_stale(const struct pl_freshness *f)
{
    return f->state == PL_FRESHNESS_STALE || f->state == PL_FRESHNESS_UPDATING;
}
/* Returns "current", "stale", "updating", "empty"; "code", "spec", "input", "skipped", "upstream", "missing". */
const char *pl_freshness_state_name(enum pl_freshness_state state);
const char *pl_stale_name(enum pl_stale one);

/* What the sentences name beside the facts. Texts are borrowed; "" = unknown. */
struct pl_freshness_words {
    const char *project, *pipeline;
    const char *changed_run;      /* run that the change of the code or the spec set off; "" = it set off none */
    int64_t changed_version;      /* version of the pipeline that brought it; 0 = unknown */
    const char *running_run;      /* run that brings the stage up to date */
    const char *upstream_command; /* mends the stage that the first input comes from; "" = unknown */
    bool stopped;
};

/* Writes why the stage is out of date: "out of date: 22 datums, code changed in run 9ab2f1c4"; of one that is being brought
 * up to date ", being brought up to date by run 1f0c2b7a" follows. "" if it is not out of date. */
void pl_freshness_text(const struct pl_freshness *f, const struct pl_freshness_facts *facts,
                       const struct pl_freshness_words *words, char ret[PL_FRESHNESS_TEXT_MAX]);
/* Writes the command that mends it: "pipelinectl run pipeline lab". "" if it is not out of date. */
void pl_freshness_command(const struct pl_freshness *f, const struct pl_freshness_words *words, char ret[PL_FRESHNESS_TEXT_MAX]);

/* What a run of the stage would do. */
struct pl_freshness_price {
    int64_t datums; /* to run */
    bool at_most;   /* an upper bound: which datums are new is known when the run is planned */
    bool estimated; /* all run, and there may be more or fewer of them than the last job had */
};
/* Prices a run of the stage. `total`: datums of its last job; `force`: every datum runs, as it does if `f` says so; `upstream_runs`: a stage that it reads
 * may get a new output in the same run. */
struct pl_freshness_price pl_freshness_price(const struct pl_freshness *f, int64_t total, bool force, bool upstream_runs);
