/* From the raw text of a JSON string to valid UTF-8, repairing what JSON forbids. */
#ifndef KS_READ_JSON_STRING_H
#define KS_READ_JSON_STRING_H

#include "base/text.h"
#include "read/json_cursor.h"

/* First byte of `raw` that JSON or UTF-8 does not allow, or NULL. A lone surrogate escape counts,
 * a raw control byte too. */
const char *ks_json_str_fault(const struct ks_json_str *raw);

/* Decoded text: points into `raw` when nothing has to change, else into `scratch` (good until its
 * next use). Rules: a string with any invalid escape is taken literally, backslashes and all;
 * invalid UTF-8 becomes U+FFFD, one for each maximal part; lone surrogates become U+FFFD; control
 * bytes stay. On no memory scratch->failed is set and the text is empty. */
struct ks_str ks_json_str_decode(const struct ks_json_str *raw, struct ks_text *scratch);

#endif
