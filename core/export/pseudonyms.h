/* Neutral words for names that could tell who, where or what: the same name gets the same word all
 * through one output, numbered in order of appearance. Names that everybody's traces hold (torch's
 * operators, CUDA's calls, kernels of the well-known libraries, Python's own files) stay, because
 * analyses know them; whatever is not known to be public is replaced. docs/export.md lists both. */
#ifndef KS_EXPORT_PSEUDONYMS_H
#define KS_EXPORT_PSEUDONYMS_H

#include "base/map.h"
#include "base/text.h"
#include "store/category.h"
#include "store/strpool.h"

enum ks_pseudonym_kind {
    KS_PSEUDONYM_OPERATOR,
    KS_PSEUDONYM_ANNOTATION,
    KS_PSEUDONYM_KERNEL,
    KS_PSEUDONYM_CALL,
    KS_PSEUDONYM_FILE,
    KS_PSEUDONYM_FUNCTION,
    KS_PSEUDONYM_MODULE,
    KS_PSEUDONYM_GROUP,
    KS_PSEUDONYM_TRACK,
    KS_PSEUDONYM_NAME,
    KS_PSEUDONYM_COUNT,
};

struct ks_pseudonyms {
    struct ks_strpool *pool;
    struct ks_map numbers; /* (kind, string id) -> number */
    uint64_t counts[KS_PSEUDONYM_COUNT];
    struct ks_text text; /* the last answer */
};

enum ks_status ks_pseudonyms_init(struct ks_pseudonyms *names, struct ks_err *err) KS_MUST_CHECK;
void ks_pseudonyms_release(struct ks_pseudonyms *names);

/* The name of an event; good until the next call. Errors: KS_ERR_NOMEM, KS_ERR_LIMIT. */
enum ks_status ks_pseudonyms_event(struct ks_pseudonyms *names, enum ks_category category,
                                   char phase, struct ks_str name, struct ks_str *out,
                                   struct ks_err *err) KS_MUST_CHECK;
/* Any other text of this kind. */
enum ks_status ks_pseudonyms_text(struct ks_pseudonyms *names, enum ks_pseudonym_kind kind,
                                  struct ks_str text, struct ks_str *out, struct ks_err *err)
    KS_MUST_CHECK;
/* "file:line", as CallFrom has it. */
enum ks_status ks_pseudonyms_place(struct ks_pseudonyms *names, struct ks_str text,
                                   struct ks_str *out, struct ks_err *err) KS_MUST_CHECK;

#endif
