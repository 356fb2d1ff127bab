#include "base/build_id.h"

#include <elf.h>
#include <link.h>

struct object {
    const void *inside; /* a pointer into it */
    struct ks_str id;
    bool is_found;
};

static bool is_inside(const struct dl_phdr_info *info, const void *ptr)
{
    for (unsigned i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *header = &info->dlpi_phdr[i];
        uintptr_t begin = info->dlpi_addr + header->p_vaddr;
        if (header->p_type == PT_LOAD && (uintptr_t)ptr >= begin &&
            (uintptr_t)ptr - begin < header->p_memsz) {
            return true;
        }
    }
    return false;
}

static size_t padded(size_t size)
{
    return (size + 3) & ~(size_t)3;
}

/* Notes are (size of name, size of text, type), name, text, each padded to four bytes. */
static struct ks_str find_note(const char *notes, size_t size)
{
    size_t at = 0;
    while (size - at >= sizeof(ElfW(Nhdr))) {
        ElfW(Nhdr) note;
        memcpy(&note, notes + at, sizeof(note));
        size_t name = at + sizeof(note);
        size_t text = name + padded(note.n_namesz);
        if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == 4 &&
            memcmp(notes + name, "GNU", 4) == 0) {
            return (struct ks_str){notes + text, note.n_descsz};
        }
        at = text + padded(note.n_descsz);
        if (at > size) {
            break;
        }
    }
    return KS_STR("");
}

static int look_at(struct dl_phdr_info *info, size_t size, void *user)
{
    (void)size;
    struct object *object = user;
    if (!is_inside(info, (const void *)&ks_build_id)) {
        return 0;
    }
    object->is_found = is_inside(info, object->inside);
    for (unsigned i = 0; i < info->dlpi_phnum && object->id.len == 0; i++) {
        const ElfW(Phdr) *header = &info->dlpi_phdr[i];
        if (header->p_type == PT_NOTE) {
            object->id =
                find_note((const char *)(info->dlpi_addr + header->p_vaddr), header->p_memsz);
        }
    }
    return 1;
}

struct ks_str ks_build_id(void)
{
    struct object object = {.id = KS_STR("")};
    (void)dl_iterate_phdr(look_at, &object);
    return object.id;
}

bool ks_build_owns(const void *ptr)
{
    struct object object = {.inside = ptr, .id = KS_STR("")};
    (void)dl_iterate_phdr(look_at, &object);
    return object.is_found;
}
