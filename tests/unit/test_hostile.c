/* Goal: each file of tests/hostile comes out of ks_read_paths as expected.txt says, also with 1 MiB
 * of chunk memory. Method: the list is read line by line; tests/hostile/test_hostile.py does the
 * same through the program. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "cmocka_all.h"
#include "dump_trace.h"
#include "read/read.h"

struct expected {
    char name[64], outcome[16], status[16], strict[16];
    unsigned events;
    char counts[256]; /* " name=count" each, sorted by name */
};

static const char *folder(void)
{
    static char path[1024];
    const char *root = getenv("KSCOPE_SOURCE");
    assert_non_null(root);
    (void)snprintf(path, sizeof(path), "%s/tests/hostile", root);
    return path;
}

static enum ks_status read_file(const char *name, bool strict, struct ks_trace **out,
                                struct ks_err *err)
{
    char path[1200];
    (void)snprintf(path, sizeof(path), "%s/%s.json", folder(), name);
    const char *paths[] = {path};
    struct ks_read_options options = {.paths = paths, .path_count = 1, .strict = strict};
    struct ks_trace_options trace_options = {.chunk_bytes_max = 1 << 20};
    struct ks_trace_builder *builder = NULL;
    assert_int_equal(ks_trace_builder_create(&trace_options, &builder, err), KS_OK);
    int64_t run = 0;
    enum ks_status status = ks_read_paths(&options, builder, &run, err);
    if (status != KS_OK) {
        ks_trace_builder_destroy(builder);
        return status;
    }
    return ks_trace_builder_seal(builder, run, out, err);
}

static int compare_words(const void *a, const void *b)
{
    const char *const *x = a;
    const char *const *y = b;
    return strcmp(*x, *y);
}

/* The counters in the order of the list: by name. */
static void sorted_counts(const struct ks_source *source, char *out, size_t size)
{
    struct ks_text text;
    ks_text_init(&text);
    dump_counts(source, &text);
    ks_text_append(&text, "", 1);
    char *words[KS_STAT_COUNT];
    size_t count = 0;
    char *rest = NULL;
    for (char *word = strtok_r(text.ptr, " ", &rest); word; word = strtok_r(NULL, " ", &rest)) {
        words[count++] = word;
    }
    if (count > 0) {
        qsort(words, count, sizeof(*words), compare_words);
    }
    size_t len = 0;
    out[0] = '\0';
    for (size_t i = 0; i < count; i++) {
        len += (size_t)snprintf(out + len, size - len, " %s", words[i]);
        assert_true(len < size);
    }
    ks_text_release(&text);
}

static void check(const struct expected *e)
{
    static const char *const STATUS[] = {"ok", "repaired", "truncated"};
    struct ks_trace *trace = NULL;
    struct ks_err err = {0};
    enum ks_status status = read_file(e->name, false, &trace, &err);
    if (strcmp(e->outcome, "ok") != 0) {
        bool is_format = strcmp(e->outcome, "format") == 0;
        assert_int_equal(status, is_format ? KS_ERR_FORMAT : KS_ERR_UNSUPPORTED);
        return;
    }
    assert_int_equal(status, KS_OK);
    const struct ks_source *source = ks_trace_source(trace, 0);
    char counts[512];
    sorted_counts(source, counts, sizeof(counts));
    assert_string_equal(counts, e->counts);
    assert_int_equal(source->events, e->events);
    assert_string_equal(STATUS[ks_source_status(source)], e->status);
    ks_trace_destroy(trace);
}

static void check_strict(const struct expected *e)
{
    struct ks_trace *trace = NULL;
    struct ks_err err = {0};
    enum ks_status status = read_file(e->name, true, &trace, &err);
    if (strcmp(e->strict, "ok") == 0) {
        assert_int_equal(status, KS_OK);
        ks_trace_destroy(trace);
        return;
    }
    assert_true(status == KS_ERR_FORMAT || status == KS_ERR_UNSUPPORTED);
    char offset[32];
    (void)snprintf(offset, sizeof(offset), "%" PRId64, err.offset);
    assert_string_equal(err.offset == KS_NO_OFFSET ? "-" : offset, e->strict);
}

static void test_files(void **state)
{
    (void)state;
    char path[1200];
    (void)snprintf(path, sizeof(path), "%s/expected.txt", folder());
    FILE *list = fopen(path, "r");
    assert_non_null(list);
    char line[1024];
    int files = 0;
    while (fgets(line, sizeof(line), list)) {
        if (line[0] == '#') {
            continue;
        }
        struct expected e = {0};
        int used = 0;
        line[strcspn(line, "\n")] = '\0';
        assert_int_equal(sscanf(line, "%63s %15s %15s %u %15s%n", e.name, e.outcome, e.status,
                                &e.events, e.strict, &used),
                         5);
        const char *counts = line + used;
        counts += *counts == ' '; // two blanks stand before the counters, one before each
        (void)snprintf(e.counts, sizeof(e.counts), "%s", counts);
        print_message("%s\n", e.name); // the last one is the one that failed
        check(&e);
        check_strict(&e);
        files++;
    }
    (void)fclose(list);
    assert_true(files >= 44);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_files)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
