#include "capture/shared/small_file.h"

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

size_t ks_small_file_read(const char *path, char *text, size_t size)
{
    size_t len = 0;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    while (fd >= 0 && len + 1 < size) {
        ssize_t got = read(fd, text + len, size - 1 - len);
        if (got <= 0) {
            break;
        }
        len += (size_t)got;
    }
    if (fd >= 0) {
        close(fd);
    }
    text[len] = '\0';
    return len;
}

void ks_small_text_put(struct ks_small_text *text, const char *part)
{
    size_t len = strlen(part);
    size_t room = text->size - text->len - 1;
    if (len > room) {
        len = room;
        text->is_cut = 1;
    }
    memcpy(text->ptr + text->len, part, len);
    text->len += len;
    text->ptr[text->len] = '\0';
}

void ks_small_text_put_number(struct ks_small_text *text, int64_t value)
{
    char digits[24];
    size_t at = sizeof(digits) - 1;
    uint64_t rest = value < 0 ? 0 - (uint64_t)value : (uint64_t)value;
    digits[at] = '\0';
    do {
        digits[--at] = (char)('0' + rest % 10);
        rest /= 10;
    } while (rest > 0);
    if (value < 0) {
        digits[--at] = '-';
    }
    ks_small_text_put(text, digits + at);
}
