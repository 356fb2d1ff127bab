#include "advise/registry.h"

static const struct ks_rule *const rules[] = {
    &ks_rule_input_starved,
};

const struct ks_rule *ks_rule_at(size_t index)
{
    return index < KS_COUNT_OF(rules) ? rules[index] : NULL;
}
