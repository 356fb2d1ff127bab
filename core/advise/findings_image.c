#include "advise/findings_image.h"

#include "base/err.h"
#include "base/image.h"

/* Rules are found again by their id. */
static const char *id_of_rule(const void *item)
{
    return ((const struct ks_rule *)item)->id;
}

static const void *find_rule(const char *id)
{
    const struct ks_rule *rule = NULL;
    for (size_t i = 0; (rule = ks_rule_at(i)) != NULL; i++) {
        if (strcmp(rule->id, id) == 0) {
            return rule;
        }
    }
    return NULL;
}

static const struct ks_image_type rule_type = {
    .name = "ks_rule",
    .size = sizeof(struct ks_rule),
    .name_of = id_of_rule,
    .find = find_rule,
};

static const struct ks_image_field evidence_fields[] = {
    KS_IMAGE_TEXT_IN(struct ks_evidence, name),
    KS_IMAGE_TEXT_IN(struct ks_evidence, unit),
};
static const struct ks_image_type evidence_type = KS_IMAGE_TYPE(ks_evidence, evidence_fields);

static const struct ks_image_field where_fields[] = {
    KS_IMAGE_STR_IN(struct ks_where, file),
};
static const struct ks_image_type where_type = KS_IMAGE_TYPE(ks_where, where_fields);

static const struct ks_image_field finding_fields[] = {
    KS_IMAGE_NAME_OF(struct ks_finding, rule, rule_type),
    KS_IMAGE_TEXT_IN(struct ks_finding, cause),
    KS_IMAGE_TEXT_IN(struct ks_finding, title),
    KS_IMAGE_TEXT_IN(struct ks_finding, fix_text),
    KS_IMAGE_TEXT_IN(struct ks_finding, fix_code),
    KS_IMAGE_TEXT_IN(struct ks_finding, verify),
    KS_IMAGE_TEXT_IN(struct ks_finding, group),
    KS_IMAGE_STRUCTS(struct ks_finding, evidence, KS_EVIDENCE_MAX, evidence_type),
    KS_IMAGE_STRUCTS(struct ks_finding, where, 1, where_type),
};
static const struct ks_image_type finding_type = KS_IMAGE_TYPE(ks_finding, finding_fields);

static const struct ks_image_field check_fields[] = {
    KS_IMAGE_NAME_OF(struct ks_check, rule, rule_type),
    KS_IMAGE_TEXT_IN(struct ks_check, reason),
};
static const struct ks_image_type check_type = KS_IMAGE_TYPE(ks_check, check_fields);

static const struct ks_image_field findings_fields[] = {
    KS_IMAGE_NOT(struct ks_findings, arena),
    KS_IMAGE_ARRAY_OF(struct ks_findings, list, count, finding_type),
    KS_IMAGE_NOT(struct ks_findings, capacity),
    KS_IMAGE_ARRAY_OF(struct ks_findings, checks, check_count, check_type),
};
static const struct ks_image_type findings_type = KS_IMAGE_TYPE(ks_findings, findings_fields);

enum ks_status ks_findings_pack(const struct ks_findings *findings, struct ks_text *out,
                                struct ks_err *err)
{
    return ks_image_pack(findings, &findings_type, &findings->arena, out, err);
}

enum ks_status ks_findings_unpack(char *bytes, size_t size, struct ks_arena *arena,
                                  struct ks_findings *findings, struct ks_err *err)
{
    struct ks_findings found;
    KS_TRY(ks_image_unpack(bytes, size, &findings_type, &found, err));
    found.capacity = found.count;
    found.arena = *arena;
    *findings = found;
    ks_arena_init(arena);
    return KS_OK;
}
