/* Which change to try next: one at a time on top of what was kept, knobs in the order of the
 * findings that they repair, then by the gain that is usual. Each knob has a short list of values,
 * but workers climb: twice as many as long as that is faster, then one step between.
 *
 * Holds no process and no clock, so that a test can play any script. */
#ifndef KS_TUNE_SEARCH_H
#define KS_TUNE_SEARCH_H

#include "tune/knobs.h"

enum { KS_SEARCH_ENTRIES_MAX = 8, KS_SEARCH_TURNS_MAX = KS_KNOB_COUNT + KS_SEARCH_ENTRIES_MAX };

struct ks_search_options {
    const struct ks_script_facts *facts; /* of the script as it is; must outlive the search */
    const char *what;                    /* of --what; NULL: all but batch */
    const char *const *finding_ids;      /* the first one first */
    size_t finding_count;
    int64_t workers_max; /* that memory has room for; 0: not known */
};

/* One knob's turn. */
struct ks_search_turn {
    int knob; /* enum ks_knob_id; -1: an entry of the script */
    char name[KS_TUNING_NAME_SIZE];
    size_t tried; /* values so far */
    bool has_won; /* one of them was kept */
};

struct ks_search {
    struct ks_search_options options;
    struct ks_search_turn turns[KS_SEARCH_TURNS_MAX];
    size_t turn_count;
    size_t at;          /* whose turn it is */
    int64_t workers[8]; /* that were tried */
    bool has_been_between;
    enum ks_tuning_fate last_fate; /* of the value that the turn's knob tried last */
    enum ks_trial_verdict last_verdict;
};

/* Groups, names and name=value words of --what, with commas between them; "all", "none".
 * KS_ERR_USAGE names the word that is none of them. */
KS_MUST_CHECK enum ks_status ks_search_check(const char *what, struct ks_err *err);

void ks_search_init(struct ks_search *search, const struct ks_search_options *options);
/* The next change of `kept` as a word "name=value"; false when there is none left. */
bool ks_search_next(struct ks_search *search, const struct ks_setting *kept,
                    char word[KS_TUNING_NAME_SIZE]);
/* What became of it. */
void ks_search_told(struct ks_search *search, enum ks_tuning_fate fate,
                    enum ks_trial_verdict verdict);

/* Why this knob gets no turn, or none that comes to anything, though it was asked for; NULL: it
 * gets one, or was not asked for. */
const char *ks_search_why_left(const struct ks_search *search, const struct ks_setting *kept,
                               enum ks_knob_id id);

#endif
