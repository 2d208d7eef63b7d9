/* gc.pml: collecting garbage while others write (storage/dataset/gc/gc.h), for spin: every interleaving of those below and the daemon's death,
 * over PACKS packs of two contents.
 *
 *   who         what it stands for
 *   pusher      has a session; asks for a content, or brings it in a pack of its own; the daemon checks each content that its commit
 *               names. The session may end at any time without its knowing
 *   worker      has a lease; what its result names is not looked at again. -DTELLING: a session, too, which has pins and may end
 *   job         reads a commit and takes over what an earlier one has left; what it names in the end is not looked at again
 *   stranger    puts a pack by a presigned URL, which says what it holds and may lie; and the daemon's thread that reads it back
 *   reader      has no session; reads what a commit names out of the pack that it was found in
 *   deleter     commits go, by a deletion or by a rule that keeps the newest
 *   collector   mark, copy, condemn, mark again, doom, remove; -DTWO: there are two of them
 *   death       the daemon dies and starts: what was not durable, and all that lay in its memory, is gone
 *
 *   claim       where                    what must hold
 *   I1          the pusher's commit      never names what is doomed or gone; what was condemned lives again in the same transaction
 *   I2          sound()                  what is named is in a pack whose object is there, and is what it says
 *   I3, I5, I6  rules, each BREAK_…      doom waits and marks again; who asks is never shown what is condemned; one collector at a time
 *   I4          death, at every step     the collector goes on from what the database says
 *   and         the pusher's refusal     whose session lives is never told to bring something again
 *               the reader               gets what is named all the while that it reads
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
#define READER 2
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
byte inputs;        /* contents that the job reads, whatever became of the commit */
byte left;          /* contents that results of an earlier job name, which the next may take over */
byte unread;        /* packs of which nothing but what they say is known; of each there is a note in the database */
byte lies;          /* packs that do not hold what they say */
byte caught;        /* packs' names of which the database says that what lay there lied */
byte barred;        /* slots that were emptied behind the collector's back: it would take what comes there for what it has judged */
bit locked;
byte collecting;
bit working;        /* the job */
byte reading;       /* the pack that is read back, NONE: none is */
bit another;        /* it got other bytes meanwhile */
byte lost;          /* PUSHER, WORKER: the daemon died with what it had not answered yet; ASKING: who waits for an answer */
byte at[3];         /* PUSHER, WORKER, READER: the pack that it has in mind; a slot is used again, a pack's id is not: then it is GONE */
hidden byte k, there, best, rank;

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
        :: (state[k] == LIVE || state[k] == CONDEMNED) && index[k] != DROPPED && !(lies & BIT(k)) -> there = there | holds[k]
        :: else
        fi
    }
    assert(((commits | inputs | left) & ~there) == 0)
}

/* Doubt weighs more than who is shown it. */
#ifndef BREAK_RANK
#define RANK(p) ((unread & BIT(p) -> 2 : 0) + (index[p] == HIDDEN -> 1 : 0))
#else
#define RANK(p) ((unread & BIT(p) -> 1 : 0) + (index[p] == HIDDEN -> 2 : 0))
#endif

/* The thread that reads back has made its records unknown. */
#define TAKEN_OUT(p) (reading == p && index[p] == DROPPED)

inline revive(p)
{
    state[p] = LIVE;
    index[p] = (TAKEN_OUT(p) -> DROPPED : SHOWN);
    before[p] = 0
}

/* Where a content is: the newest of those that are doubted and hidden the least. */
inline locate(c, where)
{
    best = NONE;
    rank = 4;
    for (k : 0 .. PACKS - 1) {
        if
        :: state[k] != FREE && (holds[k] & (c)) && index[k] != DROPPED && RANK(k) <= rank -> best = k; rank = RANK(k)
        :: else
        fi
    }
    where = best
}

/* Must it be brought? */
inline ask(c, where)
{
    locate(c, where);
    if
#ifndef BREAK_HAVE
    :: where != NONE && index[where] == HIDDEN -> where = NONE
#endif
#ifndef BREAK_TRUST
    :: where != NONE && (unread & BIT(where)) -> where = NONE
#endif
    :: else
    fi
}

inline free_slot(where)
{
    where = NONE;
    for (k : 0 .. PACKS - 1) {
        if
        :: state[k] == FREE && !(barred & BIT(k)) -> where = k
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

/* The pusher brings verified bytes under a name where something lies that nobody has read: pinned first, made live, then they take its
 * place. It is still read back, but not for what it was. */
inline put_over(c)
{
    at[PUSHER] = NONE;
    for (k : 0 .. PACKS - 1) {
        if
        :: (state[k] == LIVE || state[k] == CONDEMNED) && holds[k] == (c) && (unread & BIT(k)) && (alive & SESSION) &&
            !(reading == k && (caught & BIT(k))) -> at[PUSHER] = k
        :: else
        fi
    }
    if
    :: at[PUSHER] != NONE ->
        pinned = pinned | BIT(at[PUSHER]);
        index[at[PUSHER]] = (state[at[PUSHER]] == CONDEMNED || index[at[PUSHER]] == DROPPED -> SHOWN : index[at[PUSHER]]);
        before[at[PUSHER]] = 0;
        state[at[PUSHER]] = LIVE;
        another = another | (reading == at[PUSHER]);
#ifndef BREAK_NAME
        lies = lies & ~BIT(at[PUSHER])
#endif
    :: else
    fi;
    k = 0
}

inline remove(where)
{
    at[READER] = (at[READER] == where -> GONE : at[READER]);
    reading = (reading == where -> NONE : reading);
    unread = unread & ~BIT(where);
    lies = lies & ~BIT(where);
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
        if
        :: over = 0
#ifdef BRINGING
        :: who == PUSHER -> over = 1
        :: who == PUSHER -> over = 2
#endif
        fi;
        d_step {
            lost = (lost | ASKING(who)) & ~BIT(who);
            ask(c, at[who]);
            if
            :: at[who] == NONE && over == 1 -> put_over(c)
            :: at[who] == NONE && over != 1 ->
                free_slot(at[who]);
                if
                :: at[who] != NONE ->
                    put(at[who], c);
                    unread = (over == 2 -> unread | BIT(at[who]) : unread) /* by a presigned URL */
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
                :: who == PUSHER && (alive & SESSION) ->
                    pinned = pinned | BIT(at[who]);
#ifndef BREAK_TELL
                    if
                    :: state[at[who]] == CONDEMNED -> revive(at[who]) /* meanwhile */
                    :: else
                    fi
#endif
                :: who == WORKER && same -> told = told | BIT(at[who])
                :: else
                fi
            :: else
            fi;
            lost = lost & ~ASKING(who);
            over = 0
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
    byte over;
    bit again, refused;

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
#ifdef BREAK_LATE
                refused = (alive & SESSION) == 0;
#endif
                d_step {
                    /* its request, whole: first the hold, then a look whether the session lives, which lasts for as long as the look-up takes;
                     * what is found is flushed before the log is written */
#ifndef BREAK_LATE
                    refused = (alive & (REQUEST | SESSION)) == 0;
#endif
                    lost = lost & ~BIT(PUSHER);
                    alive = alive | REQUEST;
                    locate(c, at[PUSHER]);
                    if
                    :: refused -> at[PUSHER] = NONE
                    :: !refused && at[PUSHER] != NONE -> durable = durable | BIT(at[PUSHER])
                    :: else -> assert((alive & SESSION) == 0) /* it is told to bring it again */
                    fi;
                    refused = 0
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
                        revive(at[PUSHER]);
                        commits = commits | c
#endif
                    :: else -> commits = commits | c
                    fi;
                    assert(again || state[at[PUSHER]] == LIVE);
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
    byte over;

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

/* Everything of its is a root of its own: the inputs as soon as it is there, what an earlier one left while rules leave that alone. */
proctype job()
{
    byte reuses;
    bit good;

    do
    :: d_step { !working && ((commits | left) & 1) -> working = 1; inputs = commits & 1; reuses = left & 1 }
    :: working ->
        if
        :: good = 1
        :: good = 0
        fi;
        d_step { /* its end: one transaction, which looks up nothing */
            commits = (good -> commits | inputs | reuses : commits);
            left = (good -> left : left | inputs | reuses);
            inputs = 0;
            reuses = 0;
            working = 0;
            good = 0;
            sound()
        }
    od
}

#ifndef BREAK_AGAIN
#define UNTOUCHED (!another)
#else
#define UNTOUCHED 1
#endif

/* Some pack that was not read yet, the last one. */
inline next_unread(where)
{
    where = NONE;
    for (k : 0 .. PACKS - 1) {
        if
        :: state[k] != FREE && (unread & BIT(k)) -> where = k
        :: else
        fi
    }
    k = 0
}

proctype stranger()
{
    byte where;
    bit lying;

    do
    :: unread == 0 ->
        if
        :: lying = 0
        :: lying = 1
        fi;
        d_step {
            free_slot(where);
            if
            :: where != NONE && unread == 0 ->
                put(where, 1);
                durable = durable | BIT(where);
                unread = unread | BIT(where);
                lies = (lying -> lies | BIT(where) : lies);
                caught = caught & ~BIT(where)
            :: else
            fi;
            where = NONE;
            lying = 0
        }
    od
}

proctype read_back()
{
    byte which;
    bit lying;

    do
    :: d_step { unread && reading == NONE -> next_unread(reading); lying = (reading != NONE -> (lies & BIT(reading)) != 0 : 0); another = 0 }
    :: d_step { reading != NONE && UNTOUCHED && !lying -> unread = unread & ~BIT(reading); caught = caught & ~BIT(reading); reading = NONE }
    :: d_step { reading != NONE && !UNTOUCHED -> reading = NONE; lying = 0 } /* it is read anew */
    :: reading != NONE && UNTOUCHED && lying ->
        d_step { /* nobody finds it while it is looked who needs it */
            if
            :: reading != NONE && UNTOUCHED -> index[reading] = DROPPED
            :: else
            fi
        }
        d_step {
            if
            :: reading != NONE && UNTOUCHED -> caught = caught | BIT(reading)
            :: else -> reading = NONE
            fi
        }
        d_step {
            if
            :: reading != NONE -> barred = (collecting -> barred | BIT(reading) : barred); which = reading; remove(which); which = 0
            :: else
            fi;
            lying = 0
        }
    od
}

/* Who reads a commit, by the daemon. */
proctype reader()
{
    do
    :: d_step { (commits & 1) -> locate(1, at[READER]) }
        do
        :: d_step {
            at[READER] != NONE && at[READER] != GONE && !(lies & BIT(at[READER])) -> at[READER] = NONE
        } break
        :: d_step { at[READER] == NONE -> skip } break
        :: d_step { /* its pack went: what was needed of it is elsewhere */
            at[READER] == GONE ->
#ifndef BREAK_READ
            locate(1, at[READER]);
            assert(at[READER] != NONE || !(commits & 1));
#else
            assert(!(commits & 1));
            at[READER] = NONE
#endif
        }
        od
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
#ifdef BREAK_KEEP
    :: d_step { left -> left = 0 }
#else
    :: d_step { left && !working -> left = 0 }
#endif
    od
}

/* Of two such with the same content a mark counts one. HELD: packs of which a session's pins are seen in the verdict's transaction. */
#ifndef BREAK_UNREAD
#define MAY_LIE(p) (unread & BIT(p))
#else
#define MAY_LIE(p) 0
#endif
#if !defined(BREAK_PIN) && !defined(BREAK_HELD)
#define HELD (pinned | told)
#else
#define HELD 0
#endif
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
            barred = 0;
            for (k : 0 .. PACKS - 1) {
                if
                :: state[k] == LIVE && !MAY_LIE(k) -> judged = judged | BIT(k)
#ifdef BREAK_WAIT
                :: state[k] == CONDEMNED && !MAY_LIE(k) -> ended = ended | BIT(k)
#else
                :: state[k] == CONDEMNED && !MAY_LIE(k) && before[k] == 0 -> ended = ended | BIT(k)
#endif
                :: else
                fi
            }
        }
        /* all of them at one moment: what is needed moves from one to another */
#ifdef BREAK_MOMENT
        roots = commits;
        d_step { roots = roots | inputs | left; pins = pinned | told }
#else
        d_step {
            roots = commits;
#ifndef BREAK_INPUT
            roots = roots | inputs;
#endif
#ifndef BREAK_LEFT
            roots = roots | left;
#endif
#ifndef BREAK_PIN
            pins = pinned | told
#endif
        }
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
#ifndef PLAIN
        if
        :: copying = 1
        :: skip
        fi;
#endif
        d_step {
            copy = NONE;
            for (i : 0 .. PACKS - 1) {
                if
                :: copying && (collecting & BIT(me)) && copy == NONE && (judged & needed & ~pins & BIT(i)) && state[i] == LIVE &&
                    holds[i] == 3 && roots != 3 && !(lies & BIT(i)) ->
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
        /* one transaction: the verdict on what was condemned before, and what is condemned now; nothing that is pinned by now takes a step */
        STEP(for (i : 0 .. PACKS - 1) {
            if
            :: (judged & ~(needed | pins) & BIT(i)) && state[i] == LIVE && !(HELD & BIT(i)) -> state[i] = CONDEMNED; before[i] = alive
            :: (judged & ~(needed | pins) & BIT(i)) && state[i] == LIVE && (HELD & BIT(i)) && !TAKEN_OUT(i) -> index[i] = SHOWN
            :: state[i] == CONDEMNED && ((needed | pins) & BIT(i)) -> revive(i)
            :: state[i] == CONDEMNED && (ended & ~(needed | pins) & BIT(i)) && !(HELD & BIT(i)) -> state[i] = DOOMED
            :: state[i] == CONDEMNED && (ended & ~(needed | pins) & BIT(i)) && (HELD & BIT(i)) && !TAKEN_OUT(i) -> index[i] = HIDDEN
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
            barred = 0; judged = 0; ended = 0; roots = 0; pins = 0; needed = 0; copy = 0; copying = 0; i = 0;
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
            at[READER] = NONE;
            reading = NONE;
            another = 0;
            barred = 0;
            for (k : 0 .. PACKS - 1) {
                if
                :: state[k] != FREE && (durable & BIT(k)) == 0 -> remove(k)
                :: else
                fi;
                /* what was caught is looked at before it is taken out: by now it may be something else */
                if
#ifdef BREAK_NOTE
                :: state[k] != FREE && (caught & BIT(k)) -> remove(k)
#else
                :: state[k] != FREE && (caught & BIT(k)) -> unread = unread | BIT(k)
#endif
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
#ifdef BREAK_DOUBT
            unread = 0;
#endif
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
        durable = 1;
#ifdef PLAIN
        holds[0] = 1;
        commits = 1;
#else
        holds[0] = 3;
        commits = 3;
#endif
        at[PUSHER] = NONE;
        at[WORKER] = NONE;
        at[READER] = NONE;
        reading = NONE;
#ifdef PUSHING
        run pusher();
#endif
#ifdef WORKING
        run worker();
#endif
#ifdef REUSING
        run job();
#endif
#ifdef BRINGING
        run stranger();
        run read_back();
#endif
#ifdef READING
        run reader();
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
