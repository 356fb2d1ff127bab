/* From paths to a filled builder: finds the files, tells formats and compression apart, reads each,
 * and sorts them into runs. */
#ifndef KS_READ_READ_H
#define KS_READ_READ_H

#include "base/log.h"
#include "read/stacks.h"
#include "store/builder.h"

struct ks_read_options {
    const char *const *paths; /* files, folders, "-" */
    size_t path_count;
    bool strict;
    int64_t run;         /* 1-based; 0: there must be just one */
    int64_t window;      /* of `kscope run`, 1-based; 0: the latest of each process in a folder */
    bool any_run;        /* all runs together: for looking at files, not for analysing them */
    unsigned threads;    /* 0: as many as there are processors */
    size_t window_bytes; /* how much of a file is looked at at once; 0: as usual */
    bool rank_given;     /* only the files of this rank */
    int64_t rank;
    const struct ks_log *log;
    struct ks_progress *progress; /* NULL: nobody asks */
    /* Gets the recordings with stacks that lie beside clean ones; NULL: they are left out. */
    struct ks_stacks_list *stacks;
};

/* The files that ks_read_paths reads, in its order; stacks go where the options say. Memory comes
 * from the arena. */
enum ks_status ks_read_list(const struct ks_read_options *options, struct ks_file_list *files,
                            struct ks_arena *arena, struct ks_err *err) KS_MUST_CHECK;

/* Reads everything; `*run` is what to seal. A folder is searched for traces; what is none is left
 * out with a line in the log, but a path given by itself must be one.
 * Errors: those of reading, with the path in front; KS_ERR_USAGE when the files belong to several
 * runs and `run` is 0 or not among them, or none is of the wanted window or rank. */
enum ks_status ks_read_paths(const struct ks_read_options *options,
                             struct ks_trace_builder *builder, int64_t *run, struct ks_err *err)
    KS_MUST_CHECK;

#endif
