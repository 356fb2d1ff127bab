/* The small JSON documents that need no trace: failures, versions, what doctor saw. */
#include <kscope/kscope.h>

#include <sqlite3.h>
#include <stdio.h>
#include <xxhash.h>
#include <zlib.h>
#include <zstd.h>

#include "base/err.h"
#include "kscope_build.h"
#include "show/json_writer.h"

const char *ks_version(void)
{
    return KS_BUILD_VERSION;
}

enum ks_status ks_error_write_json(const struct ks_err *failure, const char *where,
                                   ks_write_cb write, void *user, struct ks_err *err)
{
    struct ks_json json;
    ks_json_init(&json, write, user);
    ks_json_object_begin(&json, NULL);
    ks_json_text(&json, "schema", "kinetoscope.error/1");
    ks_json_object_begin(&json, "error");
    ks_json_text(&json, "code", ks_status_word(failure->status));
    ks_json_text(&json, "message", failure->message);
    ks_json_text(&json, "where", where);
    if (failure->offset == KS_NO_OFFSET) {
        ks_json_null(&json, "offset");
    } else {
        ks_json_int(&json, "offset", failure->offset);
    }
    ks_json_object_end(&json);
    ks_json_object_end(&json);
    return ks_json_finish(&json, err);
}

/* ------------------------------------------------------------------ versions */

#if defined(__clang__)
#define COMPILER "clang " __clang_version__
#else
#define COMPILER "gcc " __VERSION__
#endif

static void version_of_xxhash(char *text, size_t size)
{
    unsigned number = XXH_versionNumber();
    snprintf(text, size, "%u.%u.%u", number / 10000, number / 100 % 100, number % 100);
}

enum ks_status ks_version_write(bool json, ks_write_cb write, void *user, struct ks_err *err)
{
    if (!json) {
        static const char line[] = "kscope " KS_BUILD_VERSION "\n";
        return write(user, line, sizeof(line) - 1) ? KS_OK
                                                   : ks_fail(err, KS_ERR_IO, KS_NO_OFFSET,
                                                             "Cannot write version: the receiver "
                                                             "stopped");
    }
    char xxhash[16];
    version_of_xxhash(xxhash, sizeof(xxhash));
    struct ks_json doc;
    ks_json_init(&doc, write, user);
    ks_json_object_begin(&doc, NULL);
    ks_json_text(&doc, "schema", "kinetoscope.version/1");
    ks_json_text(&doc, "name", "kscope");
    ks_json_text(&doc, "version", KS_BUILD_VERSION);
    ks_json_text(&doc, "compiler", COMPILER);
    ks_json_object_begin(&doc, "build");
    ks_json_text(&doc, "type", KS_BUILD_TYPE);
    ks_json_text(&doc, "optimization", KS_BUILD_OPTIMIZATION);
    ks_json_text(&doc, "sanitize", KS_BUILD_SANITIZE);
    ks_json_text(&doc, "machine", KS_BUILD_MACHINE);
    ks_json_object_end(&doc);
    ks_json_object_begin(&doc, "libraries");
    ks_json_text(&doc, "zlib", zlibVersion());
    ks_json_text(&doc, "zstd", ZSTD_versionString());
    ks_json_text(&doc, "xxhash", xxhash);
    ks_json_text(&doc, "sqlite", sqlite3_libversion());
    ks_json_text(&doc, "libmicrohttpd", KS_BUILD_MICROHTTPD[0] ? KS_BUILD_MICROHTTPD : NULL);
    ks_json_object_end(&doc);
    ks_json_object_end(&doc);
    return ks_json_finish(&doc, err);
}

/* ------------------------------------------------------------------ doctor */

enum ks_status ks_doctor_write_json(const struct ks_doctor_line *lines, size_t line_count,
                                    ks_write_cb write, void *user, struct ks_err *err)
{
    struct ks_json json;
    ks_json_init(&json, write, user);
    ks_json_object_begin(&json, NULL);
    ks_json_text(&json, "schema", "kinetoscope.doctor/1");
    ks_json_array_begin(&json, "checks");
    for (size_t i = 0; i < line_count; i++) {
        ks_json_object_begin(&json, NULL);
        ks_json_text(&json, "id", lines[i].id);
        ks_json_text(&json, "state", lines[i].state);
        ks_json_text(&json, "found", lines[i].found);
        ks_json_text(&json, "fix", lines[i].fix);
        ks_json_object_end(&json);
    }
    ks_json_array_end(&json);
    ks_json_object_end(&json);
    return ks_json_finish(&json, err);
}
