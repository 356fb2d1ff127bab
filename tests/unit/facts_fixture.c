#include "facts_fixture.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "advise/findings.h"
#include "cmocka_all.h"

enum { PROCESS = 1 };

static void must(enum ks_status status, const struct ks_err *err)
{
    if (status != KS_OK) {
        fail_msg("%s", err->message);
    }
}

static struct ks_strid intern(struct facts_fixture *fixture, const char *text)
{
    struct ks_strid id = {0};
    struct ks_err err = {0};
    if (text) {
        must(ks_trace_builder_intern(fixture->builder, ks_str_from(text), &id, &err), &err);
    }
    return id;
}

void facts_fixture_init(struct facts_fixture *fixture, uint32_t chunk_rows,
                        uint64_t chunk_bytes_max)
{
    *fixture = (struct facts_fixture){0};
    struct ks_err err = {0};
    struct ks_trace_options options = {.chunk_rows = chunk_rows,
                                       .chunk_bytes_max = chunk_bytes_max};
    must(ks_trace_builder_create(&options, &fixture->builder, &err), &err);
    must(ks_trace_builder_source_open(fixture->builder, KS_STR("trace.json"), &fixture->source,
                                      &err),
         &err);
    fixture->source->rank = -1;
    fixture->source->run = 1;
}

void facts_fixture_next_rank(struct facts_fixture *fixture, int64_t rank)
{
    struct ks_err err = {0};
    must(ks_trace_builder_source_close(fixture->builder, &err), &err);
    must(
        ks_trace_builder_source_open(fixture->builder, KS_STR("next.json"), &fixture->source, &err),
        &err);
    fixture->source->rank = rank;
    fixture->source->run = 1;
}

static int64_t id_of(int64_t given)
{
    return given == 0 ? -1 : given;
}

void facts_fixture_host(struct facts_fixture *fixture, const struct host_row *rows, size_t count)
{
    struct ks_err err = {0};
    for (size_t i = 0; i < count; i++) {
        const struct host_row *row = &rows[i];
        uint32_t track = 0;
        struct ks_track_key pid = {.number = PROCESS};
        if (row->flags & KS_SLICE_ASYNC) {
            must(ks_trace_builder_async(fixture->builder, pid, &track, &err), &err);
        } else {
            must(ks_trace_builder_thread(fixture->builder, pid,
                                         (struct ks_track_key){.number = row->tid}, &track, &err),
                 &err);
        }
        struct ks_slice_row slice = {.lane = track,
                                     .start_ns = row->start_ns,
                                     .dur_ns = row->dur_ns,
                                     .ext_id = id_of(row->ext_id),
                                     .corr = id_of(row->corr),
                                     .seq = id_of(row->seq),
                                     .aux = row->aux == -2 ? 0 : id_of(row->aux),
                                     .parent_aux = -1,
                                     .name = intern(fixture, row->name).v,
                                     .dims = intern(fixture, row->dims).v,
                                     .types = intern(fixture, row->types).v,
                                     .concrete = intern(fixture, row->concrete).v,
                                     .category = (uint8_t)row->category,
                                     .flags = (uint8_t)row->flags};
        must(ks_trace_builder_slice(fixture->builder, &slice, &err), &err);
    }
}

void facts_fixture_device(struct facts_fixture *fixture, const struct device_row *rows,
                          size_t count)
{
    struct ks_err err = {0};
    for (size_t i = 0; i < count; i++) {
        const struct device_row *row = &rows[i];
        uint32_t device = 0;
        uint32_t stream = 0;
        must(ks_trace_builder_stream(fixture->builder, row->device, row->stream, &device, &stream,
                                     &err),
             &err);
        bool is_comm = ks_kernel_is_communication(ks_str_from(row->name));
        uint32_t collective = 0;
        if (row->collective) {
            const struct ks_collective meta = {.name = intern(fixture, row->collective),
                                               .group = intern(fixture, "0"),
                                               .dtype = intern(fixture, "Float"),
                                               .sequence = -1,
                                               .in_elements = row->elements,
                                               .out_elements = row->elements,
                                               .group_size = 2};
            must(ks_trace_builder_collective(fixture->builder, &meta, &collective, &err), &err);
        }
        struct ks_gpu_row gpu = {
            .lane = device,
            .start_ns = row->start_ns,
            .dur_ns = row->dur_ns,
            .corr = id_of(row->corr),
            .ext_id = id_of(row->ext_id),
            .bytes = id_of(row->bytes),
            .stream = stream,
            .collective = collective,
            .name = intern(fixture, row->name).v,
            .occupancy = row->occupancy > 0   ? (float)row->occupancy
                         : row->occupancy < 0 ? 0
                                              : NAN,
            .blocks_per_sm = row->blocks_per_sm > 0 ? (float)row->blocks_per_sm : NAN,
            .warps_per_sm = NAN,
            .category = (uint8_t)row->category,
            .flags = row->category == KERNEL && is_comm ? KS_GPU_COMMUNICATION : 0};
        must(ks_trace_builder_gpu(fixture->builder, &gpu, &err), &err);
    }
}

void facts_fixture_memory(struct facts_fixture *fixture, const struct memory_row *rows,
                          size_t count)
{
    struct ks_err err = {0};
    for (size_t i = 0; i < count; i++) {
        uint32_t process = 0;
        must(ks_trace_builder_process(fixture->builder, (struct ks_track_key){.number = PROCESS},
                                      &process, &err),
             &err);
        struct ks_memory_row row = {.lane = process,
                                    .start_ns = rows[i].start_ns,
                                    .bytes = rows[i].bytes,
                                    .addr = rows[i].addr,
                                    .allocated = -1,
                                    .reserved = -1,
                                    .device = rows[i].device,
                                    .device_type = rows[i].device < 0 ? 0 : 1,
                                    .flags = (uint8_t)rows[i].flags};
        must(ks_trace_builder_memory(fixture->builder, &row, &err), &err);
    }
}

void facts_fixture_seal(struct facts_fixture *fixture)
{
    struct ks_err err = {0};
    must(ks_trace_builder_source_close(fixture->builder, &err), &err);
    must(ks_trace_builder_seal(fixture->builder, 0, &fixture->trace, &err), &err);
    fixture->builder = NULL;
}

void facts_fixture_compute(struct facts_fixture *fixture, const struct ks_scope *scope)
{
    struct ks_err err = {0};
    struct ks_scope all = {0};
    const struct ks_facts_help help = {.uses_two_threads = true};
    facts_fixture_seal(fixture);
    must(ks_facts_compute_with(fixture->trace, scope ? scope : &all, &help, &fixture->facts, &err),
         &err);
}

void facts_fixture_release(struct facts_fixture *fixture)
{
    ks_facts_release(&fixture->facts);
    ks_trace_destroy(fixture->trace);
    ks_trace_builder_destroy(fixture->builder);
    *fixture = (struct facts_fixture){0};
}

const struct ks_operator_fact *facts_fixture_operator(const struct facts_fixture *fixture,
                                                      const char *label, enum ks_operator_kind kind,
                                                      const char *shapes)
{
    const struct ks_facts *facts = &fixture->facts;
    const struct ks_operator_fact *found = NULL;
    for (size_t i = 0; i < facts->operator_count; i++) {
        const struct ks_operator_fact *row = &facts->operators[i];
        if (row->kind == kind && ks_str_equal(ks_operator_label(facts, row), ks_str_from(label)) &&
            (!shapes ||
             ks_str_equal(ks_trace_str(facts->trace, row->shapes), ks_str_from(shapes)))) {
            assert_null(found);
            found = row;
        }
    }
    return found;
}

void facts_fixture_advise(struct facts_fixture *fixture, struct ks_findings *findings)
{
    struct ks_err err = {0};
    facts_fixture_compute(fixture, NULL);
    *findings = (struct ks_findings){0};
    must(ks_findings_compute(&fixture->facts, findings, &err), &err);
}

const struct ks_finding *facts_fixture_finding(const struct ks_findings *findings, const char *id)
{
    for (size_t i = 0; i < findings->count; i++) {
        if (strcmp(findings->list[i].rule->id, id) == 0) {
            return &findings->list[i];
        }
    }
    return NULL;
}

/* ------------------------------------------------------------ cases of rules */

static void put_on_one_line(FILE *file, const char *text)
{
    for (; *text; text++) {
        if (*text == '\\' || *text == '\n') {
            fputc('\\', file);
        }
        fputc(*text == '\n' ? 'n' : *text, file);
    }
}

/* A line "kind, id, code of the fix", with tabs between. Several programs may add to the file. */
static void note_case(const char *id, enum rule_case kind, const struct ks_finding *finding)
{
    static const char *const names[] = {"fires", "silent", "near_miss"};
    const char *path = getenv("KSCOPE_RULE_CASES");
    FILE *file = path ? fopen(path, "a") : NULL;
    if (!file) {
        assert_null(path);
        return;
    }
    fprintf(file, "%s\t%s\t", names[kind], id);
    put_on_one_line(file, finding && finding->fix_code ? finding->fix_code : "");
    fputc('\n', file);
    assert_int_equal(fclose(file), 0);
}

static const struct ks_check *check_of(const struct ks_findings *findings, const char *id)
{
    for (size_t i = 0; i < findings->check_count; i++) {
        if (strcmp(findings->checks[i].rule->id, id) == 0) {
            return &findings->checks[i];
        }
    }
    fail_msg("there is no rule %s", id);
    abort();
}

static void check_finding(const struct ks_finding *finding)
{
    const struct ks_saving *saving = &finding->saving;
    assert_true(saving->low_ns >= 0 && saving->low_ns <= saving->high_ns);
    assert_true(finding->share >= 0 && finding->share <= 1);
    assert_non_null(finding->fix_text);
    assert_non_null(finding->verify);
    assert_true(finding->evidence_count > 0);
}

const struct ks_finding *rule_case(const struct ks_findings *findings, const char *id,
                                   enum rule_case kind)
{
    const struct ks_finding *finding = facts_fixture_finding(findings, id);
    const struct ks_check *check = check_of(findings, id);
    if ((finding != NULL) != (kind == RULE_FIRES)) {
        fail_msg("%s %s", id, finding ? "was found" : check->reason);
    }
    assert_int_equal(check->state == KS_CHECK_FOUND, kind == RULE_FIRES);
    if (finding) {
        check_finding(finding);
    } else {
        assert_null(strstr(check->reason, "other findings")); /* it would have fired alone */
        assert_true(check->reason[0] != '\0');
    }
    note_case(id, kind, finding);
    return finding;
}

double facts_fixture_evidence(const struct ks_finding *finding, const char *name)
{
    for (size_t i = 0; i < finding->evidence_count; i++) {
        if (strcmp(finding->evidence[i].name, name) == 0) {
            return finding->evidence[i].value;
        }
    }
    fail_msg("no evidence %s", name);
    return 0;
}

const struct ks_kernel_fact *facts_fixture_kernel(const struct facts_fixture *fixture,
                                                  const char *name)
{
    const struct ks_facts *facts = &fixture->facts;
    for (size_t i = 0; i < facts->kernel_count; i++) {
        if (ks_str_equal(ks_trace_str(facts->trace, facts->kernels[i].name), ks_str_from(name))) {
            return &facts->kernels[i];
        }
    }
    return NULL;
}
