/* From trees of call paths to the dictionary of pstats, function by function and caller by caller.
 * A call inside another one of the same function has its time in that one's already, so cumulative
 * times take the outermost alone; the same holds for a function as called by one caller. */
#include <string.h>

#include "functions.h"

struct sums {
    uint64_t calls;
    uint64_t outer_calls; /* not inside another call of the same */
    double own_seconds;
    double outer_seconds;
    uint32_t open; /* while the tree is walked */
    uint32_t function;
    uint32_t caller; /* 0: of all callers */
};

struct sum_table {
    struct sums *rows; /* row 0 is not used */
    uint32_t count;
    uint32_t capacity;
    struct ks_functions_map numbers; /* by (caller, function) */
    uint64_t now_tick;               /* these two: of the tree that is walked */
    double seconds_per_tick;
};

static uint64_t key_of(uint32_t caller, uint32_t function)
{
    return (uint64_t)caller << 32 | function;
}

/* Number of the row, new or not; 0: no memory. */
static uint32_t get_row(struct sum_table *table, uint32_t caller, uint32_t function)
{
    uint64_t key = key_of(caller, function);
    uint32_t number = (uint32_t)ks_functions_map_find(&table->numbers, key);
    if (number != 0) {
        return number;
    }
    if (table->count == table->capacity) {
        uint32_t capacity = table->capacity ? table->capacity * 2 : 1024;
        struct sums *rows = PyMem_RawRealloc(table->rows, capacity * sizeof(*rows));
        if (!rows) {
            return 0;
        }
        table->rows = rows;
        table->capacity = capacity;
    }
    if (ks_functions_map_add(&table->numbers, key, table->count) < 0) {
        return 0;
    }
    table->rows[table->count] = (struct sums){.function = function, .caller = caller};
    return table->count++;
}

static bool is_outside(const struct ks_call_node *node)
{
    return node->function != KS_FUNCTION_OTHER && !node->parent->key && node->parent->parent;
}

/* Time of the call that is open, which no counter has yet. Calls beyond the limit are left out. */
static uint64_t open_ticks(const struct ks_call_node *node, uint64_t now)
{
    const struct ks_wire_node *counts = node->counts;
    bool is_open = counts->open > 0 && node->key && !is_outside(node);
    return is_open && now > counts->open_tick ? now - counts->open_tick : 0;
}

static void add_node(struct sums *row, const struct ks_call_node *node, uint64_t open, double rate)
{
    const struct ks_wire_node *counts = node->counts;
    // In the middle of a call the child's time can be counted and its own not yet.
    int64_t own = (int64_t)(counts->total_ticks + open - counts->child_ticks);
    row->calls += counts->calls;
    row->own_seconds += (double)own * rate;
    if (row->open > 0) {
        return;
    }
    uint64_t ticks = is_outside(node) ? node->outer_ticks : counts->total_ticks + open;
    row->outer_calls += is_outside(node) ? node->outer_calls : counts->calls;
    row->outer_seconds += (double)ticks * rate;
}

/* Row of a node as called by its parent; a root has no caller. */
static uint32_t edge_of(struct sum_table *table, const struct ks_call_node *node)
{
    return node->parent->function == 0 ? 0 : get_row(table, node->parent->function, node->function);
}

static int begin_node(struct sum_table *table, const struct ks_call_node *node)
{
    uint32_t all = get_row(table, 0, node->function);
    uint32_t edge = all ? edge_of(table, node) : 0;
    if (all == 0 || (edge == 0 && node->parent->function != 0)) {
        return -1;
    }
    uint64_t open = open_ticks(node, table->now_tick);
    add_node(&table->rows[all], node, open, table->seconds_per_tick);
    table->rows[all].open++;
    if (edge != 0) {
        add_node(&table->rows[edge], node, open, table->seconds_per_tick);
        table->rows[edge].open++;
    }
    // An open call is inside its parent's, whose own time it is not.
    const struct ks_call_node *parent = node->parent;
    if (open > 0 && parent->function != 0) {
        uint32_t parent_edge = edge_of(table, parent);
        double seconds = (double)open * table->seconds_per_tick;
        table->rows[get_row(table, 0, parent->function)].own_seconds -= seconds;
        if (parent_edge != 0) {
            table->rows[parent_edge].own_seconds -= seconds;
        }
    }
    return 0;
}

static void end_node(struct sum_table *table, const struct ks_call_node *node)
{
    uint32_t edge = edge_of(table, node);
    table->rows[get_row(table, 0, node->function)].open--;
    if (edge != 0) {
        table->rows[edge].open--;
    }
}

/* Depth first, so that what is open in `table` is the path to the node. A chain can be as deep as
 * the program's recursion: no recursion here. */
static int add_tree(struct sum_table *table, const struct ks_call_tree *tree)
{
    const struct ks_call_node *node = tree->root.first_child;
    while (node) {
        if (begin_node(table, node) < 0) {
            return -1;
        }
        if (node->first_child) {
            node = node->first_child;
            continue;
        }
        end_node(table, node);
        while (!node->next_sibling && node->parent != &tree->root) {
            node = node->parent;
            end_node(table, node);
        }
        node = node->next_sibling;
    }
    return 0;
}

/* ------------------------------------------------------------------ to Python */

static PyObject *label_of(const struct ks_function *row)
{
    return Py_BuildValue("(OiO)", row->file, row->first_line, row->name);
}

/* (first calls, second calls, own seconds, cumulative seconds), added to `before` when that is
 * there. pstats has both numbers of calls of a function in another order than those of a caller. */
static PyObject *numbers_of(const struct sums *row, PyObject *before)
{
    unsigned long long first = row->caller ? row->calls : row->outer_calls;
    unsigned long long second = row->caller ? row->outer_calls : row->calls;
    double own = row->own_seconds;
    double cumulative = row->outer_seconds;
    if (before) {
        first += PyLong_AsUnsignedLongLong(PyTuple_GET_ITEM(before, 0));
        second += PyLong_AsUnsignedLongLong(PyTuple_GET_ITEM(before, 1));
        own += PyFloat_AS_DOUBLE(PyTuple_GET_ITEM(before, 2));
        cumulative += PyFloat_AS_DOUBLE(PyTuple_GET_ITEM(before, 3));
    }
    if (row->caller) {
        return Py_BuildValue("(KKdd)", first, second, own, cumulative);
    }
    PyObject *callers = before ? Py_NewRef(PyTuple_GET_ITEM(before, 4)) : PyDict_New();
    return callers ? Py_BuildValue("(KKddN)", first, second, own, cumulative, callers) : NULL;
}

/* Two code objects can have one label: two lambdas of a line, a function that is made again. */
static int add_numbers(PyObject *into, PyObject *label, const struct sums *row)
{
    PyObject *before = PyDict_GetItemWithError(into, label); // borrowed
    PyObject *numbers = PyErr_Occurred() ? NULL : numbers_of(row, before);
    int status = numbers ? PyDict_SetItem(into, label, numbers) : -1;
    Py_XDECREF(numbers);
    return status;
}

static int add_row_to(PyObject *stats, const struct ks_function_table *functions,
                      const struct sums *row)
{
    PyObject *label = label_of(&functions->rows[row->function]);
    if (!label) {
        return -1;
    }
    int status = -1;
    if (row->caller == 0) {
        status = add_numbers(stats, label, row);
    } else {
        PyObject *caller = label_of(&functions->rows[row->caller]);
        PyObject *entry = PyDict_GetItemWithError(stats, label); // borrowed
        if (caller && entry) {
            status = add_numbers(PyTuple_GET_ITEM(entry, 4), caller, row);
        }
        Py_XDECREF(caller);
    }
    Py_DECREF(label);
    return status;
}

static PyObject *make_dict(const struct sum_table *table, const struct ks_function_table *functions)
{
    PyObject *stats = PyDict_New();
    // Functions first: rows of callers go into theirs.
    for (int want_callers = 0; stats && want_callers < 2; want_callers++) {
        for (uint32_t i = 1; i < table->count; i++) {
            const struct sums *row = &table->rows[i];
            if ((row->caller != 0) == want_callers && add_row_to(stats, functions, row) < 0) {
                Py_DECREF(stats);
                return NULL;
            }
        }
    }
    return stats;
}

static int add_trees(struct sum_table *table, PyObject *threads)
{
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(threads); i++) {
        struct ks_function_thread *thread =
            (struct ks_function_thread *)PyList_GET_ITEM(threads, i);
        // After a fork its nodes are not there to be read.
        if (ks_call_tree_is_stale(&thread->tree)) {
            ks_call_tree_restart(&thread->tree);
        }
        table->now_tick = ks_functions_tick(thread->tree.is_tsc);
        table->seconds_per_tick = ks_functions_seconds_per_tick(thread->tree.is_tsc);
        for (const struct ks_call_tree *tree = &thread->tree; tree; tree = tree->earlier) {
            if (add_tree(table, tree) < 0) {
                return -1;
            }
        }
    }
    return 0;
}

PyObject *ks_functions_stats(struct ks_function_profiler *self)
{
    struct sum_table table = {.count = 1};
    PyObject *stats = NULL;
    if (!(table.rows = PyMem_RawCalloc(1024, sizeof(*table.rows)))) {
        return PyErr_NoMemory();
    }
    table.capacity = 1024;
    if (add_trees(&table, self->threads) < 0) {
        PyErr_NoMemory();
    } else {
        stats = make_dict(&table, &self->shared.table);
    }
    PyMem_RawFree(table.rows);
    ks_functions_map_release(&table.numbers);
    return stats;
}
