/* Texts and sites by their ids, which stay what they are as long as the process and its children
 * live: who looked one up keeps it over a fork and over another start. The memory is mapped once.
 * Not thread-safe: recorder.c holds the lock. */
#ifndef KS_CAPTURE_SHARED_NAMES_H
#define KS_CAPTURE_SHARED_NAMES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    KS_NAMES_TEXTS_MAX = 1 << 17,
    KS_NAMES_SITES_MAX = 1 << 16,
    KS_NAMES_TEXT_MAX = 1024, /* longer ones are cut */
};

struct ks_name_text {
    uint32_t offset;
    uint32_t length;
};

struct ks_name_site {
    uint32_t name; /* text ids */
    uint32_t category;
};

struct ks_names {
    struct ks_name_text *texts; /* by id - 1 */
    struct ks_name_site *sites;
    uint32_t *text_slots; /* hash tables of ids */
    uint32_t *site_slots;
    char *bytes;
    uint32_t text_count;
    uint32_t site_count;
    uint32_t byte_count;
};

/* False: no memory. It is no fault to call it again. */
bool ks_names_init(struct ks_names *names);
/* The id, 0: no room. `*is_new`: nobody has asked for it before. */
uint32_t ks_names_text(struct ks_names *names, const char *text, size_t length, bool *is_new);
uint32_t ks_names_site(struct ks_names *names, struct ks_name_site site, bool *is_new);
/* In a child that was made while another thread was in here: drops what is half there. */
void ks_names_mend(struct ks_names *names);
const char *ks_names_bytes(const struct ks_names *names, uint32_t id, uint32_t *length);

#endif
