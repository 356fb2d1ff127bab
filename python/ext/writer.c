#include "writer.h"

_Thread_local struct ks_writer ks_writer;

static PyObject *numbers; /* WeakKeyDictionary: task to its number */
static uint32_t task_count;

bool ks_writer_ask(void)
{
    if (!ks_writer.lane) {
        ks_writer.lane = ks_capture_lane();
    }
    return ks_capture_is_on();
}

/* What a function of a module that is loaded says. NULL: it is not, or nothing. New reference. */
static PyObject *ask_module(const char *module_name, const char *function, PyObject *argument)
{
    PyObject *name = PyUnicode_InternFromString(module_name);
    PyObject *module = name ? PyImport_GetModule(name) : NULL;
    PyObject *callable = module ? PyObject_GetAttrString(module, function) : NULL;
    PyObject *answer = callable ? PyObject_CallFunctionObjArgs(callable, argument, NULL) : NULL;
    Py_XDECREF(callable);
    Py_XDECREF(module);
    Py_XDECREF(name);
    if (answer == Py_None) {
        Py_CLEAR(answer);
    }
    return answer;
}

static PyObject *current_task(void)
{
    PyObject *loop = ask_module("asyncio.events", "_get_running_loop", NULL);
    PyObject *task = loop ? ask_module("asyncio.tasks", "current_task", loop) : NULL;
    Py_XDECREF(loop);
    return task;
}

static bool have_numbers(void)
{
    if (!numbers) {
        PyObject *weakref = PyImport_ImportModule("weakref");
        numbers = weakref ? PyObject_CallMethod(weakref, "WeakKeyDictionary", NULL) : NULL;
        Py_XDECREF(weakref);
    }
    return numbers != NULL;
}

static uint32_t number_of(PyObject *task)
{
    if (!have_numbers()) {
        return 0;
    }
    PyObject *number = PyObject_CallMethod(numbers, "get", "O", task);
    if (number == Py_None) {
        Py_SETREF(number, PyLong_FromUnsignedLong(++task_count));
        if (number && PyObject_SetItem(numbers, task, number) < 0) {
            Py_CLEAR(number);
        }
    }
    uint32_t value = number ? (uint32_t)PyLong_AsUnsignedLong(number) : 0;
    Py_XDECREF(number);
    return value;
}

static uint32_t current_track(void)
{
    PyObject *type;
    PyObject *value;
    PyObject *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    PyObject *task = current_task();
    uint32_t track = task ? number_of(task) : 0;
    Py_XDECREF(task);
    PyErr_Restore(type, value, traceback);
    return track;
}

void ks_writer_follow_task(uint64_t context)
{
    uint32_t generation = ks_capture_generation();
    if (generation == ks_writer.generation && context == ks_writer.context) {
        return;
    }
    uint32_t track = current_track(); /* runs Python, which may write events itself */
    if (generation != ks_writer.generation) {
        ks_writer.generation = generation; /* a file begins in no task */
        ks_writer.track = 0;
    }
    if (track != ks_writer.track) {
        ks_writer.track = track;
        ks_writer_put(KS_WIRE_TRACK, track, 0, ks_writer_tick());
    }
    ks_writer.context = context;
}
