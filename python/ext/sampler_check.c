#include "python/ext/sampler.h"

#include <dlfcn.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "capture/sampler/stack_look.h"
#include "capture/sampler/thread_table.h"

static const char MISMATCH[] = "Stacks of this Python cannot be read: %s.";

/* Calls `check` from all kinds of places; the names are of one, two and four bytes a character. */
static const char PROGRAM[] =
    "def at_depth(count, check):\n"
    "    return at_depth(count - 1, check) if count else check()\n"
    "def generator(check):\n"
    "    yield at_depth(2, check)\n"
    "def \xc3\xa9t\xc3\xa9(check):\n"
    "    return [check() for _ in range(2)]\n"
    "def \xe5\x90\x8d(check):\n"
    "    return max([1], key=lambda _: (at_depth(1, check), 1)[1])\n"
    "def \xf0\x90\x90\x80(check):\n"
    "    return list(generator(check))\n"
    "class Caller:\n"
    "    def __init__(self, check):\n"
    "        at_depth(1, check)\n"
    "    @property\n"
    "    def value(self):\n"
    "        return at_depth(1, self.check)\n"
    "for count in (0, 1, 7, 300):\n"
    "    at_depth(count, check)\n"
    "for _ in range(12):\n"
    "    \xc3\xa9t\xc3\xa9(check), \xe5\x90\x8d(check), \xf0\x90\x90\x80(check)\n"
    "    caller = Caller(check)\n"
    "    caller.check = check\n"
    "    caller.value\n"
    "    for _ in generator(check):\n"
    "        pass\n";

struct check {
    const struct ks_python_layout *layout;
    struct ks_stack_look *look;
    struct ks_python_thread thread;
    struct ks_frame_hints hints;
    struct ks_code_reading reading;
    int count; /* how often it was called */
};

static PyObject *mismatch(const char *what)
{
    return PyErr_Format(PyExc_RuntimeError, MISMATCH, what);
}

/* ------------------------------------------------------------------ opcodes */

/* Instructions that push the frame of a Python function without a C function in between. */
static bool pushes_frames(const char *name)
{
    static const char *const NAMES[] = {"CALL",      "CALL_FUNCTION_EX", "CALL_KW", "BINARY_SUBSCR",
                                        "LOAD_ATTR", "FOR_ITER",         "SEND"};
    for (size_t i = 0; i < sizeof(NAMES) / sizeof(*NAMES); i++) {
        if (strcmp(name, NAMES[i]) == 0) {
            return true;
        }
    }
    return false;
}

/* How many units of cache stand behind an instruction of that name; -1: an exception is set. The
 * interpreter's table is a list by number up to 3.12 and a dict by name from 3.13 on. */
static long cache_units(PyObject *caches, PyObject *opmap, PyObject *name)
{
    PyObject *count = NULL;
    if (PyDict_Check(caches)) {
        count = PyDict_GetItemWithError(caches, name);
    } else {
        PyObject *number = PyDict_GetItemWithError(opmap, name);
        long at = number ? PyLong_AsLong(number) : -1;
        count = at >= 0 && PyList_Check(caches) && at < PyList_GET_SIZE(caches)
                    ? PyList_GET_ITEM(caches, at)
                    : NULL;
    }
    if (PyErr_Occurred()) {
        return -1;
    }
    return count ? PyLong_AsLong(count) : 0;
}

static int take_opcode(struct ks_python_opcodes *opcodes, PyObject *number, PyObject *base,
                       PyObject *caches, PyObject *opmap)
{
    long opcode = PyLong_AsLong(number);
    const char *name = PyUnicode_AsUTF8(base);
    long units = name ? cache_units(caches, opmap, base) : -1;
    if (PyErr_Occurred()) {
        return -1;
    }
    if (opcode >= 0 && opcode < KS_PYTHON_OPCODES && units >= 0 &&
        units < KS_PYTHON_CACHE_UNKNOWN) {
        opcodes->cache_units[opcode] = (uint8_t)units;
        opcodes->enters_python[opcode] = pushes_frames(name);
    }
    return 0;
}

/* Instructions as they are written, and those that tools put in their place. */
static int take_plain(struct ks_python_opcodes *opcodes, PyObject *caches, PyObject *opmap)
{
    static const char PREFIX[] = "INSTRUMENTED_";
    PyObject *name, *number;
    Py_ssize_t at = 0;
    while (PyDict_Next(opmap, &at, &name, &number)) {
        const char *text = PyUnicode_AsUTF8(name);
        if (!text) {
            return -1;
        }
        if (strcmp(text, "ENTER_EXECUTOR") == 0 || strcmp(text, "INSTRUMENTED_LINE") == 0 ||
            strcmp(text, "INSTRUMENTED_INSTRUCTION") == 0) {
            continue; // it hides another one
        }
        size_t skipped = strncmp(text, PREFIX, sizeof(PREFIX) - 1) == 0 ? sizeof(PREFIX) - 1 : 0;
        PyObject *base = PyUnicode_FromString(text + skipped);
        int failed = !base || take_opcode(opcodes, number, base, caches, opmap) != 0;
        Py_XDECREF(base);
        if (failed) {
            return -1;
        }
    }
    return 0;
}

/* What the interpreter replaces instructions by once it knows its operands. */
static int take_specialized(struct ks_python_opcodes *opcodes, PyObject *families, PyObject *caches,
                            PyObject *opmap)
{
    PyObject *base, *members;
    Py_ssize_t at = 0;
    while (PyDict_Next(families, &at, &base, &members)) {
        Py_ssize_t count = PyList_Check(members) ? PyList_GET_SIZE(members) : 0;
        for (Py_ssize_t i = 0; i < count; i++) {
            PyObject *number = PyDict_GetItemWithError(opmap, PyList_GET_ITEM(members, i));
            if (number ? take_opcode(opcodes, number, base, caches, opmap) != 0
                       : PyErr_Occurred() != NULL) {
                return -1;
            }
        }
    }
    return 0;
}

static PyObject *attribute(const char *module_name, const char *name)
{
    PyObject *module = PyImport_ImportModule(module_name);
    PyObject *value = module ? PyObject_GetAttrString(module, name) : NULL;
    Py_XDECREF(module);
    return value;
}

static int find_opcodes(struct ks_python_opcodes *opcodes)
{
    PyObject *opmap = attribute("dis", "_all_opmap");
    PyObject *families = opmap ? attribute("opcode", "_specializations") : NULL;
    PyObject *caches = families ? attribute("opcode", "_inline_cache_entries") : NULL;
    int failed = -1;
    memset(opcodes->cache_units, KS_PYTHON_CACHE_UNKNOWN, sizeof(opcodes->cache_units));
    if (caches && PyDict_Check(opmap) && PyDict_Check(families)) {
        failed = take_plain(opcodes, caches, opmap);
        failed = failed ? failed : take_specialized(opcodes, families, caches, opmap);
    }
    Py_XDECREF(opmap);
    Py_XDECREF(families);
    Py_XDECREF(caches);
    if (failed) {
        PyErr_Clear();
        (void)mismatch("it does not tell its instructions");
    }
    return failed;
}

/* ------------------------------------------------------------------ comparing */

static bool is_text(PyObject *object, const char *text, size_t len)
{
    Py_ssize_t want_len = 0;
    const char *want = PyUnicode_AsUTF8AndSize(object, &want_len);
    return want && (size_t)want_len == len && memcmp(want, text, len) == 0;
}

/* NULL: frame `i` is as the interpreter says. */
static const char *compare_code(struct check *check, uint32_t i, PyFrameObject *frame,
                                PyCodeObject *code)
{
    const struct ks_python_frame *found = &check->look->reader.frames[i];
    struct ks_code_reading *reading = &check->reading;
    reading->header = check->look->headers[i];
    if (found->code != (uintptr_t)code) {
        return "another function was found";
    }
    if (!ks_code_header_unit(check->layout, &reading->header, found->instruction, &reading->unit) ||
        reading->unit * 2 != PyFrame_GetLasti(frame)) {
        return "another instruction was found";
    }
    if (!ks_code_table_read(&check->look->codes, &check->look->reader.memory,
                            KS_FRAME_READER_OTHER_AT, KS_FRAME_READER_OTHER_SIZE, reading)) {
        return "names were not found";
    }
    if (!is_text(code->co_qualname, reading->name, reading->name_len) ||
        !is_text(code->co_filename, reading->file, reading->file_len)) {
        return "other names were found";
    }
    if ((int)reading->place.line != PyFrame_GetLineNumber(frame)) {
        return "another line was found";
    }
    bool is_caller = i > 0 && !check->look->reader.frames[i - 1].is_from_c;
    return is_caller && !reading->place.may_call ? "a caller was not at a call" : NULL;
}

static const char *compare_stack(struct check *check)
{
    PyFrameObject *frame = PyEval_GetFrame();
    Py_XINCREF(frame);
    const char *wrong = NULL;
    uint32_t i = 0;
    for (; frame && !wrong; i++) {
        PyCodeObject *code = PyFrame_GetCode(frame);
        PyFrameObject *back = PyFrame_GetBack(frame);
        wrong = i < check->look->reader.count ? compare_code(check, i, frame, code)
                                              : "frames are missing";
        Py_DECREF(code);
        Py_DECREF(frame);
        frame = back;
    }
    Py_XDECREF(frame);
    return wrong || i == check->look->reader.count ? wrong : "there were frames too many";
}

static const char *look_and_compare(struct check *check)
{
    enum ks_frames_state state = ks_stack_look_frames(check->look, &check->thread, &check->hints);
    if (state == KS_FRAMES_GONE) {
        return "the thread was not found";
    }
    if (state != KS_FRAMES_READ) {
        return "no whole stack was found";
    }
    if (!check->look->reader.holds_gil) {
        return "the lock of the interpreter was not found";
    }
    return compare_stack(check);
}

static PyObject *check_here(PyObject *self, PyObject *unused)
{
    (void)unused;
    struct check *check = PyCapsule_GetPointer(self, NULL);
    if (!check) {
        return NULL;
    }
    const char *wrong = look_and_compare(check);
    check->count++;
    if (wrong) {
        return PyErr_Occurred() ? NULL : mismatch(wrong);
    }
    Py_RETURN_NONE;
}

/* ------------------------------------------------------------------ the check */

/* The calling thread as the sampler finds it: by the interpreters' lists. */
static int find_own_thread(struct check *check)
{
    struct ks_thread_table table;
    uint64_t tid = (uint64_t)syscall(SYS_gettid);
    bool is_found = false;
    if (!ks_thread_table_init(&table, check->layout)) {
        PyErr_NoMemory();
        return -1;
    }
    if (ks_thread_table_list(&table, &check->look->reader.memory)) {
        for (uint32_t i = 0; i < table.end && !is_found; i++) {
            check->thread = table.threads[i].python;
            is_found = check->thread.address == (uintptr_t)PyThreadState_Get() &&
                       check->thread.native_id == tid;
        }
    }
    ks_thread_table_release(&table);
    if (!is_found) {
        (void)mismatch("its threads were not found");
    }
    return is_found ? 0 : -1;
}

static int run_program(struct check *check)
{
    static PyMethodDef definition = {"check", check_here, METH_NOARGS, NULL};
    PyObject *capsule = PyCapsule_New(check, NULL, NULL);
    PyObject *function = capsule ? PyCFunction_New(&definition, capsule) : NULL;
    PyObject *code = Py_CompileString(PROGRAM, "<sampler check>", Py_file_input);
    PyObject *names = PyDict_New();
    PyObject *result = NULL;
    if (function && code && names &&
        PyDict_SetItemString(names, "__builtins__", PyEval_GetBuiltins()) == 0 &&
        PyDict_SetItemString(names, "__name__", Py_None) == 0 &&
        PyDict_SetItemString(names, "check", function) == 0) {
        result = PyEval_EvalCode(code, names, names);
    }
    if (names) {
        PyDict_Clear(names);
    }
    Py_XDECREF(capsule);
    Py_XDECREF(function);
    Py_XDECREF(code);
    Py_XDECREF(names);
    Py_XDECREF(result);
    return result ? 0 : -1;
}

static int check_look(const struct ks_python_layout *layout, struct ks_stack_look *look)
{
    enum { CALLS_MIN = 80 };
    struct check check = {.layout = layout, .look = look};
    if (find_own_thread(&check) != 0 || run_program(&check) != 0) {
        return -1;
    }
    if (check.count < CALLS_MIN) {
        (void)mismatch("the check did not run");
        return -1;
    }
    return 0;
}

static int find_layout(struct ks_python_layout *layout)
{
    char reason[KS_PYTHON_REASON_SIZE];
    uintptr_t runtime = (uintptr_t)dlsym(RTLD_DEFAULT, "_PyRuntime");
    if (!ks_python_layout_find((uint32_t)Py_Version, runtime, (uintptr_t)&PyCode_Type, layout,
                               reason)) {
        PyErr_SetString(PyExc_RuntimeError, reason);
        return -1;
    }
    return find_opcodes(&layout->opcodes);
}

int ks_sampler_check(struct ks_python_layout *layout)
{
    if (find_layout(layout) != 0) {
        return -1;
    }
    int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
    size_t size = sizeof(struct ks_stack_look);
    struct ks_stack_look *look = mmap(NULL, size, PROT_READ | PROT_WRITE, flags, -1, 0);
    if (look == MAP_FAILED) {
        PyErr_NoMemory();
        return -1;
    }
    int failed = -1;
    if (ks_stack_look_init(look, layout)) {
        failed = check_look(layout, look);
        ks_stack_look_release(look);
    } else {
        PyErr_NoMemory();
    }
    (void)munmap(look, size);
    return failed;
}
