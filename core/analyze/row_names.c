#include "analyze/row_names.h"

#include <string.h>

#include "analyze/tensor_core.h"
#include "base/alloc.h"
#include "base/err.h"

static bool is_digits(struct ks_str s)
{
    for (size_t i = 0; i < s.len; i++) {
        if (s.ptr[i] < '0' || s.ptr[i] > '9') {
            return false;
        }
    }
    return s.len > 0;
}

static struct ks_str tail(struct ks_str s, size_t from)
{
    return (struct ks_str){s.ptr + from, s.len - from};
}

static bool ends_with(struct ks_str s, struct ks_str end)
{
    return s.len >= end.len && ks_str_equal(tail(s, s.len - end.len), end);
}

static unsigned classify_loader(struct ks_str name)
{
    struct ks_str loader = KS_STR("enumerate(DataLoader)#");
    if (ks_str_starts(name, KS_STR("enumerate(DataPipe)#"))) {
        return KS_NAME_LOADER | KS_NAME_LOADER_SINGLE;
    }
    if (ks_str_starts(name, loader) && ends_with(name, KS_STR(".__next__"))) {
        bool is_single = ks_str_contains(name, KS_STR("_SingleProcess"));
        return KS_NAME_LOADER | (is_single ? KS_NAME_LOADER_SINGLE : 0u);
    }
    return 0;
}

/* The names that torch's own table leaves out (torch/autograd/profiler_util.py). */
static bool is_dropped(struct ks_str name)
{
    static const char *const dropped[] = {
        "[memory]",
        "[OutOfMemory]",
        "profiler::_record_function_enter",
        "profiler::_record_function_enter_new",
        "profiler::_record_function_exit",
        "aten::is_leaf",
        "aten::output_nr",
        "aten::_version",
    };
    for (size_t i = 0; i < KS_COUNT_OF(dropped); i++) {
        if (ks_str_equal(name, ks_str_from(dropped[i]))) {
            return true;
        }
    }
    return false;
}

static bool is_with_flops(struct ks_str name)
{
    static const char *const known[] = {"aten::conv2d",  "aten::mm",  "aten::addmm", "aten::bmm",
                                        "aten::baddbmm", "aten::add", "aten::mul"};
    for (size_t i = 0; i < KS_COUNT_OF(known); i++) {
        if (ks_str_equal(name, ks_str_from(known[i]))) {
            return true;
        }
    }
    return false;
}

static bool is_engine(struct ks_str name)
{
    return ks_str_starts(name, KS_STR("execute_context_")) ||
           ks_str_starts(name, KS_STR("step[")) || ks_str_starts(name, KS_STR("prefill[")) ||
           ks_str_starts(name, KS_STR("decode["));
}

/* By parts, because CUDA, HIP, Level Zero and the driver API have a dozen variants of each call. */
static unsigned classify_call(struct ks_str name)
{
    enum ks_link_kind link = ks_link_kind_of(name);
    bool is_copy = link == KS_LINK_MEMCPY;
    bool is_driver_memory = ks_str_starts(name, KS_STR("cuMem")) && !is_copy &&
                            !ks_str_starts(name, KS_STR("cuMemset"));
    static const char *const memory[] = {"Malloc",       "Free",           "HostAlloc",
                                         "HostRegister", "HostUnregister", "MemAlloc",
                                         "DeviceAlloc",  "SharedAlloc"};
    if (ks_str_contains(name, KS_STR("Synchronize")) ||
        ks_str_contains(name, KS_STR("QueueFinish")) ||
        ks_str_contains(name, KS_STR("EventWait"))) {
        return KS_NAME_SYNC;
    }
    if (link == KS_LINK_KERNEL || link == KS_LINK_GRAPH) {
        return KS_NAME_LAUNCH | (link == KS_LINK_GRAPH ? (unsigned)KS_NAME_GRAPH : 0u);
    }
    if (is_copy) {
        bool is_blocking = !ks_str_contains(name, KS_STR("Async"));
        return KS_NAME_COPY | (is_blocking ? KS_NAME_SYNC : 0u);
    }
    if (link == KS_LINK_MEMSET) {
        return KS_NAME_MEMSET;
    }
    for (size_t i = 0; i < KS_COUNT_OF(memory); i++) {
        if (ks_str_contains(name, ks_str_from(memory[i]))) {
            return KS_NAME_ALLOCATOR;
        }
    }
    return is_driver_memory ? KS_NAME_ALLOCATOR : 0u;
}

/* Operators that wait, for the device or for other ranks. */
static unsigned classify_wait(struct ks_str name)
{
    static const char *const reads[] = {"aten::item", "aten::_local_scalar_dense", "aten::nonzero",
                                        "aten::is_nonzero"};
    static const char *const waits[] = {"_c10d_functional::wait_tensor",
                                        "c10d_functional::wait_tensor", "c10d::barrier",
                                        "c10d::monitored_barrier_"};
    for (size_t i = 0; i < KS_COUNT_OF(reads); i++) {
        if (ks_str_equal(name, ks_str_from(reads[i]))) {
            return KS_NAME_SYNC;
        }
    }
    for (size_t i = 0; i < KS_COUNT_OF(waits); i++) {
        if (ks_str_equal(name, ks_str_from(waits[i]))) {
            return KS_NAME_COMM_WAIT;
        }
    }
    return 0;
}

/* By which a program reads a value, or the number of values, from the device. */
static bool is_read(struct ks_str name)
{
    static const char *const names[] = {"aten::item",          "aten::_local_scalar_dense",
                                        "aten::is_nonzero",    "aten::nonzero",
                                        "aten::masked_select", "aten::equal",
                                        "aten::index",         "aten::_unique2"};
    for (size_t i = 0; i < KS_COUNT_OF(names); i++) {
        if (ks_str_equal(name, ks_str_from(names[i]))) {
            return true;
        }
    }
    return false;
}

/* Is the name one of these words? */
static bool is_word_of(struct ks_str name, const char *words)
{
    while (*words) {
        size_t len = strcspn(words, " ");
        if (ks_str_equal(name, (struct ks_str){words, len})) {
            return true;
        }
        words += len + strspn(words + len, " ");
    }
    return false;
}

/* Operators of aten that move a tensor, or give it another form: on tensors of a GPU, too, they
 * launch nothing, unless they must copy. Empty memory has a form and no values. */
static unsigned classify_form(struct ks_str name)
{
    static const char views[] =
        "alias as_strided broadcast_to chunk contiguous detach detach_ diagonal "
        "dropout empty_like expand expand_as flatten is_pinned movedim narrow "
        "numpy_T permute pin_memory _pin_memory ravel real requires_grad_ reshape "
        "_reshape_alias resize_ resolve_conj resolve_neg select set_ slice split "
        "split_with_sizes squeeze squeeze_ swapaxes t transpose type_as unbind "
        "unflatten unfold _unsafe_view unsqueeze unsqueeze_ view view_as "
        "view_as_complex view_as_real";
    static const char resizing[] =
        "addmm bmm cat chunk concat constant_pad_nd conv1d conv2d conv3d einsum "
        "expand gather index index_select interpolate linear masked_select matmul "
        "mm multinomial narrow one_hot pad repeat repeat_interleave slice split "
        "split_with_sizes stack topk unfold unique _unique2";
    struct ks_str prefix = KS_STR("aten::");
    if (!ks_str_starts(name, prefix)) {
        return 0;
    }
    name = tail(name, prefix.len);
    unsigned flags = is_word_of(name, resizing) ? KS_NAME_RESIZE : 0u;
    flags |= is_word_of(name, views) ? KS_NAME_VIEW : 0u;
    flags |= is_word_of(name, "copy_ to _to_copy") ? KS_NAME_MOVE : 0u;
    return flags | (is_word_of(name, "lift_fresh resolve_neg") ? KS_NAME_OUTSIDE : 0u);
}

unsigned ks_row_names_classify(struct ks_str name)
{
    struct ks_str step = KS_STR("ProfilerStep#");
    struct ks_str mark = KS_STR("kinetoscope.step");
    unsigned flags = KS_NAME_KNOWN | classify_loader(name);
    if (ks_str_starts(name, step) && is_digits(tail(name, step.len))) {
        flags |= KS_NAME_PROFILER_STEP | KS_NAME_STEP;
    }
    if (ks_str_starts(name, mark) && (name.len == mark.len || name.ptr[mark.len] == '#')) {
        flags |= KS_NAME_MARK;
    }
    if (is_dropped(name)) {
        flags |= KS_NAME_DROPPED;
    }
    if (ks_str_starts(name, KS_STR("Optimizer.step#"))) {
        flags |= KS_NAME_OPTIMIZER | KS_NAME_TRAINING;
    }
    if (ks_str_starts(name, KS_STR("autograd::engine::evaluate_function"))) {
        flags |= KS_NAME_TRAINING | KS_NAME_BACKWARD;
    }
    if (is_engine(name)) {
        flags |= KS_NAME_ENGINE;
    }
    if (ks_str_starts(name, KS_STR("gloo:")) || ks_str_starts(name, KS_STR("mpi:"))) {
        flags |= KS_NAME_HOST_COMM;
    }
    if (ks_str_equal(name, KS_STR("aten::stack")) || ks_str_equal(name, KS_STR("aten::cat"))) {
        flags |= KS_NAME_COLLATE;
    }
    flags |= ks_str_contains(name, KS_STR("::")) ? classify_wait(name) : classify_call(name);
    if (is_with_flops(name)) {
        flags |= KS_NAME_FLOPS;
    }
    flags |= classify_form(name);
    if (ks_str_starts(name, KS_STR("aten::"))) {
        flags |= KS_NAME_ATEN | (is_read(name) ? (unsigned)KS_NAME_READS : 0u);
    }
    if (ks_str_equal(name, KS_STR("aten::t")) || ks_str_equal(name, KS_STR("aten::transpose"))) {
        flags |= KS_NAME_PASSES;
    }
    if (ks_str_contains(name, KS_STR("run_backward"))) {
        flags |= KS_NAME_RUN_BACKWARD;
    }
    return flags;
}

enum ks_status ks_row_names_init(struct ks_row_names *names, const struct ks_trace *trace,
                                 struct ks_err *err)
{
    size_t count = (size_t)ks_trace_str_count(trace) + 1;
    *names = (struct ks_row_names){trace, ks_alloc(count, sizeof(uint32_t))};
    if (!names->flags) {
        return ks_fail(err, KS_ERR_NOMEM, KS_NO_OFFSET, "Cannot classify names: count=%zu", count);
    }
    return KS_OK;
}

void ks_row_names_release(struct ks_row_names *names)
{
    ks_free(names->flags);
    names->flags = NULL;
}

unsigned ks_row_names_find(struct ks_row_names *names, uint32_t name)
{
    unsigned flags = ks_row_names_classify(ks_trace_str(names->trace, (struct ks_strid){name}));
    names->flags[name] |= flags;
    return names->flags[name];
}

static bool starts_with_any(struct ks_str name, const char *const *begins, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (ks_str_starts(name, ks_str_from(begins[i]))) {
            return true;
        }
    }
    return false;
}

enum ks_memory_call ks_row_names_memory_call(struct ks_row_names *names, uint32_t name)
{
    static const char *const takes[] = {"cudaMalloc",  "hipMalloc", "cuMemAlloc",  "cuMemMap",
                                        "cuMemCreate", "hipMemMap", "hipMemCreate"};
    static const char *const gives[] = {"cudaFree",     "hipFree",     "cuMemFree",    "cuMemUnmap",
                                        "cuMemRelease", "hipMemUnmap", "hipMemRelease"};
    if (!(ks_row_names_get(names, name) & KS_NAME_ALLOCATOR)) {
        return KS_MEMORY_CALL_NONE;
    }
    struct ks_str text = ks_trace_str(names->trace, (struct ks_strid){name});
    if (ks_str_contains(text, KS_STR("Host")) || ks_str_contains(text, KS_STR("Async")) ||
        ks_str_contains(text, KS_STR("Array"))) {
        return KS_MEMORY_CALL_NONE;
    }
    return starts_with_any(text, takes, KS_COUNT_OF(takes))   ? KS_MEMORY_CALL_TAKES
           : starts_with_any(text, gives, KS_COUNT_OF(gives)) ? KS_MEMORY_CALL_GIVES
                                                              : KS_MEMORY_CALL_NONE;
}

bool ks_row_names_is_tensor_core(struct ks_row_names *names, uint32_t kernel_name)
{
    if (!(names->flags[kernel_name] & KS_NAME_KERNEL_KNOWN)) {
        struct ks_str text = ks_trace_str(names->trace, (struct ks_strid){kernel_name});
        unsigned flags = KS_NAME_KERNEL_KNOWN;
        flags |= ks_tensor_core_is_used(text) ? KS_NAME_TENSOR_CORE : 0u;
        names->flags[kernel_name] |= flags;
    }
    return names->flags[kernel_name] & KS_NAME_TENSOR_CORE;
}
