/* Growing text buffer for output, UTF-8 checks and number formatting. */
#ifndef KS_BASE_TEXT_H
#define KS_BASE_TEXT_H

#include "base/str.h"

struct ks_text {
    char *ptr;
    size_t len;
    size_t capacity;
    bool failed; /* out of memory: later appends do nothing, the owner asks once at the end */
};

void ks_text_init(struct ks_text *text);
void ks_text_release(struct ks_text *text);
void ks_text_reset(struct ks_text *text);
/* Room for `len` bytes behind those that are there; false when memory is short, or was. */
bool ks_text_reserve(struct ks_text *text, size_t len);
void ks_text_append(struct ks_text *text, const char *bytes, size_t len);
void ks_text_append_str(struct ks_text *text, struct ks_str s);
void ks_text_printf(struct ks_text *text, const char *format, ...) KS_PRINTF(2, 3);

/* Length of the valid UTF-8 sequence at ptr (1-4), or 0 when it is not valid. */
size_t ks_utf8_sequence(const unsigned char *ptr, size_t len);

#endif
