/* Public C API of Kinetoscope: open traces, look at what was found, write reports.
 *
 * Ownership: what `create`/`open` gives, the caller ends with `destroy`/`close`. Strings passed in
 * are copied when they must outlive the call. Nothing here prints, exits or keeps global state.
 * Threads: a report belongs to one thread at a time; two reports are independent.
 * Errors: every fallible call returns enum ks_status and fills the optional `err`.
 */
#ifndef KSCOPE_KSCOPE_H
#define KSCOPE_KSCOPE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define KS_API __attribute__((visibility("default")))
#define KS_MUST_CHECK __attribute__((warn_unused_result))
#else
#define KS_API
#define KS_MUST_CHECK
#endif

/* One value per reaction of a caller. KS_END is not an error: a scan or a reader is done. */
enum ks_status {
    KS_OK = 0,
    KS_END,             /* nothing more to come */
    KS_ERR_NOMEM,       /* free memory and try again */
    KS_ERR_IO,          /* the system refused: look at the path, the disk, the rights */
    KS_ERR_FORMAT,      /* the input is not what it says it is */
    KS_ERR_LIMIT,       /* larger than a limit that can be raised */
    KS_ERR_UNSUPPORTED, /* known, but not handled here */
    KS_ERR_CANCELLED,   /* the caller asked to stop */
    KS_ERR_USAGE,       /* the arguments do not fit together */
};

enum { KS_ERR_MESSAGE_SIZE = 240 };

#define KS_NO_OFFSET ((int64_t)-1)

/* Filled by a failing call; owned by the caller, allocates nothing.
 * `offset`: byte offset of the fault in the (decompressed) input, or KS_NO_OFFSET.
 * `message`: one sentence, `Cannot <verb> <thing>: key=value`, without newline. */
struct ks_err {
    enum ks_status status;
    int64_t offset;
    char message[KS_ERR_MESSAGE_SIZE];
};

enum ks_log_level { KS_LOG_ERROR, KS_LOG_WARN, KS_LOG_INFO, KS_LOG_DEBUG };

/* Receives one finished line of log text without newline. */
typedef void (*ks_log_cb)(void *user, enum ks_log_level level, const char *domain,
                          const char *text);

/* Receives output bytes in order; returns false to stop (the call then gives KS_ERR_IO). */
typedef bool (*ks_write_cb)(void *user, const char *bytes, size_t size);

/* Version of the library, "major.minor.patch". */
KS_API const char *ks_version(void);

/* ------------------------------------------------------------------ how far a call is */

enum ks_stage { KS_STAGE_READ, KS_STAGE_ANALYZE, KS_STAGE_QUERY };

/* Zeroed by the caller, counted by the calls that it is given to. Another thread may look at it
 * meanwhile, with ks_progress_get. */
struct ks_progress {
    enum ks_stage stage;
    uint64_t bytes_done;  /* of the input files as they are, compressed or not */
    uint64_t bytes_total; /* 0: not known, as of a pipe */
};

/* The numbers of this moment. */
KS_API struct ks_progress ks_progress_get(const struct ks_progress *progress);

/* ------------------------------------------------------------------ opening a report */

struct ks_report;

/* Zero means the default everywhere. Paths are files or folders. */
struct ks_report_options {
    const char *const *paths;
    size_t path_count;
    /* Recordings of the same program with Python stacks: only places of calls come from them. What
     * `paths` bring along under a name with ".stacks." beside a file without is one, too. */
    const char *const *stacks_paths;
    size_t stacks_path_count;
    bool strict;           /* refuse damaged input with the byte offset of the first fault */
    bool group_by_shape;   /* operators[] by (name, input shapes) */
    bool step_range_given; /* keep only steps step_first..step_last (numbers of ProfilerStep#N) */
    int64_t step_first;
    int64_t step_last;
    /* operators[] also by so many Python frames that called them, innermost first; 0: not */
    int64_t group_by_stack;
    bool device_given; /* keep only GPU work of this device ordinal */
    int64_t device;
    bool rank_given; /* keep only the files of this rank */
    int64_t rank;
    int64_t run;    /* which run (1-based) when the files hold several; 0: must be one */
    int64_t window; /* which window of `kscope run` (1-based); 0: the latest of a folder */
    /* How much memory all of it may take, as far as can be helped: tables beyond it lie in a file.
     * 0: half of what the machine, or its control group, has. */
    uint64_t memory_bytes_max;
    uint64_t chunk_bytes_max; /* memory for table chunks alone; 0: from memory_bytes_max */
    uint32_t chunk_rows;      /* rows in a chunk, a power of two; 0: 65,536 */
    unsigned threads;         /* how many may read a file; 0: as many as there are processors */
    /* Keep the sealed trace and what was computed, and take what was kept. Nothing fails for it:
     * what cannot be kept is not. */
    bool cache;
    const char *cache_dir;    /* NULL: $XDG_CACHE_HOME/kinetoscope, else ~/.cache/kinetoscope */
    uint64_t cache_bytes_max; /* of all that is kept there; 0: 8 GiB */
    ks_log_cb log;            /* may be called until the report is closed */
    void *log_user;
    struct ks_progress *progress; /* NULL: nobody asks */
};

/* Reads all paths, analyses them and collects findings. One path can be a sealed trace (.kst).
 * On success `*out` is a report to be closed with ks_report_close. Errors: KS_ERR_IO (cannot be
 * opened), KS_ERR_FORMAT (not a trace, or damaged and strict), KS_ERR_USAGE (several runs and no
 * `run`), KS_ERR_LIMIT, KS_ERR_NOMEM. */
KS_API KS_MUST_CHECK enum ks_status ks_report_open(const struct ks_report_options *options,
                                                   struct ks_report **out, struct ks_err *err);
/* Ends a report; NULL is fine. */
KS_API void ks_report_close(struct ks_report *report);

/* ------------------------------------------------------------------ writing it */

enum ks_report_format {
    KS_REPORT_SCREEN,
    KS_REPORT_JSON,
    KS_REPORT_TABLE,
    KS_REPORT_MARKDOWN, /* verdict, steps, findings: for a comment or an issue */
    KS_REPORT_SARIF,    /* findings that name a line, as SARIF 2.1.0 */
};

struct ks_report_style {
    enum ks_report_format format;
    const char *table; /* KS_REPORT_TABLE: "operators", "kernels", ... (ks_report_table_name) */
    const char *sort;  /* sort key of torch's key_averages or of our columns; NULL: default */
    size_t row_limit;  /* rows of each list; 0: all rows in JSON, the table's default on screen */
    bool colour;       /* ANSI colours */
    bool ascii;        /* text without characters beyond ASCII of our own */
    size_t width;      /* columns of the terminal; 0: 100 */
    const char *root;  /* SARIF: files below this folder get relative names; NULL: none do */
};

/* Do format, table and sort fit together? Looks at no report, so that it can be asked before a long
 * read. KS_ERR_USAGE: the message lists what would fit. */
KS_API KS_MUST_CHECK enum ks_status ks_report_style_check(const struct ks_report_style *style,
                                                          struct ks_err *err);

/* Writes the report. Errors: KS_ERR_USAGE as above, KS_ERR_IO (`write` gave false),
 * KS_ERR_NOMEM. */
KS_API KS_MUST_CHECK enum ks_status ks_report_write(const struct ks_report *report,
                                                    const struct ks_report_style *style,
                                                    ks_write_cb write, void *user,
                                                    struct ks_err *err);

struct ks_comparison;

/* Zero means the default everywhere. */
struct ks_page_options {
    size_t row_limit; /* rows of each list; 0: 1,000. Fewer, when names are so long that it needs */
    /* Also shown, in a view of its own: the report is the later one of the two. NULL: none. */
    const struct ks_comparison *comparison;
};

/* Can this build write pages? Looks at no report, so that it can be asked before a long read.
 * KS_ERR_UNSUPPORTED: it was built without Node.js. */
KS_API KS_MUST_CHECK enum ks_status ks_page_can_write(struct ks_err *err);

/* Writes the report as one HTML file that needs nothing else (docs/formats/page.md). Errors:
 * KS_ERR_UNSUPPORTED as above, KS_ERR_IO (`write` gave false), KS_ERR_NOMEM. */
KS_API KS_MUST_CHECK enum ks_status ks_report_write_page(struct ks_report *report,
                                                         const struct ks_page_options *options,
                                                         ks_write_cb write, void *user,
                                                         struct ks_err *err);

/* What a page is made of, for a program that serves it: a frame without any data that asks for
 * "/page.js" and "/page.css", these two, and the data blocks of docs/formats/page.md as JSON. */
enum ks_page_part {
    KS_PAGE_SHELL,
    KS_PAGE_SCRIPT,
    KS_PAGE_STYLE,
    KS_PAGE_REPORT,
    KS_PAGE_TIMELINE,
    KS_PAGE_FLAME,
    KS_PAGE_MEMORY,
    KS_PAGE_PART_COUNT,
};

struct ks_page_parts;

/* Gathers what a page of the report shows, and where each row of the timeline lies. The timeline of
 * parts has the whole trace at one resolution; more is given by tiles. `report` must stay open
 * until the parts are closed, and belongs to one thread with them. Errors: as
 * ks_report_write_page. */
KS_API KS_MUST_CHECK enum ks_status ks_page_parts_open(struct ks_report *report,
                                                       const struct ks_page_options *options,
                                                       struct ks_page_parts **out,
                                                       struct ks_err *err);
/* Ends them; NULL is fine. */
KS_API void ks_page_parts_close(struct ks_page_parts *parts);
/* Writes one part. Errors: KS_ERR_IO (`write` gave false, or rows cannot be read any more),
 * KS_ERR_NOMEM. */
KS_API KS_MUST_CHECK enum ks_status ks_page_parts_write(const struct ks_page_parts *parts,
                                                        enum ks_page_part part, ks_write_cb write,
                                                        void *user, struct ks_err *err);

/* A stretch [start_ns, end_ns) of some tracks (places in `tracks` of the timeline block). When its
 * spans are too many to be told one by one, those shorter than a `parts`-th of it (16 to 8,192) are
 * merged, and than a power of two times that as long as they still are too many. */
struct ks_page_tile {
    int64_t start_ns;
    int64_t end_ns;
    const uint16_t *tracks;
    size_t track_count;
    uint32_t parts;
};

/* Writes the tile as JSON. Errors: KS_ERR_USAGE (a number is out of range, or a track is not
 * there), and those of ks_page_parts_write. */
KS_API KS_MUST_CHECK enum ks_status ks_page_parts_write_tile(const struct ks_page_parts *parts,
                                                             const struct ks_page_tile *tile,
                                                             ks_write_cb write, void *user,
                                                             struct ks_err *err);

/* Writes the first `limit` spans (at least one) by time whose name holds the text, whatever the
 * case of its ASCII letters, as JSON. Errors: KS_ERR_USAGE (the text is empty or has more than 256
 * bytes), and those of ks_page_parts_write. */
KS_API KS_MUST_CHECK enum ks_status ks_page_parts_find(const struct ks_page_parts *parts,
                                                       const char *text, size_t text_size,
                                                       size_t limit, ks_write_cb write, void *user,
                                                       struct ks_err *err);

enum { KS_INPUT_MARK_SIZE = 40 };

/* Says which bytes the options stand for, without reading them: two texts differ when a report of
 * the same paths might. Errors: KS_ERR_IO, KS_ERR_USAGE, KS_ERR_NOMEM. */
KS_API KS_MUST_CHECK enum ks_status ks_report_input_mark(const struct ks_report_options *options,
                                                         char mark[KS_INPUT_MARK_SIZE],
                                                         struct ks_err *err);

enum ks_picture { KS_PICTURE_STEPS, KS_PICTURE_IDLE, KS_PICTURE_MEMORY, KS_PICTURE_COUNT };

/* "steps", "idle", "memory": static text. */
KS_API const char *ks_picture_name(enum ks_picture picture);

/* Draws a picture of the report as SVG. Errors: KS_ERR_UNSUPPORTED (the trace holds nothing to
 * draw; the message says what), KS_ERR_IO (`write` gave false), KS_ERR_NOMEM. */
KS_API KS_MUST_CHECK enum ks_status ks_report_write_picture(struct ks_report *report,
                                                            enum ks_picture picture,
                                                            ks_write_cb write, void *user,
                                                            struct ks_err *err);

/* Name of the index-th table of KS_REPORT_TABLE, or NULL past the last. */
KS_API const char *ks_report_table_name(size_t index);
/* Name of the index-th sort key of a table, or NULL past the last and for an unknown table. */
KS_API const char *ks_report_sort_name(const char *table, size_t index);

/* Number of findings, and of those whose saving is at or above `share` of step time (0-1). */
KS_API size_t ks_report_finding_count(const struct ks_report *report);
KS_API size_t ks_report_finding_count_above(const struct ks_report *report, double share);

/* How much a finding weighs: time findings by their share of the step, low below 5 %, high from
 * 20 % on; others are medium, and high when memory runs out in less than 10,000 steps. */
enum ks_severity { KS_FINDING_LOW, KS_FINDING_MEDIUM, KS_FINDING_HIGH };

/* Number of findings that weigh at least that much. */
KS_API size_t ks_report_finding_count_severe(const struct ks_report *report,
                                             enum ks_severity least);

/* What limits the step (verdict.bound_by of the JSON), and the rule of the index-th finding (NULL
 * past the last): enough to tell whether two reports say the same. Static text. */
KS_API const char *ks_report_bound_by(const struct ks_report *report);
KS_API const char *ks_report_finding_id(const struct ks_report *report, size_t index);

/* Id of the index-th rule ("input.starved"), or NULL past the last. Static text. */
KS_API const char *ks_rule_id(size_t index);
/* Writes the page of a rule as text, or with `id` NULL the list of rules. Errors: KS_ERR_USAGE (no
 * such rule), KS_ERR_IO, KS_ERR_NOMEM. */
KS_API KS_MUST_CHECK enum ks_status ks_explain_write(const char *id, bool colour, ks_write_cb write,
                                                     void *user, struct ks_err *err);

/* The JSON document of a failure: {schema, error {code, message, where, offset}}. */
KS_API KS_MUST_CHECK enum ks_status ks_error_write_json(const struct ks_err *failure,
                                                        const char *where, ks_write_cb write,
                                                        void *user, struct ks_err *err);

/* ------------------------------------------------------------------ comparing two reports */

/* What the step times of two runs say of B, the later one. */
enum ks_step_verdict {
    KS_STEP_VERDICT_CANNOT_TELL,
    KS_STEP_VERDICT_NO_DIFFERENCE,
    KS_STEP_VERDICT_FASTER,
    KS_STEP_VERDICT_SLOWER,
};

/* Compares the run of `a` with that of `b`, which was made later: steps, operators, kernels, memory
 * and findings (docs/diff.md). On success `*out` is to be closed with ks_comparison_close; it needs
 * the reports no more. `a` and `b` may be the same. Errors: KS_ERR_NOMEM, KS_ERR_IO, KS_ERR_FORMAT
 * (a trace can no longer be read). */
KS_API KS_MUST_CHECK enum ks_status ks_comparison_open(struct ks_report *a, struct ks_report *b,
                                                       struct ks_comparison **out,
                                                       struct ks_err *err);
KS_API void ks_comparison_close(struct ks_comparison *comparison); /* NULL is fine */

/* Is B faster? */
KS_API enum ks_step_verdict ks_comparison_verdict(const struct ks_comparison *comparison);

/* Writes it: of `style` count `format` (KS_REPORT_SCREEN or KS_REPORT_JSON), `row_limit` (0: 10
 * rows on the screen), `colour`, `ascii` and `width`. Errors: KS_ERR_USAGE (another format),
 * KS_ERR_IO (`write` gave false), KS_ERR_NOMEM. */
KS_API KS_MUST_CHECK enum ks_status ks_comparison_write(const struct ks_comparison *comparison,
                                                        const struct ks_report_style *style,
                                                        ks_write_cb write, void *user,
                                                        struct ks_err *err);

/* ------------------------------------------------------------------ files for other programs */

enum ks_export_format {
    KS_EXPORT_CSV,
    KS_EXPORT_FOLDED,
    KS_EXPORT_SPEEDSCOPE,
    KS_EXPORT_CHROME,
    KS_EXPORT_PERFETTO,
    KS_EXPORT_SQLITE, /* only by ks_export_write_file */
    KS_EXPORT_PARQUET,
    KS_EXPORT_ARROW,
};

/* What the stacks of KS_EXPORT_FOLDED are weighed by. */
enum ks_export_weight {
    KS_EXPORT_SELF_CPU,  /* exclusive time on the host; of a recording without spans as the others:
                            _FUNCTIONS, or where it has none _SAMPLES */
    KS_EXPORT_DEVICE,    /* time of the GPU work that the innermost operator launched */
    KS_EXPORT_FUNCTIONS, /* own time of functions, as the function profiler counted it */
    KS_EXPORT_SAMPLES,   /* samples of stacks, a number */
};

/* Zero means the default everywhere. Steps, rank and device are those that the report was opened
 * with. */
struct ks_export_options {
    enum ks_export_format format;
    /* KS_EXPORT_CSV, _PARQUET, _ARROW: one of ks_export_table_name; NULL: "operators" for CSV,
     * "events" for the others. */
    const char *table;
    enum ks_export_weight weight;
    /* What of the events is kept, beside the steps of the report. Tables of the report itself
     * cannot be cut so: KS_ERR_USAGE. */
    const char *categories; /* separated by commas; NULL: all */
    bool time_given;        /* only what overlaps [time_from_ns, time_to_ns) from the start */
    int64_t time_from_ns;
    int64_t time_to_ns;
    bool uncompressed; /* KS_EXPORT_PARQUET, _ARROW: without zstd inside */
    bool strict;       /* KS_EXPORT_CHROME: refuse damaged text */
    bool gzip;         /* compress what is written */
    ks_log_cb log;     /* what had to be cut or left out */
    void *log_user;
};

/* Name of the index-th table that an export knows; NULL past the last. */
KS_API const char *ks_export_table_name(size_t index);

/* Do the options fit together? Looks at no report, so that it can be asked before a long read.
 * KS_ERR_USAGE. */
KS_API KS_MUST_CHECK enum ks_status ks_export_check(const struct ks_export_options *options,
                                                    struct ks_err *err);

/* Writes the report in a format that other programs read (docs/export.md). Errors: KS_ERR_USAGE
 * (options that do not fit together; KS_EXPORT_CHROME: not one file), KS_ERR_LIMIT (speedscope:
 * hundreds of streams), KS_ERR_IO (`write` gave false), KS_ERR_NOMEM; KS_EXPORT_CHROME also those
 * of reading the file once more. */
KS_API KS_MUST_CHECK enum ks_status ks_export_write(struct ks_report *report,
                                                    const struct ks_export_options *options,
                                                    ks_write_cb write, void *user,
                                                    struct ks_err *err);

/* The same for KS_EXPORT_SQLITE, into the file `path`, which is empty or not there. After an error
 * it holds anything, and is the caller's to remove. */
KS_API KS_MUST_CHECK enum ks_status ks_export_write_file(struct ks_report *report,
                                                         const struct ks_export_options *options,
                                                         const char *path, struct ks_err *err);

struct ArrowArrayStream;
struct ArrowSchema;

/* A table (one of ks_export_table_name) as columns in memory, by the C stream interface of Apache
 * Arrow (kscope_arrow.h): int64, float64 and UTF-8, null where a value is unknown; all of them, or
 * `column` alone when it is not NULL. Rows are copied, so that the stream outlives the report; its
 * owner releases it. Errors: KS_ERR_USAGE (no such table or column), KS_ERR_NOMEM, KS_ERR_IO; then
 * `out` holds nothing. */
KS_API KS_MUST_CHECK enum ks_status ks_export_stream(struct ks_report *report, const char *table,
                                                     const char *column,
                                                     struct ArrowArrayStream *out,
                                                     struct ks_err *err);

/* Names and types of those columns, without reading a row. Errors: KS_ERR_USAGE, KS_ERR_NOMEM. */
KS_API KS_MUST_CHECK enum ks_status ks_export_schema(struct ks_report *report, const char *table,
                                                     struct ArrowSchema *out, struct ks_err *err);

/* Zero means the default everywhere. */
struct ks_convert_options {
    const char *path;            /* one file, or "-" */
    bool strict;                 /* refuse damaged text with the byte offset of the first fault */
    const char *keep_categories; /* separated by commas; NULL: all */
    const char *drop_categories; /* the same for those that go; NULL: none */
    bool drop_args;              /* arguments that only shapes and FLOPs need */
    bool anonymize;              /* neutral words for names that are not known to be public */
    bool gzip;                   /* compress what is written */
    ks_log_cb log;
    void *log_user;
    struct ks_progress *progress; /* NULL: nobody asks */
};

/* Hands on the text of a trace, smaller or fit to be shown around (docs/export.md). What is kept
 * keeps its bytes. Errors: KS_ERR_IO (the file cannot be opened, or `write` gave false),
 * KS_ERR_FORMAT (no trace, or damaged and strict), KS_ERR_UNSUPPORTED (a trace inside a trace),
 * KS_ERR_LIMIT, KS_ERR_NOMEM. */
KS_API KS_MUST_CHECK enum ks_status ks_convert_write(const struct ks_convert_options *options,
                                                     ks_write_cb write, void *user,
                                                     struct ks_err *err);
/* ------------------------------------------------------------------ rules of users */

struct ks_rules;

/* Zero means the default everywhere. */
struct ks_rules_options {
    const char *path;   /* a folder with files that end in .sql, or one file (docs/user_rules.md) */
    uint64_t bytes_max; /* memory that SQLite may take for a rule; 0: 1 GiB */
    int64_t ms_max;     /* time that a rule may run; 0: 30 s */
    bool (*is_cancelled)(void *user); /* asked now and then; may be NULL */
    void *cancel_user;
};

/* Loads and checks rules; looks at no report, so that it can be done before a long read. Errors:
 * KS_ERR_USAGE (the message names file and line), KS_ERR_IO, KS_ERR_LIMIT, KS_ERR_CANCELLED,
 * KS_ERR_NOMEM. */
KS_API KS_MUST_CHECK enum ks_status ks_rules_open(const struct ks_rules_options *options,
                                                  struct ks_rules **out, struct ks_err *err);
KS_API void ks_rules_close(struct ks_rules *rules); /* NULL is fine */
KS_API size_t ks_rules_count(const struct ks_rules *rules);

/* Runs the rules, which must outlive the report: what they find stands beside our findings from
 * then on, instead of what rules of an earlier call found. A rule that this trace stops is a
 * check that could not be made, and a line of the log. Errors: KS_ERR_CANCELLED, KS_ERR_IO,
 * KS_ERR_FORMAT (the trace can no longer be read), KS_ERR_NOMEM. */
KS_API KS_MUST_CHECK enum ks_status ks_report_add_rules(struct ks_report *report,
                                                        const struct ks_rules *rules,
                                                        struct ks_progress *progress,
                                                        struct ks_err *err);

/* ------------------------------------------------------------------ asking by SQL */

enum ks_query_format { KS_QUERY_TABLE, KS_QUERY_CSV, KS_QUERY_JSON };

struct ks_query_style {
    enum ks_query_format format;
    uint64_t row_limit; /* 0: all rows */
    bool colour;        /* tables: ANSI colours */
    size_t width;       /* tables: columns of the terminal; 0: 100 */
};

/* Zero means the default everywhere. */
struct ks_query_options {
    const char *sql; /* one SELECT over the tables of docs/query.md */
    size_t sql_size;
    struct ks_query_style style;
    const struct ks_comparison *comparison; /* fills the tables fact_compare_*; NULL: empty ones */
    /* Memory that SQLite may take; 0: any. SQLite's own limit is one for the whole process, so it
     * holds for other users of SQLite too while this query runs. */
    uint64_t bytes_max;
    int64_t ms_max; /* time that it may run; 0: any */
    bool (*is_cancelled)(
        void *user); /* asked every few microseconds to milliseconds; may be NULL */
    void *cancel_user;
    struct ks_progress *progress; /* NULL: nobody asks */
};

struct ks_query_result {
    uint64_t row_count;    /* rows that were written */
    uint64_t rows_visited; /* rows of events that were looked at for them */
    bool is_cut;           /* there are more rows than row_limit */
    bool has_output;       /* something whole was written, also when the query failed later */
};

/* Is it one SELECT that fits the tables? Looks at no report, so that it can be asked before a long
 * read. KS_ERR_USAGE: the message says what is wrong, and where. */
KS_API KS_MUST_CHECK enum ks_status ks_query_check(const struct ks_query_options *options,
                                                   struct ks_err *err);

/* Runs it and writes the rows. `result` is filled in any case. Errors: KS_ERR_USAGE as above,
 * KS_ERR_LIMIT (time, memory, size of a value), KS_ERR_CANCELLED, KS_ERR_IO, KS_ERR_NOMEM. */
KS_API KS_MUST_CHECK enum ks_status ks_query_write(struct ks_report *report,
                                                   const struct ks_query_options *options,
                                                   ks_write_cb write, void *user,
                                                   struct ks_query_result *result,
                                                   struct ks_err *err);

/* Writes all tables and columns, with what they mean, as Markdown. */
KS_API KS_MUST_CHECK enum ks_status ks_query_schema_write(ks_write_cb write, void *user,
                                                          struct ks_err *err);

/* ------------------------------------------------------------------ numbers of a program */

/* What a list of numbers comes to. `std` is that of a sample, 0 for one value. Quantiles lie
 * between two values where no value stands at their rank, as numpy's do by default. */
struct ks_summary {
    size_t count;
    double total;
    double mean;
    double std;
    double min;
    double max;
    double p50;
    double p90;
    double p95;
    double p99;
};

/* Sorts `values`, which must be finite; without any all is 0. */
KS_API struct ks_summary ks_summarize(double *values, size_t count);

/* By how much y grows when x grows by 1: the slope of the line of least squares. 0 when there are
 * fewer than two different x. */
KS_API double ks_slope(const double *x, const double *y, size_t count);

/* Keys and values that attention keeps of the tokens before. With groups of queries that share
 * keys, `kv_heads` are the groups. */
struct ks_kv_shape {
    uint64_t layers;
    uint64_t kv_heads;
    uint64_t head_size;
    uint64_t batch;
    uint64_t tokens;
    uint64_t element_bytes;
};

/* Bytes of both: 2 * layers * kv_heads * head_size * batch * tokens * element_bytes; UINT64_MAX
 * when that does not fit. */
KS_API uint64_t ks_kv_bytes(const struct ks_kv_shape *shape);

enum { KS_MEMORY_KINDS_MAX = 12 };

/* Memory in use as it comes and goes, by kinds that the caller numbers, and what was there at the
 * peak. All zero is an empty one. Sums stop at the ends of int64_t. */
struct ks_memory_curve {
    int64_t block;                       /* pieces are rounded up to multiples; 0: they are not */
    int64_t shares[KS_MEMORY_KINDS_MAX]; /* one in so many bytes of a kind is here; 0: all */
    int64_t now[KS_MEMORY_KINDS_MAX];
    int64_t at_peak[KS_MEMORY_KINDS_MAX];
    int64_t total;
    int64_t peak;
};

/* A piece of that size comes, or goes when it is negative. `kind` < KS_MEMORY_KINDS_MAX. */
KS_API void ks_memory_curve_change(struct ks_memory_curve *curve, size_t kind, int64_t bytes);

/* A piece is of another kind from now on. That it changes makes no peak. */
KS_API void ks_memory_curve_move(struct ks_memory_curve *curve, size_t from, size_t to,
                                 int64_t bytes);

/* The peak counts from now on. */
KS_API void ks_memory_curve_restart(struct ks_memory_curve *curve);

/* Numbers of a run that a program took itself; NaN where it does not know. */
struct ks_run_figures {
    double batches;        /* batches that were loaded */
    double batch_s;        /* what it takes to read one, without `transform_s` */
    double transform_s;    /* what its transforms take */
    double workers;        /* processes that load */
    double total_s;        /* all steps */
    double device_s;       /* of that, work of the GPU */
    double memory_percent; /* of the machine's, mean */
    double gpu_free_share; /* of the GPU's memory, at the peak, 0-1 */
};

typedef void (*ks_say_cb)(void *user, const char *id, const char *sentence);

/* Says what such numbers alone allow to say, in the order in which it matters; says nothing when
 * nothing is wrong. `id` is that of a rule where one looks for the same in a trace. */
KS_API void ks_figures_advise(const struct ks_run_figures *figures, ks_say_cb say, void *user);

/* ------------------------------------------------------------------ looking at one file */

/* Writes what kind of file each path is, its counters, switches, limits and versions as text, or
 * as one JSON document when `json`. */
KS_API KS_MUST_CHECK enum ks_status ks_info_write(const struct ks_report_options *options,
                                                  bool json, ks_write_cb write, void *user,
                                                  struct ks_err *err);

/* Versions of the library, of what built it and of the libraries that it uses, as one line of text,
 * or as one JSON document when `json`. */
KS_API KS_MUST_CHECK enum ks_status ks_version_write(bool json, ks_write_cb write, void *user,
                                                     struct ks_err *err);

/* ------------------------------------------------------------------ the folder of a run */

enum { KS_RUN_EXPLANATION_SIZE = 512 };

enum ks_run_state {
    KS_RUN_UNKNOWN,
    KS_RUN_WAITING,   /* steps run free; the window is still to come */
    KS_RUN_RECORDING, /* the window is open */
    KS_RUN_DONE,      /* all windows are written */
    KS_RUN_OFF,       /* recording failed or was given up */
};

/* A process under `kscope run`, as its status file has it. */
struct ks_run_process {
    int64_t rank; /* -1: not said */
    int64_t pid;
    enum ks_run_state state;
    bool is_running; /* it still lives; false for another machine's process */
    uint64_t steps_seen;
    size_t after_time_count;  /* steps that were timed after the windows */
    int64_t window_closed_ns; /* Unix time at which the last window closed; 0: none did */
    /* Why there is no trace, or what it lacks; "" when all is well. One line of UTF-8. */
    char explanation[KS_RUN_EXPLANATION_SIZE];
};

/* A window that is there, and so complete. */
struct ks_run_window {
    int64_t rank;
    int64_t pid;
    int64_t number;  /* counted from 1 */
    int64_t bytes;   /* of the file */
    bool has_stacks; /* the step with Python stacks is there too */
};

struct ks_run_folder;

/* Looks at the status files and at the names of the traces that lie in the folder itself. A file
 * that is no status file counts as none. `*out` is to be closed with ks_run_folder_close.
 * Errors: KS_ERR_IO (the folder cannot be listed), KS_ERR_NOMEM. */
KS_API KS_MUST_CHECK enum ks_status ks_run_folder_open(const char *path, struct ks_run_folder **out,
                                                       struct ks_err *err);
KS_API void ks_run_folder_close(struct ks_run_folder *folder); /* NULL is fine */
/* Sorted by rank, then pid; NULL past the last. */
KS_API const struct ks_run_process *ks_run_folder_process(const struct ks_run_folder *folder,
                                                          size_t index);
/* Sorted by number, then rank, then pid; NULL past the last. */
KS_API const struct ks_run_window *ks_run_folder_window(const struct ks_run_folder *folder,
                                                        size_t index);

/* ------------------------------------------------------------------ a run while it goes on */

enum { KS_LIVE_RATES_MAX = 40, KS_LIVE_PROGRAM_SIZE = 512, KS_LIVE_GPUS_MAX = 16 };

/* A process of a run, and how far it is. */
struct ks_live_rank {
    struct ks_run_process process;
    bool is_over;           /* it ended by itself */
    double steps_per_s;     /* in the last ten seconds in which it said something; NaN: not known */
    int64_t last_step_ns;   /* Unix time at which the last step that it told of ended; 0: none */
    int64_t step_ns;        /* median time of a step without a profiler; 0: not known */
    int64_t step_spread_ns; /* half of these steps lie no further from it; 0: not known */
    size_t rate_count;
    double rates[KS_LIVE_RATES_MAX]; /* steps a second, each over some seconds, the latest last */
    char program[KS_LIVE_PROGRAM_SIZE]; /* its words as one line of UTF-8, perhaps cut; "" */
};

/* One GPU, as the driver tells of it. -1: not known. */
struct ks_live_gpu {
    int64_t index;
    int64_t busy_percent;
    int64_t memory_bytes, memory_total_bytes;
    int64_t sm_mhz, sm_mhz_max;
    int64_t reasons; /* NVML's bits: why the clock is not higher */
    int64_t temperature_c;
    int64_t power_mw, power_limit_mw;
};

/* What the monitor of `kscope run` saw last: all processes of the run together. -1 and NaN: not
 * known, or no limit. */
struct ks_live_machine {
    int64_t began_ns; /* Unix time of the run's start, as far as the monitor knows */
    int64_t time_ns;  /* Unix time of the look, and how long it is after the one before */
    int64_t interval_ns;
    int64_t process_count, threads;
    double cpu_percent;         /* 100: one core */
    double machine_cpu_percent; /* of all cores, whoever used them */
    int64_t rss_bytes;
    int64_t machine_available_bytes, machine_total_bytes;
    int64_t cgroup_memory_bytes, cgroup_memory_max_bytes;
    int64_t cgroup_cpu_quota_us, cgroup_cpu_period_us;
    int64_t periods, throttled, throttled_ns; /* of the control group, in that interval */
    size_t gpu_count;
    struct ks_live_gpu gpus[KS_LIVE_GPUS_MAX];
};

enum ks_live_state {
    KS_LIVE_RUNNING,
    KS_LIVE_ENDING, /* the processes that stepped have ended, the run perhaps has not */
    KS_LIVE_OVER,
};

struct ks_live_style {
    bool json;     /* one document of one line, with a line feed: docs/live.schema.json */
    bool colour;   /* ANSI colours */
    bool ascii;    /* text without characters beyond ASCII of our own */
    size_t width;  /* columns of the terminal; 0: 100 */
    size_t height; /* lines that may be used; 0: any */
};

struct ks_live;

/* Looks at the folder of a run for the first time. Of the options it takes those about cache,
 * memory and the log, for the report of the latest window; NULL: none. Errors: KS_ERR_IO (it cannot
 * be listed, or is no folder of a run), KS_ERR_NOMEM. */
KS_API KS_MUST_CHECK enum ks_status ks_live_open(const char *path,
                                                 const struct ks_report_options *options,
                                                 struct ks_live **out, struct ks_err *err);
KS_API void ks_live_close(struct ks_live *live); /* NULL is fine */
/* Looks again. A folder that is gone is no error: then the run is over. KS_ERR_NOMEM. */
KS_API KS_MUST_CHECK enum ks_status ks_live_look(struct ks_live *live, struct ks_err *err);
/* Are there traces of a window that the report does not hold yet? */
KS_API bool ks_live_is_report_due(const struct ks_live *live);
/* Reads the latest window, which can take seconds. What cannot be read is said in the picture, and
 * not tried again until the traces change. */
KS_API void ks_live_read_report(struct ks_live *live);

/* Of the last look. */
KS_API enum ks_live_state ks_live_state(const struct ks_live *live);
/* Sorted by rank, then pid; NULL past the last. They and the machine are good until the next look.
 */
KS_API const struct ks_live_rank *ks_live_rank(const struct ks_live *live, size_t index);
/* NULL: nothing is known of it. */
KS_API const struct ks_live_machine *ks_live_machine(const struct ks_live *live);
/* Writes what was seen last. KS_ERR_IO (`write` gave false), KS_ERR_NOMEM. */
KS_API KS_MUST_CHECK enum ks_status ks_live_write(const struct ks_live *live,
                                                  const struct ks_live_style *style,
                                                  ks_write_cb write, void *user,
                                                  struct ks_err *err);

/* ------------------------------------------------------------------ memory snapshots */

struct ks_memory;

/* Zero means the default everywhere. */
struct ks_memory_options {
    const char *const *paths; /* one snapshot, or two: the earlier one first; "-": standard input */
    size_t path_count;
    int64_t asked_bytes;       /* also say whether so much could be allocated; 0: nobody asks */
    uint64_t memory_bytes_max; /* for what a file holds; 0: half of what the machine has */
    struct ks_progress *progress;
};

enum ks_memory_format {
    KS_MEMORY_SCREEN,
    KS_MEMORY_JSON,            /* docs/memory.schema.json */
    KS_MEMORY_FOLDED,          /* of the last snapshot: stacks of all blocks, for flame graphs */
    KS_MEMORY_FOLDED_SEGMENTS, /* the same, each under its segment */
};

struct ks_memory_style {
    enum ks_memory_format format;
    size_t row_limit; /* rows of each list; 0: all in JSON, 10 on screen */
    bool colour;      /* ANSI colours */
    bool ascii;       /* text without characters beyond ASCII of our own */
    size_t width;     /* columns of the terminal; 0: 100 */
};

/* Does the file begin like a memory snapshot of torch.cuda.memory? */
KS_API bool ks_memory_is_snapshot(const char *path);
/* Reads memory snapshots (pickles of plain data; nothing in them is ever run) and analyses them.
 * `*failed` (may be NULL): place in `paths` of the file that an error is about. Errors:
 * KS_ERR_FORMAT (no snapshot, damaged, or more than data), KS_ERR_LIMIT, KS_ERR_IO, KS_ERR_NOMEM,
 * KS_ERR_USAGE (neither one path nor two). */
KS_API KS_MUST_CHECK enum ks_status ks_memory_open(const struct ks_memory_options *options,
                                                   struct ks_memory **out, size_t *failed,
                                                   struct ks_err *err);
KS_API void ks_memory_close(struct ks_memory *memory); /* NULL is fine */
/* Errors: KS_ERR_IO (`write` gave false), KS_ERR_NOMEM. */
KS_API KS_MUST_CHECK enum ks_status ks_memory_write(const struct ks_memory *memory,
                                                    const struct ks_memory_style *style,
                                                    ks_write_cb write, void *user,
                                                    struct ks_err *err);

/* ------------------------------------------------------------------ looking at a machine */

/* One thing that `kscope doctor` looked at. `state`: "ok", "limited" (works, with less) or
 * "missing". Texts are static or outlive the call; `fix` NULL: nothing to do. */
struct ks_doctor_line {
    const char *id;
    const char *state;
    const char *found;
    const char *fix;
};

/* The JSON document {schema, checks[{id, state, found, fix}]}. */
KS_API KS_MUST_CHECK enum ks_status ks_doctor_write_json(const struct ks_doctor_line *lines,
                                                         size_t line_count, ks_write_cb write,
                                                         void *user, struct ks_err *err);

#ifdef __cplusplus
}
#endif
#endif
