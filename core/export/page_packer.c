#include "export/page_packer.h"

#include <zstd.h>

#include "base/err.h"

enum { LEVEL = 3, PART_SIZE = 128 * 1024 };

enum ks_status ks_page_packer_init(struct ks_page_packer *packer, bool is_plain, struct ks_err *err)
{
    *packer = (struct ks_page_packer){.is_plain = is_plain};
    ks_text_init(&packer->out);
    if (is_plain) {
        return KS_OK;
    }
    packer->context = ZSTD_createCCtx();
    if (!packer->context ||
        ZSTD_isError(ZSTD_CCtx_setParameter(packer->context, ZSTD_c_compressionLevel, LEVEL))) {
        return ks_fail(err, KS_ERR_NOMEM, KS_NO_OFFSET, "Cannot start compressing: no memory");
    }
    return KS_OK;
}

void ks_page_packer_release(struct ks_page_packer *packer)
{
    (void)ZSTD_freeCCtx(packer->context);
    packer->context = NULL;
    ks_text_release(&packer->out);
}

/* In parts, so that nothing is taken beyond what the result needs. The size is said in the frame:
 * some readers take their memory by it. */
enum ks_status ks_page_packer_pack(struct ks_page_packer *packer, struct ks_str bytes,
                                   struct ks_str *out, struct ks_err *err)
{
    *out = bytes;
    if (packer->is_plain) {
        return KS_OK;
    }
    static _Thread_local char part[PART_SIZE];
    ZSTD_inBuffer in = {bytes.ptr, bytes.len, 0};
    size_t left = 0;
    bool is_good = !ZSTD_isError(ZSTD_CCtx_reset(packer->context, ZSTD_reset_session_only)) &&
                   !ZSTD_isError(ZSTD_CCtx_setPledgedSrcSize(packer->context, bytes.len));
    ks_text_reset(&packer->out);
    do {
        ZSTD_outBuffer to = {part, sizeof(part), 0};
        left = is_good ? ZSTD_compressStream2(packer->context, &to, &in, ZSTD_e_end) : 0;
        is_good = is_good && !ZSTD_isError(left);
        ks_text_append(&packer->out, part, to.pos);
    } while (is_good && left > 0 && !packer->out.failed);
    *out = (struct ks_str){packer->out.ptr, packer->out.len};
    return is_good && !packer->out.failed
               ? KS_OK
               : ks_fail(err, KS_ERR_NOMEM, KS_NO_OFFSET, "Cannot compress %zu bytes: no memory",
                         bytes.len);
}
