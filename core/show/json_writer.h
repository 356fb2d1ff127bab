/* Writes one strict JSON document through a callback, as it goes: valid UTF-8 whatever the strings
 * hold, int64 exact, doubles shortest and read back equal, NaN and infinities as null. The first
 * levels get line feeds, one line for each row of a list, so that people can read and compare it.
 * Failures are remembered: ask once, by ks_json_finish. Allocates nothing. */
#ifndef KS_SHOW_JSON_WRITER_H
#define KS_SHOW_JSON_WRITER_H

#include "base/str.h"

enum { KS_JSON_DEPTH_MAX = 16, KS_JSON_BUFFER_SIZE = 8192, KS_JSON_REAL_SIZE = 32 };

struct ks_json {
    ks_write_cb write;
    void *user;
    bool failed; /* `write` gave false */
    size_t depth;
    bool is_one_line;   /* no line feed but the last */
    bool is_for_markup; /* no byte of a string can be taken for markup, or end a line of a script */
    size_t len_max;     /* longer strings are cut and end in an ellipsis; 0: none is */
    bool has_items[KS_JSON_DEPTH_MAX];
    size_t used;
    char buffer[KS_JSON_BUFFER_SIZE];
};

void ks_json_init(struct ks_json *json, ks_write_cb write, void *user);
/* For a document inside of a page; `len_max` 0: strings are as long as they are. */
void ks_json_init_for_markup(struct ks_json *json, size_t len_max, ks_write_cb write, void *user);
/* For a document of one line, as one of many in a stream. */
void ks_json_init_one_line(struct ks_json *json, ks_write_cb write, void *user);
/* Ends the document; everything must be closed. KS_ERR_IO when a write failed. */
enum ks_status ks_json_finish(struct ks_json *json, struct ks_err *err) KS_MUST_CHECK;

/* `key` is NULL for items of an array and for the document itself. */
void ks_json_object_begin(struct ks_json *json, const char *key);
void ks_json_object_end(struct ks_json *json);
void ks_json_array_begin(struct ks_json *json, const char *key);
void ks_json_array_end(struct ks_json *json);
void ks_json_null(struct ks_json *json, const char *key);
void ks_json_bool(struct ks_json *json, const char *key, bool value);
void ks_json_int(struct ks_json *json, const char *key, int64_t value);
void ks_json_real(struct ks_json *json, const char *key, double value);
void ks_json_str(struct ks_json *json, const char *key, struct ks_str value);
/* An array of numbers without a blank between them: columns of many rows. */
void ks_json_ints(struct ks_json *json, const char *key, const int64_t *values, size_t count);
/* NULL becomes null. */
void ks_json_text(struct ks_json *json, const char *key, const char *value);

/* The number as the document shows it; "null" when it is not finite. */
void ks_json_format_real(double value, char text[KS_JSON_REAL_SIZE]);

#endif
