/* Bytes in one piece, compressed by zstd or as they are. */
#ifndef KS_EXPORT_PAGE_PACKER_H
#define KS_EXPORT_PAGE_PACKER_H

#include "base/text.h"

struct ks_page_packer {
    bool is_plain; /* nothing is compressed */
    void *context;
    struct ks_text out;
};

/* Release it also after an error. */
enum ks_status ks_page_packer_init(struct ks_page_packer *packer, bool is_plain, struct ks_err *err)
    KS_MUST_CHECK;
void ks_page_packer_release(struct ks_page_packer *packer);
/* `out` is good until the next call, or as long as `bytes`. */
enum ks_status ks_page_packer_pack(struct ks_page_packer *packer, struct ks_str bytes,
                                   struct ks_str *out, struct ks_err *err) KS_MUST_CHECK;

#endif
