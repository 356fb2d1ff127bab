#include "capture/shared/names.h"

#include <string.h>
#include <sys/mman.h>

enum { BYTES_MAX = 16 << 20 };

/* Pages that nobody touches take no memory. */
static void *map(size_t size)
{
    void *at = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
                    -1, 0);
    return at == MAP_FAILED ? NULL : at;
}

bool ks_names_init(struct ks_names *names)
{
    if (names->bytes) {
        return true;
    }
    names->texts = map(KS_NAMES_TEXTS_MAX * sizeof(*names->texts));
    names->sites = map(KS_NAMES_SITES_MAX * sizeof(*names->sites));
    names->text_slots = map((size_t)2 * KS_NAMES_TEXTS_MAX * sizeof(*names->text_slots));
    names->site_slots = map((size_t)2 * KS_NAMES_SITES_MAX * sizeof(*names->site_slots));
    names->bytes = map(BYTES_MAX);
    bool is_good = names->texts && names->sites && names->text_slots && names->site_slots;
    if (!is_good) {
        names->bytes = NULL;
    }
    return names->bytes;
}

/* FNV-1a. */
static uint32_t hash_of(const void *bytes, size_t size)
{
    const unsigned char *at = bytes;
    uint32_t hash = 2166136261u;
    for (size_t i = 0; i < size; i++) {
        hash = (hash ^ at[i]) * 16777619u;
    }
    return hash;
}

static bool is_text(const struct ks_names *names, uint32_t id, const char *text, size_t length)
{
    const struct ks_name_text *known = &names->texts[id - 1];
    return known->length == length && memcmp(names->bytes + known->offset, text, length) == 0;
}

uint32_t ks_names_text(struct ks_names *names, const char *text, size_t length, bool *is_new)
{
    const uint32_t mask = 2 * KS_NAMES_TEXTS_MAX - 1;
    length = length < KS_NAMES_TEXT_MAX ? length : KS_NAMES_TEXT_MAX;
    uint32_t at = hash_of(text, length) & mask;
    *is_new = false;
    for (; names->text_slots[at]; at = (at + 1) & mask) {
        if (is_text(names, names->text_slots[at], text, length)) {
            return names->text_slots[at];
        }
    }
    if (names->text_count == KS_NAMES_TEXTS_MAX || BYTES_MAX - names->byte_count < length) {
        return 0;
    }
    memcpy(names->bytes + names->byte_count, text, length);
    names->texts[names->text_count++] = (struct ks_name_text){names->byte_count, (uint32_t)length};
    names->byte_count += (uint32_t)length;
    names->text_slots[at] = names->text_count;
    *is_new = true;
    return names->text_count;
}

uint32_t ks_names_site(struct ks_names *names, struct ks_name_site site, bool *is_new)
{
    const uint32_t mask = 2 * KS_NAMES_SITES_MAX - 1;
    uint32_t at = hash_of(&site, sizeof(site)) & mask;
    *is_new = false;
    for (; names->site_slots[at]; at = (at + 1) & mask) {
        const struct ks_name_site *known = &names->sites[names->site_slots[at] - 1];
        if (known->name == site.name && known->category == site.category) {
            return names->site_slots[at];
        }
    }
    if (names->site_count == KS_NAMES_SITES_MAX) {
        return 0;
    }
    names->sites[names->site_count++] = site;
    names->site_slots[at] = names->site_count;
    *is_new = true;
    return names->site_count;
}

/* Pages that nobody touches again are zero. */
static void clear(uint32_t *slots, size_t count)
{
    (void)madvise(slots, count * sizeof(*slots), MADV_DONTNEED);
}

static uint32_t free_slot(const uint32_t *slots, uint32_t mask, uint32_t hash)
{
    uint32_t at = hash & mask;
    while (slots[at]) {
        at = (at + 1) & mask;
    }
    return at;
}

/* Texts lie one behind the other, which those do not that were never finished. */
static void mend_texts(struct ks_names *names)
{
    const uint32_t mask = 2 * KS_NAMES_TEXTS_MAX - 1;
    uint32_t count = 0;
    names->byte_count = 0;
    clear(names->text_slots, (size_t)mask + 1);
    for (; count < names->text_count && count < KS_NAMES_TEXTS_MAX; count++) {
        struct ks_name_text text = names->texts[count];
        if (text.offset != names->byte_count || text.length > KS_NAMES_TEXT_MAX ||
            text.length > BYTES_MAX - text.offset) {
            break;
        }
        uint32_t hash = hash_of(names->bytes + text.offset, text.length);
        names->text_slots[free_slot(names->text_slots, mask, hash)] = count + 1;
        names->byte_count += text.length;
    }
    names->text_count = count;
}

static bool is_text_id(const struct ks_names *names, uint32_t id)
{
    return id >= 1 && id <= names->text_count;
}

void ks_names_mend(struct ks_names *names)
{
    const uint32_t mask = 2 * KS_NAMES_SITES_MAX - 1;
    uint32_t count = 0;
    if (!names->bytes) {
        return;
    }
    mend_texts(names);
    clear(names->site_slots, (size_t)mask + 1);
    for (; count < names->site_count && count < KS_NAMES_SITES_MAX; count++) {
        const struct ks_name_site *site = &names->sites[count];
        if (!is_text_id(names, site->name) || !is_text_id(names, site->category)) {
            break;
        }
        names->site_slots[free_slot(names->site_slots, mask, hash_of(site, sizeof(*site)))] =
            count + 1;
    }
    names->site_count = count;
}

const char *ks_names_bytes(const struct ks_names *names, uint32_t id, uint32_t *length)
{
    *length = names->texts[id - 1].length;
    return names->bytes + names->texts[id - 1].offset;
}
