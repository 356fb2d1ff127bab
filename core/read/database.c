#include "read/database.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/err.h"
#include "base/grow.h"
#include "base/text.h"

enum {
    VALUE_BYTES_MAX = 16 * 1024 * 1024,
    SQL_BYTES_MAX = 100000,
    NAME_SIZE = 64,      /* of tables that are looked up, with the zero */
    TABLES_MAX = 10000,  /* nsys writes about a hundred */
    ROW_BYTES_MIN = 4,   /* of the file: two of the cell, two that point to it */
    TREE_DEPTH_MAX = 20, /* SQLite's own limit */
    PAGE_LEAF = 13,
    PAGE_INTERIOR = 5,
    CACHE_KIB = 4096,
    VERSION_DIGITS_MAX = 3,
    WORK_INTERVAL = 100, /* instructions of SQLite between looks at the limits */
};

static const char MAGIC[] = "SQLite format 3"; /* with its zero */

struct table {
    char name[NAME_SIZE];
    uint32_t root; /* page */
    bool is_plain;
};

struct ks_database {
    sqlite3 *db;
    int fd; /* for a look at damaged pages */
    int64_t size;
    int64_t page_size;
    int64_t page_count; /* as the header says */
    int64_t work_done;  /* instructions of the statement that is run */
    int64_t pages_used; /* by it, each time that it looks at one */
    struct table *tables;
    size_t table_count;
    size_t table_capacity;
};

/* ------------------------------------------------------------------ the header */

bool ks_database_is_head(struct ks_str head)
{
    return head.len >= sizeof(MAGIC) && memcmp(head.ptr, MAGIC, sizeof(MAGIC)) == 0;
}

/* SQLite's numbers have their highest byte first. */
static uint32_t number_at(const unsigned char *bytes, size_t size)
{
    uint32_t number = 0;
    for (size_t i = 0; i < size; i++) {
        number = number << 8 | bytes[i];
    }
    return number;
}

static enum ks_status refuse_header(int64_t offset, const char *what, uint32_t value,
                                    struct ks_err *err)
{
    return ks_fail(err, KS_ERR_FORMAT, offset, "Cannot read database: page=1, %s=%u", what, value);
}

static enum ks_status check_header(struct ks_database *database, struct ks_str head,
                                   struct ks_err *err)
{
    const unsigned char *bytes = (const unsigned char *)head.ptr;
    if (head.len < KS_DATABASE_HEADER_SIZE) {
        return ks_fail(err, KS_ERR_FORMAT, (int64_t)head.len,
                       "Cannot read database: the file ends within its header");
    }
    uint32_t page_size = number_at(bytes + 16, 2);
    page_size = page_size == 1 ? 65536 : page_size;
    uint32_t schema_format = number_at(bytes + 44, 4);
    uint32_t encoding = number_at(bytes + 56, 4);
    if (page_size < 512 || (page_size & (page_size - 1)) != 0) {
        return refuse_header(16, "page_size", page_size, err);
    }
    if (bytes[19] < 1 || bytes[19] > 2) {
        return refuse_header(19, "read_version", bytes[19], err);
    }
    if (bytes[20] > 32) {
        return refuse_header(20, "reserved", bytes[20], err);
    }
    if (schema_format > 4) {
        return refuse_header(44, "schema_format", schema_format, err);
    }
    if (encoding > 3) {
        return refuse_header(56, "text_encoding", encoding, err);
    }
    database->page_size = page_size;
    database->page_count = number_at(bytes + 28, 4);
    return KS_OK;
}

int64_t ks_database_size(const struct ks_database *database)
{
    return database->page_count * database->page_size;
}

/* ------------------------------------------------------------------ damaged pages */

/* A page on the way down, and the child of it that comes next. */
struct step {
    uint32_t page;
    uint32_t child;
};

struct walk {
    const struct ks_database *database;
    unsigned char *bytes; /* one page */
    unsigned char *seen;  /* a bit for each page of the file */
    uint32_t pages;
    struct step path[TREE_DEPTH_MAX];
    size_t depth;
};

static size_t header_at(uint32_t page)
{
    return page == 1 ? KS_DATABASE_HEADER_SIZE : 0;
}

/* Type, number of cells and where they lie. */
static bool is_good_page(const struct walk *walk, uint32_t page)
{
    size_t size = (size_t)walk->database->page_size;
    const unsigned char *head = walk->bytes + header_at(page);
    size_t head_size = head[0] == PAGE_INTERIOR ? 12 : 8;
    uint32_t cells = number_at(head + 3, 2);
    size_t list_end = header_at(page) + head_size + cells * (size_t)2;
    if ((head[0] != PAGE_INTERIOR && head[0] != PAGE_LEAF) || list_end > size) {
        return false;
    }
    for (size_t i = 0; i < cells; i++) {
        size_t at = number_at(head + head_size + 2 * i, 2);
        if (at < list_end || at + ROW_BYTES_MIN > size) {
            return false;
        }
    }
    return true;
}

static bool load_page(struct walk *walk, uint32_t page)
{
    size_t size = (size_t)walk->database->page_size;
    off_t offset = (off_t)(page - 1) * (off_t)size;
    return pread(walk->database->fd, walk->bytes, size, offset) == (ssize_t)size &&
           is_good_page(walk, page);
}

/* Page of the child with this number; the last one stands in the head. 0: there is none. */
static uint32_t child_of(const struct walk *walk, uint32_t page, uint32_t child)
{
    const unsigned char *head = walk->bytes + header_at(page);
    uint32_t cells = number_at(head + 3, 2);
    if (head[0] != PAGE_INTERIOR || child > cells) {
        return 0;
    }
    return child == cells ? number_at(head + 8, 4)
                          : number_at(walk->bytes + number_at(head + 12 + (size_t)child * 2, 2), 4);
}

static bool is_new(struct walk *walk, uint32_t page)
{
    unsigned char bit = (unsigned char)(1 << (page - 1) % 8);
    unsigned char *byte = &walk->seen[(page - 1) / 8];
    bool was_seen = *byte & bit;
    *byte |= bit;
    return !was_seen;
}

/* First page of the tree that cannot be one of it, in the order of the rows; else its root. */
static uint32_t walk_tree(struct walk *walk, uint32_t root)
{
    walk->path[walk->depth++] = (struct step){.page = root};
    (void)is_new(walk, root);
    while (walk->depth > 0) {
        struct step *step = &walk->path[walk->depth - 1];
        if (!load_page(walk, step->page)) {
            return step->page;
        }
        uint32_t child = child_of(walk, step->page, step->child++);
        if (child == 0) {
            walk->depth--;
            continue;
        }
        if (child > walk->pages || !is_new(walk, child) || walk->depth == TREE_DEPTH_MAX) {
            return step->page;
        }
        walk->path[walk->depth++] = (struct step){.page = child};
    }
    return root;
}

static uint32_t find_damage(const struct ks_database *database, uint32_t root)
{
    int64_t pages = database->size / database->page_size;
    if (root == 0 || root > pages) {
        return 1; /* the schema names a page that is not there */
    }
    struct walk walk = {
        .database = database,
        .bytes = ks_alloc((size_t)database->page_size, 1),
        .seen = ks_alloc((size_t)pages / 8 + 1, 1),
        .pages = (uint32_t)pages,
    };
    uint32_t page = walk.bytes && walk.seen ? walk_tree(&walk, root) : root;
    ks_free(walk.bytes);
    ks_free(walk.seen);
    return page;
}

/* Pages that are named again and again make rows without end. */
static enum ks_status fail_size(const struct ks_database *database, const char *table,
                                uint32_t root, struct ks_err *err)
{
    uint32_t page = find_damage(database, root);
    return ks_fail(err, KS_ERR_LIMIT, (int64_t)(page - 1) * database->page_size,
                   "Cannot read database: table=\"%s\", page=%u: it has more rows or texts than "
                   "the file has bytes for",
                   table, page);
}

/* What SQLite said about a table, as an error of ours; `root` 1: the schema. */
static enum ks_status fail_table(const struct ks_database *database, const char *table,
                                 uint32_t root, int code, struct ks_err *err)
{
    if ((code & 0xFF) == SQLITE_NOMEM) {
        return ks_fail(err, KS_ERR_NOMEM, KS_NO_OFFSET, "Cannot read database: no memory");
    }
    if ((code & 0xFF) == SQLITE_IOERR || (code & 0xFF) == SQLITE_CANTOPEN) {
        return ks_fail(err, KS_ERR_IO, KS_NO_OFFSET, "Cannot read database: %s",
                       sqlite3_errstr(code));
    }
    if ((code & 0xFF) == SQLITE_INTERRUPT) {
        return fail_size(database, table, root, err);
    }
    uint32_t page = find_damage(database, root);
    return ks_fail(err, KS_ERR_FORMAT, (int64_t)(page - 1) * database->page_size,
                   "Cannot read database: table=\"%s\", page=%u: %.100s", table, page,
                   sqlite3_errmsg(database->db));
}

/* ------------------------------------------------------------------ opening */

/* Only rows of tables are read, and what columns there are. */
static int authorize(void *user, int action, const char *first, const char *second,
                     const char *database, const char *source)
{
    (void)user;
    (void)second;
    (void)database;
    bool is_inside = source != NULL; /* of a view or trigger */
    bool is_columns = action == SQLITE_PRAGMA && sqlite3_stricmp(first, "table_xinfo") == 0;
    bool is_reading = action == SQLITE_SELECT || action == SQLITE_READ;
    return !is_inside && (is_reading || is_columns) ? SQLITE_OK : SQLITE_DENY;
}

/* A statement reads each row and page once. A row takes at least ROW_BYTES_MIN bytes of the file,
 * and fewer instructions than its columns and eight; pages with long texts may be looked at for
 * several columns. What takes more is a tree or a chain that names the same pages again. */
static int check_work(void *user)
{
    static const int counters[] = {SQLITE_DBSTATUS_CACHE_HIT, SQLITE_DBSTATUS_CACHE_MISS};
    struct ks_database *database = user;
    int64_t work_max = database->size / ROW_BYTES_MIN * (KS_DATABASE_COLUMNS_MAX + 8) + 100000;
    int64_t pages_max = database->size / database->page_size * 8 + 1000;
    database->work_done += WORK_INTERVAL;
    for (size_t i = 0; i < KS_COUNT_OF(counters); i++) {
        int count = 0;
        int highest = 0;
        (void)sqlite3_db_status(database->db, counters[i], &count, &highest, 1);
        database->pages_used += count;
    }
    return database->work_done > work_max || database->pages_used > pages_max;
}

static void set_limits(sqlite3 *db)
{
    static const int limits[][2] = {
        {SQLITE_LIMIT_LENGTH, VALUE_BYTES_MAX},
        {SQLITE_LIMIT_SQL_LENGTH, SQL_BYTES_MAX},
        {SQLITE_LIMIT_COLUMN, 1000},
        {SQLITE_LIMIT_EXPR_DEPTH, 50},
        {SQLITE_LIMIT_COMPOUND_SELECT, 1},
        {SQLITE_LIMIT_ATTACHED, 0},
        {SQLITE_LIMIT_VARIABLE_NUMBER, 1},
        {SQLITE_LIMIT_TRIGGER_DEPTH, 1},
        {SQLITE_LIMIT_WORKER_THREADS, 0},
    };
    /* A schema that may be written is one whose errors do not end reading; the file cannot be. */
    static const int switches[][2] = {
        {SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0},
        {SQLITE_DBCONFIG_WRITABLE_SCHEMA, 1},
        {SQLITE_DBCONFIG_DQS_DML, 0},
        {SQLITE_DBCONFIG_DQS_DDL, 0},
        {SQLITE_DBCONFIG_ENABLE_TRIGGER, 0},
        {SQLITE_DBCONFIG_ENABLE_VIEW, 0},
        {SQLITE_DBCONFIG_ENABLE_LOAD_EXTENSION, 0},
        {SQLITE_DBCONFIG_ENABLE_FKEY, 0},
    };
    for (size_t i = 0; i < KS_COUNT_OF(limits); i++) {
        sqlite3_limit(db, limits[i][0], limits[i][1]);
    }
    for (size_t i = 0; i < KS_COUNT_OF(switches); i++) {
        (void)sqlite3_db_config(db, switches[i][0], switches[i][1], NULL);
    }
}

/* "file:PATH?mode=ro&immutable=1" with all bytes of the path that could mean something else
 * written as numbers. */
static void append_uri(struct ks_text *uri, const char *path)
{
    const char *at = path;
    while (at[0] == '/' && at[1] == '/') {
        at++; // two would begin the name of a machine
    }
    ks_text_append_str(uri, KS_STR("file:"));
    for (; *at; at++) {
        bool is_plain = isalnum((unsigned char)*at) || strchr("/._-", *at);
        ks_text_printf(uri, is_plain ? "%c" : "%%%02x", (unsigned char)*at);
    }
    ks_text_append_str(uri, KS_STR("?mode=ro&immutable=1"));
    ks_text_append(uri, "", 1);
}

static enum ks_status open_file(struct ks_database *database, const char *path, struct ks_err *err)
{
    struct ks_text uri;
    char cache[64];
    ks_text_init(&uri);
    append_uri(&uri, path);
    int code = SQLITE_NOMEM;
    if (!uri.failed) {
        code = sqlite3_open_v2(uri.ptr, &database->db,
                               SQLITE_OPEN_READONLY | SQLITE_OPEN_URI | SQLITE_OPEN_NOMUTEX |
                                   SQLITE_OPEN_PRIVATECACHE,
                               NULL);
    }
    ks_text_release(&uri);
    if (code != SQLITE_OK) {
        return code == SQLITE_NOMEM
                   ? ks_fail(err, KS_ERR_NOMEM, KS_NO_OFFSET, "Cannot open database: no memory")
                   : ks_fail(err, KS_ERR_IO, KS_NO_OFFSET, "Cannot open database: %s",
                             sqlite3_errstr(code));
    }
    set_limits(database->db);
    sqlite3_progress_handler(database->db, WORK_INTERVAL, check_work, database);
    snprintf(cache, sizeof(cache), "PRAGMA cache_size=-%d; PRAGMA mmap_size=0", CACHE_KIB);
    code = sqlite3_exec(database->db, cache, NULL, NULL, NULL);
    if (code == SQLITE_OK) {
        code = sqlite3_exec(database->db, "PRAGMA cell_size_check=ON", NULL, NULL, NULL);
    }
    (void)sqlite3_set_authorizer(database->db, authorize, NULL);
    return code == SQLITE_OK ? KS_OK : fail_table(database, "sqlite_schema", 1, code, err);
}

/* ------------------------------------------------------------------ the schema */

static bool is_word(const char *text, const char *word)
{
    return text && sqlite3_strnicmp(text, word, (int)strlen(word)) == 0;
}

/* A name that stands twice in the schema is none that we know what it means. */
static enum ks_status add_table(struct ks_database *database, const char *name, uint32_t root,
                                bool is_plain, struct ks_err *err)
{
    size_t len = strlen(name);
    for (size_t i = 0; i < database->table_count; i++) {
        struct table *known = &database->tables[i];
        if (sqlite3_stricmp(known->name, name) == 0) {
            known->is_plain = false;
            return KS_OK;
        }
    }
    if (len >= NAME_SIZE) {
        return KS_OK; // none that is looked up
    }
    if (database->table_count == TABLES_MAX) {
        return ks_fail(err, KS_ERR_LIMIT, 0, "Cannot read database: it has more than %d tables",
                       TABLES_MAX);
    }
    KS_TRY(ks_grow(&database->tables, database->table_count, &database->table_capacity,
                   sizeof(*database->tables), "tables", err));
    struct table *table = &database->tables[database->table_count++];
    *table = (struct table){.root = root, .is_plain = is_plain};
    memcpy(table->name, name, len + 1);
    return KS_OK;
}

/* SQLite makes of a row what its statement says, whatever its type and name say: what is no table,
 * index, view or trigger could be a virtual table by any name. */
static enum ks_status take_schema_row(struct ks_database *database, sqlite3_stmt *row,
                                      struct ks_err *err)
{
    const char *type = (const char *)sqlite3_column_text(row, 0);
    const char *name = (const char *)sqlite3_column_text(row, 1);
    int64_t root = sqlite3_column_int64(row, 2);
    const char *sql = (const char *)sqlite3_column_text(row, 3);
    bool is_table = is_word(sql, "CREATE TABLE");
    bool is_view = is_word(sql, "CREATE VIEW");
    bool is_other = !sql || is_word(sql, "CREATE INDEX") || is_word(sql, "CREATE UNIQUE INDEX") ||
                    is_word(sql, "CREATE TRIGGER");
    if (!is_table && !is_view && !is_other) {
        return ks_fail(err, KS_ERR_UNSUPPORTED, 0,
                       "Cannot read database: page=1, \"%.60s\" is neither a table nor a view",
                       name ? name : "");
    }
    if (!name || is_other) {
        return KS_OK;
    }
    bool is_plain = is_table && is_word(type, "table") && root > 1 && root <= UINT32_MAX;
    return add_table(database, name, is_plain ? (uint32_t)root : 0, is_plain, err);
}

static enum ks_status read_schema(struct ks_database *database, struct ks_err *err)
{
    sqlite3_stmt *statement = NULL;
    enum ks_status status = KS_OK;
    int code = sqlite3_prepare_v2(database->db,
                                  "SELECT type, name, rootpage, sql FROM sqlite_schema NOT INDEXED",
                                  -1, &statement, NULL);
    if (code == SQLITE_OK) {
        code = sqlite3_step(statement);
    }
    while (code == SQLITE_ROW && status == KS_OK) {
        status = take_schema_row(database, statement, err);
        code = sqlite3_errcode(database->db); // of the texts
        code = code == SQLITE_NOMEM || status != KS_OK ? code : sqlite3_step(statement);
    }
    bool is_lost =
        code != SQLITE_DONE && (database->table_count == 0 || (code & 0xFF) == SQLITE_NOMEM ||
                                (code & 0xFF) == SQLITE_INTERRUPT);
    if (status == KS_OK && is_lost) {
        status = fail_table(database, "sqlite_schema", 1, code, err);
    }
    (void)sqlite3_finalize(statement);
    return status;
}

enum ks_status ks_database_open(const char *path, struct ks_str head, int64_t size,
                                struct ks_database **out, struct ks_err *err)
{
    struct ks_database *database = ks_alloc(1, sizeof(*database));
    if (!database) {
        return ks_fail(err, KS_ERR_NOMEM, KS_NO_OFFSET, "Cannot open database: no memory");
    }
    database->size = size;
    database->fd = open(path, O_RDONLY | O_CLOEXEC);
    enum ks_status status =
        database->fd >= 0
            ? KS_OK
            : ks_fail(err, KS_ERR_IO, KS_NO_OFFSET, "Cannot open database: %s", strerror(errno));
    if (status == KS_OK) {
        status = check_header(database, head, err);
    }
    if (status == KS_OK) {
        status = open_file(database, path, err);
    }
    if (status == KS_OK) {
        status = read_schema(database, err);
    }
    if (status != KS_OK) {
        ks_database_close(database);
        return status;
    }
    *out = database;
    return KS_OK;
}

bool ks_database_is_written(const char *path)
{
    static const char *const endings[] = {"-journal", "-wal"};
    bool is_written = false;
    for (size_t i = 0; i < KS_COUNT_OF(endings); i++) {
        struct stat info;
        struct ks_text beside;
        ks_text_init(&beside);
        ks_text_printf(&beside, "%s%s", path, endings[i]);
        ks_text_append(&beside, "", 1);
        bool is_there = !beside.failed && stat(beside.ptr, &info) == 0 && info.st_size > 0;
        is_written = is_written || is_there;
        ks_text_release(&beside);
    }
    return is_written;
}

void ks_database_close(struct ks_database *database)
{
    if (!database) {
        return;
    }
    (void)sqlite3_close(database->db);
    if (database->fd >= 0) {
        (void)close(database->fd);
    }
    ks_free(database->tables);
    ks_free(database);
}

/* Number behind "NAME_V"; 0: the name itself; -1: another one. */
static int version_of(const char *table, const char *name)
{
    size_t len = strlen(name);
    if (sqlite3_strnicmp(table, name, (int)len) != 0) {
        return -1;
    }
    if (table[len] == '\0') {
        return 0;
    }
    const char *digits = table + len + 2;
    if (sqlite3_strnicmp(table + len, "_V", 2) != 0 || strlen(digits) > VERSION_DIGITS_MAX) {
        return -1;
    }
    int version = 0;
    for (const char *at = digits; *at; at++) {
        if (!isdigit((unsigned char)*at)) {
            return -1;
        }
        version = version * 10 + (*at - '0');
    }
    return *digits ? version : -1;
}

static const struct table *find_table(const struct ks_database *database, const char *name)
{
    const struct table *found = NULL;
    int best = -1;
    for (size_t i = 0; i < database->table_count; i++) {
        int version = version_of(database->tables[i].name, name);
        if (version > best) {
            best = version;
            found = &database->tables[i];
        }
    }
    return found;
}

const char *ks_database_find(const struct ks_database *database, const char *name, bool *is_plain)
{
    const struct table *table = find_table(database, name);
    *is_plain = table && table->is_plain;
    return table ? table->name : NULL;
}

void ks_database_each(const struct ks_database *database,
                      void (*visit)(void *user, const char *name), void *user)
{
    for (size_t i = 0; i < database->table_count; i++) {
        if (database->tables[i].is_plain) {
            visit(user, database->tables[i].name);
        }
    }
}

/* ------------------------------------------------------------------ rows */

/* Which of the columns the table has, and computes nothing for: `*found` of them in `sql`. */
static int choose_columns(struct ks_rows *rows, const char *const *columns, size_t column_count,
                          struct ks_text *sql, int *found)
{
    sqlite3_stmt *statement = NULL;
    char text[NAME_SIZE * 2 + 32];
    sqlite3_snprintf((int)sizeof(text), text, "PRAGMA table_xinfo(\"%w\")", rows->table);
    int code = sqlite3_prepare_v2(rows->database->db, text, -1, &statement, NULL);
    while (code == SQLITE_OK && (code = sqlite3_step(statement)) == SQLITE_ROW) {
        const char *name = (const char *)sqlite3_column_text(statement, 1);
        code = name ? SQLITE_OK : SQLITE_NOMEM;
        bool is_stored = sqlite3_column_int(statement, 6) == 0;
        for (size_t i = 0; i < column_count && name && is_stored; i++) {
            if (rows->columns[i] < 0 && sqlite3_stricmp(columns[i], name) == 0) {
                ks_text_printf(sql, "%s\"%s\"", *found > 0 ? ", " : "", columns[i]);
                rows->columns[i] = (*found)++;
            }
        }
    }
    (void)sqlite3_finalize(statement);
    return code == SQLITE_DONE ? SQLITE_OK : code;
}

static int prepare(struct ks_rows *rows, const char *const *columns, size_t column_count)
{
    struct ks_text sql;
    int found = 0;
    ks_text_init(&sql);
    ks_text_append_str(&sql, KS_STR("SELECT "));
    int code = choose_columns(rows, columns, column_count, &sql, &found);
    ks_text_printf(&sql, "%s FROM \"%s\" NOT INDEXED", found > 0 ? "" : "1", rows->table);
    ks_text_append(&sql, "", 1);
    sqlite3_stmt *statement = NULL;
    if (code == SQLITE_OK) {
        code = sql.failed ? SQLITE_NOMEM
                          : sqlite3_prepare_v2(rows->database->db, sql.ptr, -1, &statement, NULL);
    }
    rows->statement = statement;
    ks_text_release(&sql);
    return code;
}

enum ks_status ks_rows_open(struct ks_rows *rows, struct ks_database *database, const char *table,
                            const char *const *columns, size_t column_count, struct ks_err *err)
{
    const struct table *found = find_table(database, table);
    KS_ASSERT(found && found->is_plain && column_count <= KS_DATABASE_COLUMNS_MAX);
    *rows = (struct ks_rows){.database = database, .table = found->name, .root = found->root};
    for (size_t i = 0; i < KS_DATABASE_COLUMNS_MAX; i++) {
        rows->columns[i] = -1;
    }
    database->work_done = 0;
    database->pages_used = 0;
    int code = prepare(rows, columns, column_count);
    return code == SQLITE_OK ? KS_OK : fail_table(database, rows->table, rows->root, code, err);
}

static enum ks_status check_size(const struct ks_rows *rows, struct ks_err *err)
{
    uint64_t size = (uint64_t)rows->database->size;
    if (rows->count <= size / ROW_BYTES_MIN && rows->text_bytes / 2 <= size) { // 2: UTF-16
        return KS_OK;
    }
    return fail_size(rows->database, rows->table, rows->root, err);
}

enum ks_status ks_rows_next(struct ks_rows *rows, struct ks_err *err)
{
    KS_TRY(check_size(rows, err));
    int code = rows->is_short_of_memory ? SQLITE_NOMEM : sqlite3_step(rows->statement);
    if (code == SQLITE_ROW) {
        rows->count++;
        return KS_OK;
    }
    return code == SQLITE_DONE ? KS_END
                               : fail_table(rows->database, rows->table, rows->root, code, err);
}

void ks_rows_close(struct ks_rows *rows)
{
    (void)sqlite3_finalize(rows->statement);
    rows->statement = NULL;
}

bool ks_rows_has(const struct ks_rows *rows, size_t column)
{
    return rows->columns[column] >= 0;
}

bool ks_rows_int(const struct ks_rows *rows, size_t column, int64_t *value)
{
    int at = rows->columns[column];
    if (at < 0 || sqlite3_column_type(rows->statement, at) != SQLITE_INTEGER) {
        return false;
    }
    *value = sqlite3_column_int64(rows->statement, at);
    return true;
}

struct ks_str ks_rows_text(struct ks_rows *rows, size_t column)
{
    int at = rows->columns[column];
    if (at < 0 || sqlite3_column_type(rows->statement, at) != SQLITE_TEXT) {
        return (struct ks_str){0};
    }
    const char *text = (const char *)sqlite3_column_text(rows->statement, at);
    struct ks_str found = {text, text ? (size_t)sqlite3_column_bytes(rows->statement, at) : 0};
    rows->is_short_of_memory |= !text;
    rows->text_bytes += found.len;
    return found;
}
