/* Plain, gzip and zstd input: the bytes go to a file in memory and are read back through
 * ks_input. The first byte chooses how much is asked for in one call.
 *
 * What must hold, beside what sanitizers see: reading ends; plain bytes come back as they are;
 * reading in one piece and in many gives the same bytes and the same verdict (looked at for one
 * input in so many, by its bytes: opening costs more than reading). A damaged stream may give less
 * of its last block when more is asked for at once. */
#include <stdlib.h>

#include "base/text.h"
#include "fuzz_file.h"
#include "fuzz_share.h"
#include "read/input.h"

/* More than the limits of this build hold at once: larger output only takes longer. */
enum { OUTPUT_MAX = 128 * 1024, COMPARED_EVERY = 4 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static enum ks_input_damage drain(const char *path, size_t piece, struct ks_text *out,
                                  bool *is_plain)
{
    struct ks_input *input = NULL;
    struct ks_err err = {0};
    enum ks_status status = ks_input_open(path, &input, &err);
    KS_ASSERT(status == KS_OK);
    *is_plain = ks_input_compression(input).len == 0;
    char *buf = malloc(piece);
    KS_ASSERT(buf);
    size_t got = 0;
    do {
        status = ks_input_read(input, buf, piece, &got, &err);
        KS_ASSERT(status == KS_OK && got <= piece);
        ks_text_append(out, buf, got);
    } while (got > 0 && out->len < OUTPUT_MAX);
    free(buf);
    enum ks_input_damage damage = ks_input_damage(input);
    ks_input_close(input);
    return damage;
}

static void compare_whole(const char *path, const struct ks_text *pieces,
                          enum ks_input_damage damage_pieces)
{
    struct ks_text whole;
    ks_text_init(&whole);
    bool is_plain = false;
    enum ks_input_damage damage = drain(path, OUTPUT_MAX, &whole, &is_plain);
    if (whole.len < OUTPUT_MAX) {
        size_t common = whole.len < pieces->len ? whole.len : pieces->len;
        KS_ASSERT(damage == damage_pieces);
        KS_ASSERT(damage == KS_INPUT_DAMAGED || whole.len == pieces->len);
        KS_ASSERT(common == 0 || memcmp(whole.ptr, pieces->ptr, common) == 0);
    }
    ks_text_release(&whole);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0) {
        return 0;
    }
    const char *path = fuzz_file(data + 1, size - 1);
    struct ks_text pieces;
    ks_text_init(&pieces);
    bool is_plain = false;
    enum ks_input_damage damage = drain(path, 1 + data[0] * (size_t)7, &pieces, &is_plain);
    if (is_plain && pieces.len < OUTPUT_MAX) {
        KS_ASSERT(damage == KS_INPUT_WHOLE && pieces.len == size - 1);
        KS_ASSERT(pieces.len == 0 || memcmp(pieces.ptr, data + 1, pieces.len) == 0);
    }
    if (fuzz_is_chosen(data, size, COMPARED_EVERY)) {
        compare_whole(path, &pieces, damage);
    }
    ks_text_release(&pieces);
    return 0;
}
