/* What the hook inside a script tells of it, as `name value` lines (docs/tuning.md). */
#ifndef KS_TUNE_SCRIPT_FACTS_H
#define KS_TUNE_SCRIPT_FACTS_H

#include <kscope/kscope_tuning.h>

enum { KS_FACTS_MAX = 64, KS_FACT_VALUE_SIZE = 256 };

struct ks_script_facts {
    struct ks_script_fact {
        char name[KS_TUNING_NAME_SIZE];
        char value[KS_FACT_VALUE_SIZE];
    } list[KS_FACTS_MAX];
    size_t count;
};

/* More than are kept are not; a name that is there gets the new value. */
void ks_script_facts_add(struct ks_script_facts *facts, const char *name, const char *value);
/* "" when there is none. */
const char *ks_script_facts_get(const struct ks_script_facts *facts, const char *name);
/* 0 when there is none, or it is no number. */
int64_t ks_script_facts_number(const struct ks_script_facts *facts, const char *name);
bool ks_script_facts_is(const struct ks_script_facts *facts, const char *name, const char *value);

#endif
