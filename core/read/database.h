/* Tables of an SQLite database that anyone may have written, read row by row. The file is opened
 * read-only and as one that nobody changes; no view, trigger, virtual table, function, generated
 * column or extension of it is ever run, values and memory are bounded, and no table can have more
 * rows, or longer texts, than its file has bytes for. What is damaged is told by its page. */
#ifndef KS_READ_DATABASE_H
#define KS_READ_DATABASE_H

#include "base/str.h"

struct ks_database;

enum { KS_DATABASE_COLUMNS_MAX = 24, KS_DATABASE_HEADER_SIZE = 100 };

bool ks_database_is_head(struct ks_str head);

/* `head`: the first bytes of the file. Errors: KS_ERR_FORMAT (its header or schema), KS_ERR_IO,
 * KS_ERR_NOMEM, KS_ERR_UNSUPPORTED (it has virtual tables). */
enum ks_status ks_database_open(const char *path, struct ks_str head, int64_t size,
                                struct ks_database **out, struct ks_err *err) KS_MUST_CHECK;
void ks_database_close(struct ks_database *database); /* NULL is fine */
/* How many bytes the header says that the file has. */
int64_t ks_database_size(const struct ks_database *database);

/* A journal or WAL that is not empty lies beside the file: somebody writes it, or did not end. */
bool ks_database_is_written(const char *path);

/* Name of the table that is `name`, or `name` with the highest number behind _V; NULL: none. What
 * has the name and is no plain table gives `*is_plain` false. Good until close. */
const char *ks_database_find(const struct ks_database *database, const char *name, bool *is_plain);
/* Calls for each plain table. */
void ks_database_each(const struct ks_database *database,
                      void (*visit)(void *user, const char *name), void *user);

/* A pass over the rows of a table, in the order of the file. */
struct ks_rows {
    struct ks_database *database;
    void *statement;
    const char *table;
    uint32_t root;
    int columns[KS_DATABASE_COLUMNS_MAX]; /* of the statement; -1: the table lacks it */
    uint64_t count;
    uint64_t text_bytes;
    bool is_short_of_memory; /* a text could not be given: the next row is an error */
};

/* `table` as ks_database_find gives it; columns that it lacks have no value in any row. */
enum ks_status ks_rows_open(struct ks_rows *rows, struct ks_database *database, const char *table,
                            const char *const *columns, size_t column_count, struct ks_err *err)
    KS_MUST_CHECK;
/* KS_OK: a row; KS_END: no more; KS_ERR_FORMAT and KS_ERR_LIMIT: the table is damaged here. */
enum ks_status ks_rows_next(struct ks_rows *rows, struct ks_err *err) KS_MUST_CHECK;
void ks_rows_close(struct ks_rows *rows);                    /* also after an error */
bool ks_rows_has(const struct ks_rows *rows, size_t column); /* has the table this column? */
/* False: missing, NULL, or no integer. */
bool ks_rows_int(const struct ks_rows *rows, size_t column, int64_t *value);
/* Good until next; empty when it is no text. */
struct ks_str ks_rows_text(struct ks_rows *rows, size_t column);

#endif
