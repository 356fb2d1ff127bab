/* Small texts of the kernel, and texts put together without <stdio.h>, which takes memory. */
#ifndef KS_CAPTURE_SHARED_SMALL_FILE_H
#define KS_CAPTURE_SHARED_SMALL_FILE_H

#include <stddef.h>
#include <stdint.h>

/* Bytes read into `text`, which is always ended by NUL; 0 when there is nothing to read. */
size_t ks_small_file_read(const char *path, char *text, size_t size);

/* A text of bounded size: what does not fit is left out, and `is_cut` says so. */
struct ks_small_text {
    char *ptr;
    size_t size; /* with the NUL */
    size_t len;
    int is_cut;
};

void ks_small_text_put(struct ks_small_text *text, const char *part);
void ks_small_text_put_number(struct ks_small_text *text, int64_t value);

#endif
