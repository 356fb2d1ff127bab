/* The head of a rule: lines of comments `-- key: value` before the SELECT, and lines `--   more`
 * that go on with the value above. */
#include "rules/user_rule.h"

#include "base/err.h"
#include "base/text.h"

enum { BLANKS_OF_MORE = 2, INDENT_OF_MORE = 3, HEAD_LINE_MAX = 2000 };

enum key { KEY_ID, KEY_TITLE, KEY_IMPACT, KEY_SEVERITY, KEY_FIX, KEY_CODE, KEY_VERIFY, KEY_COUNT };

static const char *const key_names[KEY_COUNT] = {"id",  "title", "impact", "severity",
                                                 "fix", "code",  "verify"};

/* What stands behind a key. */
struct value {
    struct ks_text text;
    size_t line; /* 0: not given */
};

struct head {
    const char *name; /* of the file */
    struct value values[KEY_COUNT];
    struct value *open; /* that lines of more belong to; NULL: none */
};

static enum ks_status fail(const char *name, size_t line, struct ks_err *err, const char *what)
{
    return ks_fail(err, KS_ERR_USAGE, KS_NO_OFFSET, "Cannot use rule: %.80s:%zu: %s", name, line,
                   what);
}

/* ------------------------------------------------------------------ lines */

/* Takes a line off, without its end. */
static bool next_line(struct ks_str *rest, struct ks_str *line)
{
    if (rest->len == 0) {
        return false;
    }
    const char *end = memchr(rest->ptr, '\n', rest->len);
    size_t len = end ? (size_t)(end - rest->ptr) : rest->len;
    size_t taken = end ? len + 1 : len;
    *line = (struct ks_str){rest->ptr, len > 0 && rest->ptr[len - 1] == '\r' ? len - 1 : len};
    *rest = (struct ks_str){rest->ptr + taken, rest->len - taken};
    return true;
}

static size_t blanks_of(struct ks_str s)
{
    size_t count = 0;
    while (count < s.len && (s.ptr[count] == ' ' || s.ptr[count] == '\t')) {
        count++;
    }
    return count;
}

static struct ks_str cut(struct ks_str s, size_t count)
{
    return (struct ks_str){s.ptr + count, s.len - count};
}

static struct ks_str trim(struct ks_str s)
{
    s = cut(s, blanks_of(s));
    while (s.len > 0 && (s.ptr[s.len - 1] == ' ' || s.ptr[s.len - 1] == '\t')) {
        s.len--;
    }
    return s;
}

/* Length of the word before a colon at the start, 0 without one: "id: x" has 2. */
static size_t key_len(struct ks_str s)
{
    size_t len = 0;
    while (len < s.len && ((s.ptr[len] >= 'a' && s.ptr[len] <= 'z') || s.ptr[len] == '_')) {
        len++;
    }
    return len < s.len && s.ptr[len] == ':' ? len : 0;
}

/* ------------------------------------------------------------------ the head */

/* `--   more`: behind a blank in texts, on a line of its own in code. */
static void add_more(struct head *head, struct ks_str line)
{
    struct value *value = head->open;
    bool is_code = value == &head->values[KEY_CODE];
    size_t blanks = blanks_of(line);
    struct ks_str more =
        is_code ? cut(line, blanks < INDENT_OF_MORE ? blanks : INDENT_OF_MORE) : trim(line);
    if (value->text.len > 0) {
        ks_text_append(&value->text, is_code ? "\n" : " ", 1);
    }
    ks_text_append_str(&value->text, more);
}

static enum ks_status add_key(struct head *head, struct ks_str line, size_t len, size_t number,
                              struct ks_err *err)
{
    struct ks_str name = {line.ptr, len};
    size_t key = 0;
    while (key < KEY_COUNT && !ks_str_equal(name, ks_str_from(key_names[key]))) {
        key++;
    }
    if (key == KEY_COUNT) {
        return fail(head->name, number, err,
                    "this key is unknown: keys are id, title, impact, severity, fix, code, verify");
    }
    head->open = &head->values[key];
    if (head->open->line != 0) {
        return fail(head->name, number, err, "this key comes twice");
    }
    head->open->line = number;
    ks_text_append_str(&head->open->text, trim(cut(line, len + 1)));
    return KS_OK;
}

/* One line behind "--". */
static enum ks_status add_line(struct head *head, struct ks_str line, size_t number,
                               struct ks_err *err)
{
    size_t blanks = blanks_of(line);
    struct ks_str words = cut(line, blanks);
    if (line.len > HEAD_LINE_MAX) {
        return fail(head->name, number, err, "the line is too long: 2,000 bytes are allowed");
    }
    if (head->open && blanks >= BLANKS_OF_MORE && words.len > 0) {
        add_more(head, line);
        return KS_OK;
    }
    size_t len = key_len(words);
    if (len > 0) {
        return add_key(head, words, len, number, err);
    }
    head->open = NULL; // a remark
    return KS_OK;
}

/* Gives the line at which the statement begins. */
static enum ks_status read_head(struct head *head, struct ks_str text, size_t *sql_line,
                                struct ks_err *err)
{
    struct ks_str line;
    size_t number = 0;
    while (next_line(&text, &line)) {
        number++;
        struct ks_str words = trim(line);
        if (words.len == 0) {
            head->open = NULL;
        } else if (ks_str_starts(words, KS_STR("--"))) {
            KS_TRY(add_line(head, cut(words, 2), number, err));
        } else {
            *sql_line = number;
            return KS_OK;
        }
    }
    return fail(head->name, number ? number : 1, err, "there is no SELECT behind the head");
}

/* ------------------------------------------------------------------ values */

static bool is_in(char c, char first, char last)
{
    return c >= first && c <= last;
}

/* As ours: "input.starved". */
static bool is_id(struct ks_str id)
{
    const char *dot = id.len > 0 ? memchr(id.ptr, '.', id.len) : NULL;
    size_t before = dot ? (size_t)(dot - id.ptr) : 0;
    if (before == 0 || before + 1 == id.len || id.len > KS_USER_ID_MAX) {
        return false;
    }
    for (size_t i = 0; i < id.len; i++) {
        char c = id.ptr[i];
        bool is_good = is_in(c, 'a', 'z') || c == '_' || (i > before && is_in(c, '0', '9'));
        if (i != before && !is_good) {
            return false;
        }
    }
    return true;
}

static bool is_ours(struct ks_str id)
{
    for (size_t i = 0; ks_rule_at(i); i++) {
        if (ks_str_equal(id, ks_str_from(ks_rule_at(i)->id))) {
            return true;
        }
    }
    return false;
}

static struct ks_str str_of(const struct value *value)
{
    return (struct ks_str){value->text.ptr ? value->text.ptr : "", value->text.len};
}

static enum ks_status check_id(const struct head *head, struct ks_err *err)
{
    const struct value *id = &head->values[KEY_ID];
    if (id->line == 0) {
        return fail(head->name, 1, err, "its head has no line `-- id: team.what_is_wrong`");
    }
    if (!is_id(str_of(id))) {
        return fail(head->name, id->line, err,
                    "an id has two parts of a-z, 0-9 and _ with a dot between, as team.slow_mask");
    }
    return is_ours(str_of(id)) ? fail(head->name, id->line, err, "a rule of kscope has this id")
                               : KS_OK;
}

static enum ks_status check_texts(const struct head *head, struct ks_err *err)
{
    static const enum key needed[] = {KEY_TITLE, KEY_FIX};
    for (size_t i = 0; i < KS_COUNT_OF(needed); i++) {
        const struct value *value = &head->values[needed[i]];
        if (value->text.len == 0) {
            return fail(head->name, value->line ? value->line : 1, err,
                        needed[i] == KEY_TITLE ? "its head has no title" : "its head has no fix");
        }
    }
    return KS_OK;
}

/* Index of the word, `count` when it is none; 0 when the key is not there. */
static size_t word_of(const struct value *value, const char *const *words, size_t count)
{
    size_t i = 0;
    while (value->line != 0 && i < count && !ks_str_equal(str_of(value), ks_str_from(words[i]))) {
        i++;
    }
    return i;
}

static enum ks_status read_words(const struct head *head, struct ks_rule *rule, struct ks_err *err)
{
    static const char *const impacts[] = {"time", "memory", "risk"};
    static const char *const severities[] = {"low", "medium", "high"};
    const struct value *impact = &head->values[KEY_IMPACT];
    const struct value *severity = &head->values[KEY_SEVERITY];
    size_t at = word_of(impact, impacts, KS_COUNT_OF(impacts));
    if (at == KS_COUNT_OF(impacts)) {
        return fail(head->name, impact->line, err, "impact must be time, memory or risk");
    }
    rule->impact = (enum ks_impact)at;
    at = word_of(severity, severities, KS_COUNT_OF(severities));
    if (at == KS_COUNT_OF(severities)) {
        return fail(head->name, severity->line, err, "severity must be low, medium or high");
    }
    rule->has_severity = severity->line != 0;
    rule->severity = (enum ks_severity)at;
    return KS_OK;
}

/* ------------------------------------------------------------------ the whole */

static struct ks_user_text keep(const struct value *value, struct ks_arena *arena, bool *is_good)
{
    if (value->line == 0) {
        return (struct ks_user_text){0};
    }
    struct ks_str text = str_of(value);
    const char *copy = ks_arena_copy(arena, text.ptr, text.len);
    *is_good = *is_good && copy;
    return (struct ks_user_text){{copy, text.len}, value->line};
}

static enum ks_status fill(struct ks_user_rule *rule, const struct head *head,
                           struct ks_arena *arena, struct ks_err *err)
{
    bool is_good = true;
    for (size_t i = 0; i < KEY_COUNT; i++) {
        is_good = is_good && !head->values[i].text.failed;
    }
    rule->rule.id = keep(&head->values[KEY_ID], arena, &is_good).text.ptr;
    rule->rule.title = keep(&head->values[KEY_TITLE], arena, &is_good).text.ptr;
    rule->fix = keep(&head->values[KEY_FIX], arena, &is_good);
    rule->code = keep(&head->values[KEY_CODE], arena, &is_good);
    rule->verify = keep(&head->values[KEY_VERIFY], arena, &is_good);
    return is_good ? KS_OK
                   : ks_fail(err, KS_ERR_NOMEM, KS_NO_OFFSET, "Cannot keep rule: no memory");
}

static enum ks_status parse(struct ks_user_rule *rule, struct head *head, struct ks_arena *arena,
                            struct ks_err *err)
{
    KS_TRY(read_head(head, rule->sql, &rule->sql_line, err));
    KS_TRY(check_id(head, err));
    KS_TRY(check_texts(head, err));
    KS_TRY(read_words(head, &rule->rule, err));
    return fill(rule, head, arena, err);
}

/* Reports, Markdown and SARIF hold these texts: they must be text. */
static enum ks_status check_utf8(const char *name, struct ks_str text, struct ks_err *err)
{
    size_t line = 1;
    for (size_t i = 0; i < text.len;) {
        size_t len = ks_utf8_sequence((const unsigned char *)text.ptr + i, text.len - i);
        if (len == 0 || text.ptr[i] == '\0') {
            return fail(name, line, err, len == 0 ? "this is no UTF-8" : "a NUL byte stands here");
        }
        line += text.ptr[i] == '\n';
        i += len;
    }
    return KS_OK;
}

enum ks_status ks_user_rule_parse(struct ks_user_rule *rule, const char *name, struct ks_str text,
                                  struct ks_arena *arena, struct ks_err *err)
{
    static const char mark[] = "\xEF\xBB\xBF"; // that some editors put before UTF-8
    struct head head = {.name = name};
    *rule = (struct ks_user_rule){.name = name};
    rule->sql = ks_str_starts(text, ks_str_from(mark)) ? cut(text, 3) : text;
    KS_TRY(check_utf8(name, rule->sql, err));
    for (size_t i = 0; i < KEY_COUNT; i++) {
        ks_text_init(&head.values[i].text);
    }
    enum ks_status status = parse(rule, &head, arena, err);
    for (size_t i = 0; i < KEY_COUNT; i++) {
        ks_text_release(&head.values[i].text);
    }
    return status;
}
