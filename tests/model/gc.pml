/* gc.pml: collecting garbage while others write (storage/dataset/gc.h), for spin: every interleaving of a pusher, a worker, somebody who
 * deletes, a collector and the daemon's death, over PACKS packs of two contents.
 *
 *   who         what it stands for
 *   pusher      has a session; asks for a content, or brings it in a pack of its own; the daemon checks each content that its commit
 *               names. The session may end at any time without its knowing
 *   worker      has a lease; what its result names is not looked at again. -DTELLING: a session, too, which has pins and may end
 *   deleter     commits go, by a deletion or by a rule that keeps the newest
 *   collector   mark, copy, condemn, mark again, doom, remove; -DTWO: there are two of them
 *   death       the daemon dies and starts: what was not durable, and all that lay in its memory, is gone
 *
 *   claim       where                    what must hold
 *   I1          the pusher's commit      never names what is doomed or gone; what was condemned lives again in the same transaction
 *   I2          sound()                  what a commit names is in a pack whose object is there
 *   I3, I5, I6  rules, each BREAK_…      doom waits and marks again; who asks is never shown what is condemned; one collector at a time
 *   I4          death, at every step     the collector goes on from what the database says
 *   and         the pusher's refusal     whose session lives is never told to bring something again
 *
 * test_gc.py lets spin prove all that, then leaves out one rule after the other and expects to be told what that breaks. */
#ifndef PACKS
#define PACKS 3
#endif
#define NONE   PACKS
#define GONE   (PACKS + 1)
#define BIT(i) (1 << (i))

/* In the database; FREE: there is no object. */
#define FREE      0
#define LIVE      1
#define CONDEMNED 2
#define DOOMED    3
/* What the index in the daemon's memory says. */
#define SHOWN   0
#define HIDDEN  1 /* those who read find it, those who ask whether to bring something do not */
#define DROPPED 2

/* Who holds up a deletion. */
#define SESSION BIT(0) /* the pusher's */
#define REQUEST BIT(1) /* the daemon at work on its commit */
#define LEASE   BIT(2) /* the worker's */

#define PUSHER 0
#define WORKER 1
/* Packs of which a session's pins are seen in the verdict's transaction. */
#ifdef BREAK_PIN
#define HELD 0
#else
#define HELD (pinned | told)
#endif
#ifdef TELLING
#define ASKING(who) BIT(2 + (who))
#else
#define ASKING(who) ((who) == PUSHER -> BIT(2) : 0)
#endif

byte state[PACKS];
byte holds[PACKS];  /* contents: 1, 2, 3 for both */
byte index[PACKS];
byte before[PACKS]; /* of a condemned one: who was there then, and still is */
byte durable;       /* packs */
byte alive;
byte pinned;        /* packs, by the pusher's session */
byte told;          /* packs, by the session that the worker has had since its lease began */
bit same;           /* it has it still */
byte commits;       /* contents that a commit names */
bit locked;
byte collecting;
byte lost;          /* PUSHER, WORKER: the daemon died with what it had not answered yet; ASKING: who waits for an answer */
byte at[2];         /* PUSHER, WORKER: the pack that it has in mind; a slot is used again, a pack's id is not: then it is GONE */
hidden byte k, there, shown, hid;

inline leave(who)
{
    alive = alive & ~(who);
    for (k : 0 .. PACKS - 1) { before[k] = before[k] & ~(who) }
    k = 0
}

inline end_lease()
{
    leave(LEASE);
    told = 0;
    same = 0
}

inline sound()
{
    there = 0;
    for (k : 0 .. PACKS - 1) {
        if
        :: (state[k] == LIVE || state[k] == CONDEMNED) && index[k] != DROPPED -> there = there | holds[k]
        :: else
        fi
    }
    assert((commits & ~there) == 0)
}

/* Where a content is: the newest that is shown, else one that is hidden. */
inline locate(c, where)
{
    shown = NONE;
    hid = NONE;
    for (k : 0 .. PACKS - 1) {
        if
        :: state[k] != FREE && (holds[k] & (c)) && index[k] == SHOWN -> shown = k
        :: state[k] != FREE && (holds[k] & (c)) && index[k] == HIDDEN -> hid = k
        :: else
        fi
    }
    where = (shown != NONE -> shown : hid)
}

/* Must it be brought? */
inline ask(c, where)
{
    locate(c, where);
#ifndef BREAK_HAVE
    where = shown
#endif
}

inline free_slot(where)
{
    where = NONE;
    for (k : 0 .. PACKS - 1) {
        if
        :: state[k] == FREE -> where = k
        :: else
        fi
    }
    k = 0
}

inline put(where, contents)
{
    state[where] = LIVE;
    holds[where] = contents;
    index[where] = SHOWN;
    before[where] = 0;
    durable = durable & ~BIT(where)
}

inline remove(where)
{
    at[PUSHER] = (at[PUSHER] == where -> GONE : at[PUSHER]);
    at[WORKER] = (at[WORKER] == where -> GONE : at[WORKER]);
    state[where] = FREE;
    holds[where] = 0;
    index[where] = SHOWN;
    before[where] = 0;
    durable = durable & ~BIT(where)
}

/* A writer learns that it need not bring a content, or brings it; what it was told, or has brought, is durable then. NONE when this
 * model has no room for another pack. */
inline have_or_put(who, c)
{
    do
    :: true ->
        d_step {
            lost = (lost | ASKING(who)) & ~BIT(who);
            ask(c, at[who]);
            if
            :: at[who] == NONE ->
                free_slot(at[who]);
                if
                :: at[who] != NONE -> put(at[who], c)
                :: else
                fi
            :: else
            fi
        }
        d_step {
            if
            :: at[who] < NONE && (lost & BIT(who)) == 0 ->
#ifndef BREAK_ANSWER
                durable = durable | BIT(at[who]);
#else
                durable = (holds[at[who]] == c -> durable : durable);
#endif
                if
                :: who == PUSHER && (alive & SESSION) -> pinned = pinned | BIT(at[who])
                :: who == WORKER && same -> told = told | BIT(at[who])
                :: else
                fi
            :: else
            fi;
            lost = lost & ~ASKING(who)
        }
        if
        :: (lost & BIT(who)) == 0 -> break
        :: else
        fi
    od;
    skip
}

proctype pusher()
{
    byte c;
    bit again;

    do
    :: true ->
        d_step { alive = alive | SESSION; pinned = 0 }
        if
        :: c = 1
#ifndef ONE
        :: c = 2
#endif
        fi;
        have_or_put(PUSHER, c);
        if
        :: at[PUSHER] != NONE ->
            do
            :: true ->
                d_step { /* what is found is flushed before the log is written */
                    lost = lost & ~BIT(PUSHER);
                    alive = alive | REQUEST;
                    locate(c, at[PUSHER]);
                    if
                    :: at[PUSHER] != NONE -> durable = durable | BIT(at[PUSHER])
                    :: else -> assert((alive & SESSION) == 0) /* it is told to bring it again */
                    fi
                }
                if
                :: at[PUSHER] == NONE -> break
                :: else
                fi;
                d_step {
                    again = 0;
                    if
                    :: at[PUSHER] == GONE || (lost & BIT(PUSHER)) -> again = 1
#ifndef BREAK_COMMIT
                    :: at[PUSHER] < NONE && !(lost & BIT(PUSHER)) && state[at[PUSHER]] == DOOMED -> again = 1
                    :: at[PUSHER] < NONE && !(lost & BIT(PUSHER)) && state[at[PUSHER]] == CONDEMNED ->
                        state[at[PUSHER]] = LIVE;
                        index[at[PUSHER]] = SHOWN;
                        before[at[PUSHER]] = 0;
                        commits = commits | c
#endif
                    :: else -> commits = commits | c
                    fi;
                    sound()
                }
                if
                :: again
                :: else -> break
                fi
            od;
            skip
        :: else
        fi;
        d_step { leave(SESSION | REQUEST); pinned = 0; at[PUSHER] = NONE; c = 0; again = 0 }
    od
}

proctype worker()
{
    do
    :: (alive & LEASE) == 0 ->
#ifdef TELLING
        d_step { alive = alive | LEASE; same = 1 }
#else
        alive = alive | LEASE;
#endif
        have_or_put(WORKER, 1);
        d_step { /* its result, by the transaction that ends the lease */
            if
#ifdef BREAK_LEASE
            :: at[WORKER] != NONE -> commits = commits | 1
#else
            :: at[WORKER] != NONE && (alive & LEASE) -> commits = commits | 1
#endif
            :: else
            fi;
            end_lease();
            sound();
            at[WORKER] = NONE
        }
    od
}

proctype others()
{
    do
    /* the lease of the pusher's session runs out */
    :: d_step { (alive & SESSION) -> leave(SESSION); pinned = 0 }
    /* or it is renewed: it is as if it had begun a while ago, after all that it was told but did not use yet; pins alone are older */
    :: d_step { (alive & SESSION) && !(lost & ASKING(PUSHER)) -> for (k : 0 .. PACKS - 1) { before[k] = before[k] & ~SESSION } k = 0 }
#ifdef TELLING
    /* so is a worker's lease, while the session has all its pins in which it was told; that may end, too */
    :: d_step { same -> told = 0; same = 0 }
    :: d_step {
#ifdef BREAK_TOLD
            (alive & LEASE) && !(lost & ASKING(WORKER)) ->
#else
            same && !(lost & ASKING(WORKER)) ->
#endif
            there = 0;
            for (k : 0 .. PACKS - 1) { there = (state[k] == CONDEMNED -> there | BIT(k) : there) }
            for (k : 0 .. PACKS - 1) {
                if
#ifndef BREAK_TOLD_LIVE
                :: there & told /* it was condemned before it was pinned, and lives again with the next mark */
#endif
                :: else -> before[k] = before[k] & ~LEASE
                fi
            }
            k = 0
        }
#endif
    /* the worker is taken for dead */
    :: d_step { (alive & LEASE) -> end_lease() }
    /* commits go */
    :: d_step { (commits & 1) -> commits = commits & ~1 }
    :: d_step { (commits & 2) -> commits = commits & ~2 }
    od
}

/* Nothing of a step happens when the daemon has died meanwhile. */
#define STEP(what) d_step { if :: (collecting & BIT(me)) -> what :: else fi; k = 0 }

proctype collector(byte me)
{
    byte judged, ended, roots, pins, needed, copy, i;
    bit copying;

    do
    ::
#ifdef BREAK_LOCK
        collecting = collecting | BIT(me);
#else
        d_step { !locked -> locked = 1; collecting = collecting | BIT(me) }
#endif
        /* who is judged, and whose time has come, is said before the roots are read */
        d_step {
            judged = 0;
            ended = 0;
            needed = 0;
            for (k : 0 .. PACKS - 1) {
                if
                :: state[k] == LIVE -> judged = judged | BIT(k)
#ifdef BREAK_WAIT
                :: state[k] == CONDEMNED -> ended = ended | BIT(k)
#else
                :: state[k] == CONDEMNED && before[k] == 0 -> ended = ended | BIT(k)
#endif
                :: else
                fi
            }
        }
#ifndef BREAK_PIN
        d_step { roots = commits; pins = pinned | told }
#else
        roots = commits;
#endif
        /* mark */
        STEP(locate(roots & 1, i); needed = (i != NONE -> needed | BIT(i) : needed))
        STEP(locate(roots & 2, i); needed = (i != NONE -> needed | BIT(i) : needed))
#ifdef BREAK_MARK
        needed = needed & judged;
#endif
#ifndef BREAK_FLUSH
        STEP(durable = BIT(PACKS) - 1)
#endif
        /* what is little needed is copied: here what holds two contents, of which one is */
        copying = 0;
        if
        :: copying = 1
        :: skip
        fi;
        d_step {
            copy = NONE;
            for (i : 0 .. PACKS - 1) {
                if
                :: copying && (collecting & BIT(me)) && copy == NONE && (judged & needed & ~pins & BIT(i)) && state[i] == LIVE &&
                    holds[i] == 3 && roots != 3 ->
                    free_slot(copy);
                    if
                    :: copy != NONE -> put(copy, roots); needed = needed & ~BIT(i)
                    :: else
                    fi
                :: else
                fi
            }
        }
        /* in memory first: what will be condemned is hidden from those who ask, what will be doomed from everybody */
#ifndef BREAK_ORDER
        STEP(for (i : 0 .. PACKS - 1) {
            if
            :: (judged & ~(needed | pins) & BIT(i)) && state[i] == LIVE -> index[i] = HIDDEN
            :: state[i] == CONDEMNED && (ended & ~(needed | pins) & BIT(i)) -> index[i] = DROPPED
            :: else
            fi
        })
#endif
        /* one transaction: the verdict on what was condemned before, and what is condemned now; nothing of it on what is pinned by now */
        STEP(for (i : 0 .. PACKS - 1) {
            if
            :: state[i] == LIVE && (judged & HELD & BIT(i)) -> index[i] = SHOWN
            :: state[i] == CONDEMNED && (HELD & ~(needed | pins) & BIT(i)) -> index[i] = HIDDEN
            :: (judged & ~(needed | pins | HELD) & BIT(i)) && state[i] == LIVE -> state[i] = CONDEMNED; before[i] = alive
            :: state[i] == CONDEMNED && ((needed | pins) & BIT(i)) -> state[i] = LIVE; index[i] = SHOWN; before[i] = 0
            :: state[i] == CONDEMNED && (ended & ~(needed | pins | HELD) & BIT(i)) -> state[i] = DOOMED
#ifdef BREAK_DOOM
            :: state[i] == CONDEMNED && !(ended & BIT(i)) -> remove(i)
#endif
            :: else
            fi
        }
        sound())
#ifdef BREAK_ORDER
        STEP(for (i : 0 .. PACKS - 1) {
            if
            :: state[i] == CONDEMNED -> index[i] = HIDDEN
            :: state[i] == DOOMED -> index[i] = DROPPED
            :: else
            fi
        })
#endif
        STEP(for (i : 0 .. PACKS - 1) {
            if
            :: state[i] == DOOMED -> remove(i)
            :: else
            fi
        })
        d_step {
            judged = 0; ended = 0; roots = 0; pins = 0; needed = 0; copy = 0; copying = 0; i = 0;
            if
            :: collecting & BIT(me) -> collecting = collecting & ~BIT(me); locked = 0
            :: else
            fi
        }
    od
}

proctype death()
{
    do
    :: d_step {
            lost = (at[PUSHER] != NONE) | ((at[WORKER] != NONE) << 1) | (lost & (ASKING(PUSHER) | ASKING(WORKER)));
            for (k : 0 .. PACKS - 1) {
                if
                :: state[k] != FREE && (durable & BIT(k)) == 0 -> remove(k)
                :: else
                fi;
                /* the index is read anew, from the packs and from what the database says of them */
                if
#ifndef BREAK_START
                :: state[k] == CONDEMNED -> index[k] = HIDDEN
#endif
                :: state[k] == DOOMED -> index[k] = DROPPED
                :: else -> index[k] = SHOWN
                fi
            }
            leave(REQUEST);
            collecting = 0;
            locked = 0;
            sound()
        }
    od
}

init {
    atomic {
        state[0] = LIVE;
        holds[0] = 3;
        durable = 1;
        commits = 3;
        at[PUSHER] = NONE;
        at[WORKER] = NONE;
#ifdef PUSHING
        run pusher();
#endif
#ifdef WORKING
        run worker();
#endif
#ifdef DYING
        run death();
#endif
#ifdef TWO
        run collector(1);
#endif
        run collector(0);
        run others()
    }
}
