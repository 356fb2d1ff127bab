/* Trial: an experiment of variants that are timed in turn (kscope/kscope_trial.h). Iterating gives
 * the variant to time next; add() takes its time. */
#include "engine_types.h"

#include <kscope/kscope_trial.h>
#include <math.h>

#include "engine_errors.h"

struct trial {
    PyObject_HEAD struct ks_trial *trial;
    Py_ssize_t variants;
};

/* ------------------------------------------------------------------ making */

/* From seconds; a number that no clock shows is one that is too large. */
static bool read_seconds(double seconds, int64_t *ns)
{
    if (!(seconds >= 0 && seconds < 1e9)) {
        ks_engine_refuse(PyExc_ValueError, "seconds must be 0 to 1e9, not %g", seconds);
        return false;
    }
    *ns = (int64_t)(seconds * 1e9);
    return true;
}

static bool read_options(PyObject *arguments, PyObject *keywords, struct ks_trial_options *options)
{
    static const char *const names[] = {"variants", "seconds",   "rounds", "tolerance",
                                        "race",     "precision", NULL};
    Py_ssize_t variants;
    Py_ssize_t rounds = 0;
    double seconds = 0;
    int race = 0;
    if (!PyArg_ParseTupleAndKeywords(arguments, keywords, "n|$dndpd:Trial",
                                     (char **)(uintptr_t)names, &variants, &seconds, &rounds,
                                     &options->tolerance, &race, &options->precision) ||
        !read_seconds(seconds, &options->budget_ns)) {
        return false;
    }
    if (variants < 1 || rounds < 0 || rounds > KS_TRIAL_ROUNDS_MAX) {
        ks_engine_refuse(PyExc_ValueError, "a trial has 1 to %d variants and at most %d rounds",
                         KS_TRIAL_VARIANTS_MAX, KS_TRIAL_ROUNDS_MAX);
        return false;
    }
    options->variant_count = (size_t)variants;
    options->rounds_max = (uint32_t)rounds;
    options->is_race = race != 0;
    return true;
}

static PyObject *make(PyTypeObject *type, PyObject *arguments, PyObject *keywords)
{
    struct ks_trial_options options = {0};
    struct ks_trial *trial = NULL;
    struct ks_err err = {0};
    if (!read_options(arguments, keywords, &options)) {
        return NULL;
    }
    if (ks_trial_new(&options, &trial, &err) != KS_OK) {
        return ks_engine_raise(&err);
    }
    struct trial *self = (struct trial *)type->tp_alloc(type, 0);
    if (!self) {
        ks_trial_free(trial);
        return NULL;
    }
    self->trial = trial;
    self->variants = (Py_ssize_t)options.variant_count;
    return (PyObject *)self;
}

static void dealloc(struct trial *self)
{
    PyTypeObject *type = Py_TYPE(self);
    ks_trial_free(self->trial);
    type->tp_free((PyObject *)self);
    Py_DECREF(type);
}

/* ------------------------------------------------------------------ timing */

static PyObject *next(struct trial *self)
{
    size_t variant;
    return ks_trial_next(self->trial, &variant) ? PyLong_FromSize_t(variant) : NULL;
}

/* False with an IndexError. */
static bool is_variant(struct trial *self, Py_ssize_t variant)
{
    if (variant >= 0 && variant < self->variants) {
        return true;
    }
    ks_engine_refuse(PyExc_IndexError, "there is no variant %zd of %zd", variant, self->variants);
    return false;
}

static PyObject *add(struct trial *self, PyObject *arguments)
{
    Py_ssize_t variant;
    long long ns;
    if (!PyArg_ParseTuple(arguments, "nL:add", &variant, &ns) || !is_variant(self, variant)) {
        return NULL;
    }
    struct ks_err err = {0};
    if (ks_trial_add(self->trial, (size_t)variant, ns, &err) != KS_OK) {
        return ks_engine_refuse(PyExc_ValueError, "%s", err.message);
    }
    Py_RETURN_NONE;
}

static PyObject *drop(struct trial *self, PyObject *argument)
{
    Py_ssize_t variant = PyLong_AsSsize_t(argument);
    if ((variant == -1 && PyErr_Occurred()) || !is_variant(self, variant)) {
        return NULL;
    }
    ks_trial_drop(self->trial, (size_t)variant);
    Py_RETURN_NONE;
}

/* ------------------------------------------------------------------ what is known */

/* None for what is not known. */
static PyObject *number(double value)
{
    return isfinite(value) ? PyFloat_FromDouble(value) : Py_NewRef(Py_None);
}

static PyObject *summary(struct trial *self, PyObject *argument)
{
    Py_ssize_t variant = PyLong_AsSsize_t(argument);
    if ((variant == -1 && PyErr_Occurred()) || !is_variant(self, variant)) {
        return NULL;
    }
    struct ks_trial_summary of = ks_trial_summary(self->trial, (size_t)variant);
    return Py_BuildValue("{sNsNsNsNsNsnsnsnsN}", "median_ns", number(of.median_ns.value), "low_ns",
                         number(of.median_ns.low), "high_ns", number(of.median_ns.high), "mean_ns",
                         number(of.mean_ns), "std_ns", number(of.std_ns), "rounds",
                         (Py_ssize_t)of.rounds, "warm_up", (Py_ssize_t)of.warm_up, "outliers",
                         (Py_ssize_t)of.outliers, "drift_percent", number(of.drift * 100));
}

static PyObject *compare(struct trial *self, PyObject *arguments)
{
    Py_ssize_t a;
    Py_ssize_t b;
    if (!PyArg_ParseTuple(arguments, "nn:compare", &a, &b) || !is_variant(self, a) ||
        !is_variant(self, b)) {
        return NULL;
    }
    struct ks_trial_comparison of = ks_trial_compare(self->trial, (size_t)a, (size_t)b);
    return Py_BuildValue("{sNsNsNsNsNsNsssn}", "ratio", number(of.ratio.value), "low",
                         number(of.ratio.low), "high", number(of.ratio.high), "speedup",
                         number(1 / of.ratio.value), "speedup_low", number(1 / of.ratio.high),
                         "speedup_high", number(1 / of.ratio.low), "verdict",
                         ks_trial_verdict_name(of.verdict), "rounds", (Py_ssize_t)of.rounds);
}

static PyObject *fastest(struct trial *self, PyObject *unused)
{
    (void)unused;
    return PyLong_FromSize_t(ks_trial_fastest(self->trial));
}

static PyMethodDef methods[] = {
    {"add", (PyCFunction)(void (*)(void))add, METH_VARARGS,
     "add($self, variant, ns, /)\n--\n\nThe time of the variant whose turn it is, in nanoseconds. "
     "ValueError for another one."},
    {"drop", (PyCFunction)(void (*)(void))drop, METH_O,
     "drop($self, variant, /)\n--\n\nThis variant is timed no more: it is wrong, or does not run."},
    {"summary", (PyCFunction)(void (*)(void))summary, METH_O,
     "summary($self, variant, /)\n--\n\nmedian_ns with the interval low_ns to high_ns, mean_ns, "
     "std_ns, of `rounds` times behind `warm_up` others; how many `outliers`, and drift_percent, "
     "the last third against the first. None: not known."},
    {"compare", (PyCFunction)(void (*)(void))compare, METH_VARARGS,
     "compare($self, a, b, /)\n--\n\nratio of the times of b to those of a, round by round, with "
     "its interval low to high; the same as speedup; verdict: faster, slower, no_difference, "
     "cannot_tell; rounds that count. None: not known."},
    {"fastest", (PyCFunction)(void (*)(void))fastest, METH_NOARGS,
     "fastest($self)\n--\n\nThe variant with the lowest median of those not dropped."},
    {0},
};

static const char TYPE_DOC[] =
    "Trial(variants, *, seconds=0, rounds=0, tolerance=0.02, race=False, precision=0)\n--\n\n"
    "Times variants in turn until it is known how each compares with variant 0, and with `race` "
    "which is fastest; others that are clearly slower than that are timed no more.\n\n"
    "`for variant in trial: trial.add(variant, ns)`. `seconds` on the clock and `rounds` bound "
    "it, 0: as many as it takes, at most 819 rounds. Ratios within 1 +- `tolerance` are no "
    "difference. With `precision` it goes on until half of the interval of each ratio is at most "
    "that share of it. ValueError for numbers out of their range.";

static PyType_Slot slots[] = {
    {Py_tp_doc, (void *)(uintptr_t)TYPE_DOC},
    {Py_tp_new, (void *)make},
    {Py_tp_dealloc, (void *)dealloc},
    {Py_tp_iter, (void *)PyObject_SelfIter},
    {Py_tp_iternext, (void *)next},
    {Py_tp_methods, methods},
    {0, NULL},
};

static PyType_Spec spec = {
    .name = "kinetoscope._kscope_engine.Trial",
    .basicsize = sizeof(struct trial),
    .flags = Py_TPFLAGS_DEFAULT,
    .slots = slots,
};

int ks_trial_type_add_to(PyObject *module)
{
    return ks_engine_add_type(module, &spec, "Trial");
}
