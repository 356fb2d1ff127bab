/* The Kineto and Chrome JSON reader, down to sealed tables.
 *
 * The first byte chooses the sizes: rows of a chunk (2 bits), bytes of a window (6 bits). The rest
 * is the document. It is read in small windows; one in so many, by its bytes, as a whole and
 * strictly too, since each reading costs as much as the first. What must hold, beside what
 * sanitizers see: windows change nothing; what strict reading accepts, it reads the same, and
 * nothing was repaired in it; strings are UTF-8; no duration is negative; rows are sorted. */
#include "fuzz_readings.h"
#include "fuzz_share.h"

enum { COMPARED_EVERY = 16 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void compare_three(struct ks_str bytes, const struct read_bytes_options *windows)
{
    struct read_bytes_options whole = {.chunk_rows = windows->chunk_rows};
    struct read_bytes_options strict = {.chunk_rows = windows->chunk_rows, .strict = true};
    struct ks_text texts[3];
    struct ks_err errs[3] = {0};
    for (int i = 0; i < 3; i++) {
        ks_text_init(&texts[i]);
    }
    enum ks_status status = describe(bytes, &whole, &texts[0], &errs[0]);
    KS_ASSERT(describe(bytes, windows, &texts[1], &errs[1]) == status);
    check_same(&texts[0], &texts[1]);
    enum ks_status status_strict = describe(bytes, &strict, &texts[2], &errs[2]);
    KS_ASSERT(status == KS_OK || status_strict != KS_OK);
    if (status_strict == KS_OK) {
        check_same(&texts[0], &texts[2]);
    }
    for (int i = 0; i < 3; i++) {
        ks_text_release(&texts[i]);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0) {
        return 0;
    }
    struct ks_str bytes = {(const char *)data + 1, size - 1};
    struct read_bytes_options windows = {.chunk_rows = 2u << (data[0] & 3),
                                         .window = 1 + (data[0] >> 2) * (size_t)3};
    struct ks_err err = {0};
    if (fuzz_is_chosen(data, size, COMPARED_EVERY)) {
        compare_three(bytes, &windows);
    } else {
        (void)describe(bytes, &windows, NULL, &err);
    }
    return 0;
}
