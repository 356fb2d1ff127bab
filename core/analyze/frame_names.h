/* Python frames as the profiler names them: "path/file.py(LINE): function", where LINE is the first
 * line of the function. Paths come whole or without what sys.path begins with. */
#ifndef KS_ANALYZE_FRAME_NAMES_H
#define KS_ANALYZE_FRAME_NAMES_H

#include "base/str.h"

enum ks_frame_kind {
    KS_FRAME_NONE,    /* built-in functions, nn.Module: ..., text without file: no place */
    KS_FRAME_TORCH,   /* torch itself, and the profiler */
    KS_FRAME_LIBRARY, /* Python's library and installed packages */
    KS_FRAME_USER,
};

struct ks_frame {
    enum ks_frame_kind kind;
    struct ks_str file; /* parts of the name */
    int64_t line;
    struct ks_str function;
};

struct ks_frame ks_frame_parse(struct ks_str name);
/* Whose code a file of Python is; no file counts as the library's. */
enum ks_frame_kind ks_frame_kind_of_file(struct ks_str file);
/* Takes "file:line" apart; false when it is none. */
bool ks_frame_parse_call(struct ks_str text, struct ks_str *file, int64_t *line);

#endif
