/* What can be changed about a script from outside, by how much each change may change its numbers,
 * and which findings it repairs. Which values are tried, and when, says search.h. */
#ifndef KS_TUNE_KNOBS_H
#define KS_TUNE_KNOBS_H

#include "tune/script_facts.h"
#include "tune/setting.h"

/* How far numbers may be from the baseline's; a setting has the widest of its words. */
enum ks_change {
    KS_CHANGE_EXACT,    /* the same work elsewhere: every digit stays */
    KS_CHANGE_ROUNDING, /* another order of the same operations */
    KS_CHANGE_TF32,     /* products with ten bits */
    KS_CHANGE_HALF,     /* bf16 or fp16 under autocast */
    KS_CHANGE_DATA,     /* other samples or batches: only the size can be the same */
};

struct ks_knob {
    const char *name;
    const char *group;    /* of --what */
    const char *findings; /* ids with blanks between them */
    const char *values;   /* with blanks between them; #: any number from 1 on */
    enum ks_change change;
};

enum { KS_KNOB_COUNT = 12, KS_KNOB_WHY_SIZE = 120 };

/* By the gain that is usual and what it costs to try; ENTRY stands for all of a script's own. */
enum ks_knob_id {
    KS_KNOB_WORKERS,
    KS_KNOB_PERSISTENT,
    KS_KNOB_PREFETCH,
    KS_KNOB_PIN,
    KS_KNOB_OPTIMIZER,
    KS_KNOB_PRECISION,
    KS_KNOB_LAYOUT,
    KS_KNOB_CUDNN,
    KS_KNOB_ATTENTION,
    KS_KNOB_THREADS,
    KS_KNOB_COMPILE,
    KS_KNOB_BATCH,
};

extern const struct ks_knob ks_knobs[KS_KNOB_COUNT];

/* The knob of a word's name, or NULL. */
const struct ks_knob *ks_knob_find(struct ks_str name);
/* Is that a setting, with a value that there is? If not, `why_not` says so. Choices of the script's
 * own are: how many there are, only the script knows. */
bool ks_knob_allows(struct ks_word word, char why_not[KS_KNOB_WHY_SIZE]);
/* Does the knob repair what this finding says? */
bool ks_knob_repairs(const struct ks_knob *knob, const char *finding_id);
/* Why the knob is of no use to this script; NULL: it may be. Static text. */
const char *ks_knob_why_not(enum ks_knob_id id, const struct ks_script_facts *facts);

/* The change of one word on top of `kept`, and the widest of a whole setting. What rounds another
 * way does so in the precision that the script and `kept` compute in. */
enum ks_change ks_word_change(struct ks_word word, const struct ks_setting *kept,
                              const struct ks_script_facts *facts);
enum ks_change ks_setting_change(const struct ks_setting *setting,
                                 const struct ks_script_facts *facts);
double ks_change_tolerance(enum ks_change change);

/* Why no setting repairs what the finding says, as a sentence without a full stop; NULL: one may.
 * Static text. */
const char *ks_not_tunable(const char *finding_id);
/* The index-th finding of that table, or NULL past the last. */
const char *ks_not_tunable_id(size_t index);

#endif
