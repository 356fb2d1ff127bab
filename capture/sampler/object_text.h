/* Text of a Python string, read without the interpreter. */
#ifndef KS_CAPTURE_SAMPLER_OBJECT_TEXT_H
#define KS_CAPTURE_SAMPLER_OBJECT_TEXT_H

#include "capture/sampler/python_layout.h"
#include "capture/sampler/self_memory.h"

/* UTF-8 of the string object to `out`, at most `size` bytes of it, cut between characters. Lone
 * surrogates become '?'. Uses the memory's area from `at` on, four times `size` and a little.
 * False: this is no string that can be read. */
bool ks_object_text_read(struct ks_self_memory *memory, size_t at,
                         const struct ks_python_layout *layout, uintptr_t object, char *out,
                         size_t size, size_t *len);

#endif
