/* The script and the style sheet of the page, which web/ makes and tools/embed_page.py puts into
 * the program. Without Node at build time there are none: then both are empty. */
#ifndef KS_PAGE_PAGE_BUNDLE_H
#define KS_PAGE_PAGE_BUNDLE_H

#include "base/str.h"

struct ks_page_bundle {
    struct ks_str script;
    struct ks_str style;
    const char *script_hash; /* "sha256-...", as a content security policy has it */
    const char *style_hash;
};

extern const struct ks_page_bundle ks_page_bundle;

#endif
