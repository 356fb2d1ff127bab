/* What `kscope tune` has found out about a script: each setting that was tried beside the best one
 * so far, by how much it was faster, whether its numbers were right, and what was kept.
 *
 * Plain values that whoever tunes fills in and that ks_tuning_write shows, as text, as one document
 * (docs/tune.schema.json) or as a file for `kscope run --tuned`. Texts are cut where they are too
 * long; nothing points anywhere, so a copy is a copy. */
#ifndef KSCOPE_TUNING_H
#define KSCOPE_TUNING_H

#include <kscope/kscope.h>
#include <kscope/kscope_trial.h>

enum {
    KS_TUNING_TRIES_MAX = 64,
    KS_TUNING_LEFT_MAX = 32,
    KS_TUNING_SETTING_SIZE = 512,
    KS_TUNING_NAME_SIZE = 64,
    KS_TUNING_TEXT_SIZE = 320,
};

/* What became of a setting. */
enum ks_tuning_fate {
    KS_TUNING_KEPT,
    KS_TUNING_NOT_FASTER, /* no difference, slower, or it cannot be told */
    KS_TUNING_WRONG,      /* its losses, gradients or outputs are others */
    KS_TUNING_FAILED,     /* the script ended, hung, or ran out of memory with it */
    KS_TUNING_REFUSED,    /* it could not be applied to this script */
};

/* Differences are relative to the size of the baseline's numbers; NaN: not known. */
struct ks_tuning_try {
    char change[KS_TUNING_NAME_SIZE]; /* "workers=4"; "" : the same setting once more */
    enum ks_tuning_fate fate;
    enum ks_trial_verdict verdict;
    struct ks_trial_estimate ratio; /* of its step time to the one beside it */
    double before_ns, after_ns;     /* median step of the setting beside it, and of this one */
    size_t rounds;
    int64_t before_bytes, after_bytes; /* resident memory of all processes; 0: not known */
    int64_t before_gpu_bytes, after_gpu_bytes;
    double difference; /* largest of a loss, gradient norm or output */
    double tolerance;
    char reason[KS_TUNING_TEXT_SIZE];
};

/* A finding of the recorded window that no setting repairs, or a knob that was left alone. */
struct ks_tuning_left {
    char id[KS_TUNING_NAME_SIZE];
    bool is_finding;
    char reason[KS_TUNING_TEXT_SIZE];
};

enum ks_tuning_end { KS_TUNING_DONE, KS_TUNING_OUT_OF_TIME, KS_TUNING_INTERRUPTED };

struct ks_tuning {
    char script[KS_TUNING_TEXT_SIZE]; /* the command line */
    char torch[KS_TUNING_NAME_SIZE];
    char device[KS_TUNING_NAME_SIZE]; /* "cpu", "cuda" */
    char advice[KS_TUNING_TEXT_SIZE]; /* why no window was looked at; "": one was */
    bool is_deterministic;            /* two runs alike give the same numbers */
    double noise;                     /* largest difference of two runs alike */
    struct ks_tuning_try tries[KS_TUNING_TRIES_MAX];
    size_t try_count;
    struct ks_tuning_left left[KS_TUNING_LEFT_MAX];
    size_t left_count;
    char base[KS_TUNING_SETTING_SIZE];    /* what it began with; "": the script as it is */
    char setting[KS_TUNING_SETTING_SIZE]; /* what was kept: "workers=4,precision=bf16"; or "" */
    struct ks_tuning_try whole;           /* all that was kept, beside `base` */
    enum ks_tuning_end end;
    double seconds;
    size_t processes; /* that were started */
};

enum ks_tuning_format {
    KS_TUNING_SCREEN,
    KS_TUNING_JSON,  /* docs/tune.schema.json */
    KS_TUNING_APPLY, /* what `kscope run --tuned FILE` reads */
};

struct ks_tuning_style {
    enum ks_tuning_format format;
    bool colour;
    bool ascii;
    size_t width; /* columns; 0: 100 */
};

/* Errors: KS_ERR_IO (`write` gave false), KS_ERR_NOMEM. */
KS_API KS_MUST_CHECK enum ks_status ks_tuning_write(const struct ks_tuning *tuning,
                                                    const struct ks_tuning_style *style,
                                                    ks_write_cb write, void *user,
                                                    struct ks_err *err);
/* "kept", "not_faster", "wrong", "failed", "refused". */
KS_API const char *ks_tuning_fate_name(enum ks_tuning_fate fate);
/* "done", "out_of_time", "interrupted". */
KS_API const char *ks_tuning_end_name(enum ks_tuning_end end);
/* What is to be used: the setting, but the base where all changes together were not better than it,
 * or wrong. The setting, too, when the comparison was interrupted. */
KS_API const char *ks_tuning_proven(const struct ks_tuning *tuning);
/* Reads the file of KS_TUNING_APPLY: its words with commas between them. KS_ERR_FORMAT names the
 * line that is none. */
KS_API KS_MUST_CHECK enum ks_status ks_tuning_read_apply(const char *path,
                                                         char setting[KS_TUNING_SETTING_SIZE],
                                                         struct ks_err *err);

#endif
