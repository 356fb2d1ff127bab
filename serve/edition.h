/* A report as it was at one time, with all documents of its page written: what the server gives
 * away. Made by any thread, then used by one. Answers under way keep it alive. */
#ifndef KS_SERVE_EDITION_H
#define KS_SERVE_EDITION_H

#include "base/text.h"

struct ks_edition {
    int64_t version; /* counted from 1 */
    struct ks_report *report;
    struct ks_page_parts *parts;
    struct ks_text texts[KS_PAGE_PART_COUNT];
    unsigned holders;
};

/* Takes the report, also when it fails. Held once. */
enum ks_status ks_edition_create(struct ks_report *report, int64_t version, struct ks_edition **out,
                                 struct ks_err *err) KS_MUST_CHECK;
void ks_edition_hold(struct ks_edition *edition);
/* The last one who lets go ends it; NULL is fine. */
void ks_edition_let_go(struct ks_edition *edition);

#endif
