#include "tune/script_facts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct ks_script_fact *find(const struct ks_script_facts *facts, const char *name)
{
    for (size_t i = 0; i < facts->count; i++) {
        if (strcmp(facts->list[i].name, name) == 0) {
            return (struct ks_script_fact *)(uintptr_t)&facts->list[i];
        }
    }
    return NULL;
}

void ks_script_facts_add(struct ks_script_facts *facts, const char *name, const char *value)
{
    struct ks_script_fact *fact = find(facts, name);
    if (!fact && facts->count < KS_FACTS_MAX) {
        fact = &facts->list[facts->count++];
        snprintf(fact->name, sizeof(fact->name), "%s", name);
    }
    if (fact) {
        snprintf(fact->value, sizeof(fact->value), "%s", value);
    }
}

const char *ks_script_facts_get(const struct ks_script_facts *facts, const char *name)
{
    const struct ks_script_fact *fact = find(facts, name);
    return fact ? fact->value : "";
}

int64_t ks_script_facts_number(const struct ks_script_facts *facts, const char *name)
{
    return strtoll(ks_script_facts_get(facts, name), NULL, 10);
}

bool ks_script_facts_is(const struct ks_script_facts *facts, const char *name, const char *value)
{
    return strcmp(ks_script_facts_get(facts, name), value) == 0;
}
