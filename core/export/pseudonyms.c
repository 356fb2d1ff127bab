#include "export/pseudonyms.h"

#include <ctype.h>

#include "analyze/frame_names.h"
#include "analyze/tensor_core.h"
#include "base/err.h"

/* ------------------------------------------------------------------ what is public */

typedef const char *const word_list[];

static bool starts_with_one(struct ks_str text, const char *const *words)
{
    for (; *words; words++) {
        if (ks_str_starts(text, ks_str_from(*words))) {
            return true;
        }
    }
    return false;
}

static bool is_one(struct ks_str text, const char *const *words)
{
    for (; *words; words++) {
        if (ks_str_equal(text, ks_str_from(*words))) {
            return true;
        }
    }
    return false;
}

/* Only characters that `also` or isalnum knows. */
static bool is_made_of(struct ks_str text, bool takes_letters, const char *also)
{
    for (size_t i = 0; i < text.len; i++) {
        unsigned char byte = (unsigned char)text.ptr[i];
        bool is_fine = takes_letters ? isalnum(byte) : isdigit(byte);
        if (byte == '\0' || (!is_fine && !strchr(also, byte))) {
            return false;
        }
    }
    return text.len > 0;
}

static struct ks_str behind(struct ks_str text, size_t len)
{
    return (struct ks_str){text.ptr + len, text.len - len};
}

/* "AddmmBackward0": nodes that torch generates end in a number, those of users do not. */
static bool is_autograd_node(struct ks_str name)
{
    size_t end = name.len;
    while (end > 0 && isdigit((unsigned char)name.ptr[end - 1])) {
        end--;
    }
    static const char word[] = "Backward";
    size_t len = sizeof(word) - 1;
    return end < name.len && end > len && memcmp(name.ptr + end - len, word, len) == 0 &&
           is_made_of(name, true, "");
}

/* Library, name, and nothing that is free text. */
static bool is_library_operator(struct ks_str name)
{
    static word_list libraries = {
        "aten::", "prim::", "prims::", "c10d::", "_c10d_functional::", "profiler::", "quantized::",
        "nccl:",  "gloo:",  "mpi:",    NULL};
    return starts_with_one(name, libraries) && is_made_of(name, true, ":_.");
}

/* "Optimizer.step#AdamW.step", for the optimizers that torch brings. */
static bool is_torch_optimizer(struct ks_str name)
{
    static word_list classes = {"SGD.",    "Adam.",  "AdamW.",      "Adagrad.",   "Adadelta.",
                                "Adamax.", "NAdam.", "RAdam.",      "RMSprop.",   "Rprop.",
                                "LBFGS.",  "ASGD.",  "SparseAdam.", "Adafactor.", NULL};
    const char *hash = memchr(name.ptr, '#', name.len);
    return hash && ks_str_starts(name, KS_STR("Optimizer.")) &&
           starts_with_one(behind(name, (size_t)(hash + 1 - name.ptr)), classes) &&
           is_made_of(name, true, "._#");
}

static bool is_torch_text(struct ks_str name)
{
    static word_list texts = {"record_param_comms",
                              "detach",
                              "autograd::AccumulateGrad",
                              "torch::autograd::AccumulateGrad",
                              "torch::autograd::CopyBackwards",
                              "torch::autograd::GraphRoot",
                              "AccumulateGrad",
                              "GraphRoot",
                              "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__",
                              "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__",
                              "DistributedDataParallel.forward",
                              "[memory]",
                              "cpu_instant_event",
                              "ac2g",
                              "fwdbwd",
                              "async_cpu_to_gpu",
                              "Trace",
                              "PyTorch Profiler (0)",
                              "Iteration Start: PyTorch Profiler",
                              "Record Window End",
                              "Activity Buffer Request",
                              "Instrumentation",
                              "Resource",
                              "Runtime Triggered Module Loading",
                              "Lazy Function Loading",
                              "Command Buffer Full",
                              "CUPTI Overhead",
                              "python",
                              "CPU",
                              "Spans",
                              "Traces",
                              "PyTorch Profiler",
                              "kinetoscope.step",
                              "process_name",
                              "process_labels",
                              "process_sort_index",
                              "thread_name",
                              "thread_sort_index",
                              NULL};
    return is_one(name, texts);
}

static bool is_numbered_text(struct ks_str name)
{
    static word_list heads = {"ProfilerStep#",           "GPU ", "stream ", "thread ",
                              "Torch-Compiled Region: ", NULL};
    for (const char *const *head = heads; *head; head++) {
        if (ks_str_starts(name, ks_str_from(*head))) {
            return is_made_of(behind(name, strlen(*head)), false, " /");
        }
    }
    return false;
}

static bool is_public_name(struct ks_str name)
{
    return name.len == 0 || is_made_of(name, false, "-") || is_torch_text(name) ||
           is_library_operator(name) || is_autograd_node(name) || is_torch_optimizer(name) ||
           is_numbered_text(name);
}

/* Kernels by their authors; what a compiler made of a user's own code is not here. */
static bool is_public_kernel(struct ks_str name)
{
    static word_list starts = {"void at::",
                               "at::native::",
                               "void at_cuda_detail::",
                               "void cub::",
                               "void cutlass::",
                               "void cutlass_",
                               "cutlass_",
                               "cutlass::",
                               "cutlass__5x_cudnn::",
                               "cudnn_generated_",
                               "void cudnn::",
                               "_ZN17cutlass__5x_cudnn",
                               "void cask_plugin__5x_cudnn::",
                               "void cask__5x_cudnn::",
                               "void xmma__5x_cudnn::",
                               "void (anonymous namespace)::softmax_warp_",
                               "cudnn::",
                               "void cublasLt::",
                               "void cublasSplitK",
                               "void splitKreduce_kernel<",
                               "void gemmk1_kernel<",
                               "void gemvNSP_kernel<",
                               "void gemv2",
                               "void dot_kernel<",
                               "void reduce_1Block_kernel<",
                               "nvjet_",
                               "ampere_",
                               "sm80_",
                               "sm86_",
                               "sm89_",
                               "sm90_",
                               "sm100_",
                               "volta_",
                               "turing_",
                               "maxwell_",
                               "ncclDevKernel_",
                               "ncclKernel_",
                               "ncclSymDevKernel_",
                               "void pytorch_flash::",
                               "void flash::",
                               "fmha_",
                               "triton_poi_",
                               "triton_red_",
                               "triton_per_",
                               "triton_tem_",
                               "triton_mm",
                               "implicit_convolve_",
                               "void implicit_con",
                               "void wgrad_",
                               "void dgrad_",
                               "void fft",
                               "Memcpy ",
                               "Memset ",
                               "Memcpy",
                               "Memset",
                               NULL};
    return starts_with_one(name, starts);
}

/* Files of torch and of Python itself, which every machine has, and frames without a file of which
 * only built-in types are named. */
static bool is_public_file(struct ks_str file)
{
    static word_list starts = {
        "torch/",     "torchvision/",     "transformers/", "numpy/",   "accelerate/",
        "importlib/", "multiprocessing/", "concurrent/",   "asyncio/", "<frozen ",
        NULL};
    static word_list files = {"threading.py", "runpy.py",    "contextlib.py",
                              "functools.py", "queue.py",    "selectors.py",
                              "socket.py",    "pickle.py",   "copy.py",
                              "re.py",        "os.py",       "random.py",
                              "typing.py",    "types.py",    "enum.py",
                              "weakref.py",   "warnings.py", "inspect.py",
                              "abc.py",       "tempfile.py", "posixpath.py",
                              "<string>",     NULL};
    return starts_with_one(file, starts) || is_one(file, files);
}

static bool is_public_function(struct ks_str function)
{
    static word_list names = {
        "<module>", "<lambda>",  "<listcomp>",    "<genexpr>",      "<dictcomp>",
        "main",     "forward",   "backward",      "step",           "zero_grad",
        "train",    "loss",      "training_step", "optimizer_step", "collate_fn",
        "__call__", "__init__",  "__next__",      "__iter__",       "__getitem__",
        "__len__",  "__enter__", "__exit__",      "wrapper",        "decorate_context",
        NULL};
    return is_one(function, names);
}

static bool is_public_module(struct ks_str name)
{
    static word_list classes = {"Linear",
                                "Conv1d",
                                "Conv2d",
                                "Conv3d",
                                "LayerNorm",
                                "RMSNorm",
                                "BatchNorm1d",
                                "BatchNorm2d",
                                "BatchNorm3d",
                                "GroupNorm",
                                "ReLU",
                                "GELU",
                                "SiLU",
                                "Sigmoid",
                                "Tanh",
                                "Softmax",
                                "Dropout",
                                "Embedding",
                                "Sequential",
                                "ModuleList",
                                "MaxPool2d",
                                "AvgPool2d",
                                "AdaptiveAvgPool2d",
                                "Flatten",
                                "Identity",
                                "MultiheadAttention",
                                "TransformerEncoder",
                                "TransformerEncoderLayer",
                                "TransformerDecoder",
                                "TransformerDecoderLayer",
                                "LSTM",
                                "GRU",
                                "CrossEntropyLoss",
                                "MSELoss",
                                "BCEWithLogitsLoss",
                                "Upsample",
                                "ConvTranspose2d",
                                "DistributedDataParallel",
                                NULL};
    return is_one(name, classes);
}

/* ------------------------------------------------------------------ words */

static const char *const words[KS_PSEUDONYM_COUNT] = {
    [KS_PSEUDONYM_OPERATOR] = "operator", [KS_PSEUDONYM_ANNOTATION] = "annotation",
    [KS_PSEUDONYM_KERNEL] = "kernel",     [KS_PSEUDONYM_CALL] = "call",
    [KS_PSEUDONYM_FILE] = "file",         [KS_PSEUDONYM_FUNCTION] = "function",
    [KS_PSEUDONYM_MODULE] = "Module",     [KS_PSEUDONYM_GROUP] = "group",
    [KS_PSEUDONYM_TRACK] = "track",       [KS_PSEUDONYM_NAME] = "name",
};

static enum ks_status number_of(struct ks_pseudonyms *names, enum ks_pseudonym_kind kind,
                                struct ks_str text, uint64_t *number, struct ks_err *err)
{
    struct ks_strid id;
    KS_TRY(ks_strpool_intern(names->pool, text, &id, err));
    uint64_t *slot = ks_map_put(&names->numbers, (uint64_t)kind, id.v, NULL);
    if (!slot) {
        return ks_fail(err, KS_ERR_NOMEM, KS_NO_OFFSET, "Cannot replace names: no memory");
    }
    if (*slot == 0) {
        *slot = ++names->counts[kind];
    }
    *number = *slot;
    return KS_OK;
}

static enum ks_status append_word(struct ks_pseudonyms *names, enum ks_pseudonym_kind kind,
                                  struct ks_str text, struct ks_err *err)
{
    uint64_t number = 0;
    KS_TRY(number_of(names, kind, text, &number, err));
    ks_text_printf(&names->text, "%s_%llu", words[kind], (unsigned long long)number);
    return KS_OK;
}

static enum ks_status give(struct ks_pseudonyms *names, struct ks_str *out, struct ks_err *err)
{
    *out = (struct ks_str){names->text.ptr, names->text.len};
    return names->text.failed
               ? ks_fail(err, KS_ERR_NOMEM, KS_NO_OFFSET, "Cannot replace names: no memory")
               : KS_OK;
}

/* `*is_public`: the file's own name stayed. */
static enum ks_status append_file(struct ks_pseudonyms *names, struct ks_str file, bool *is_public,
                                  struct ks_err *err)
{
    static const char marks[][16] = {"/site-packages/", "/dist-packages/"};
    struct ks_str tail = file; /* an installed package: without where it was installed */
    for (size_t i = 0; i < KS_COUNT_OF(marks); i++) {
        size_t len = strlen(marks[i]);
        const char *found = tail.len > 0 ? memmem(tail.ptr, tail.len, marks[i], len) : NULL;
        tail = found ? behind(tail, (size_t)(found - tail.ptr) + len) : tail;
    }
    *is_public = is_public_file(tail);
    if (*is_public) {
        ks_text_append_str(&names->text, tail);
        return KS_OK;
    }
    KS_TRY(append_word(names, KS_PSEUDONYM_FILE, file, err));
    ks_text_append_str(&names->text, KS_STR(".py"));
    return KS_OK;
}

/* "nn.Module: Linear_0": the class goes, its number stays. */
static enum ks_status append_module(struct ks_pseudonyms *names, struct ks_str name,
                                    struct ks_err *err)
{
    size_t end = name.len;
    while (end > 0 && isdigit((unsigned char)name.ptr[end - 1])) {
        end--;
    }
    size_t class_len = end > 0 && end < name.len && name.ptr[end - 1] == '_' ? end - 1 : name.len;
    struct ks_str class_name = {name.ptr, class_len};
    ks_text_append_str(&names->text, KS_STR("nn.Module: "));
    if (is_public_module(class_name)) {
        ks_text_append_str(&names->text, class_name);
    } else {
        KS_TRY(append_word(names, KS_PSEUDONYM_MODULE, class_name, err));
    }
    ks_text_append_str(&names->text, behind(name, class_len));
    return KS_OK;
}

static enum ks_status append_frame(struct ks_pseudonyms *names, struct ks_str name,
                                   struct ks_err *err)
{
    struct ks_str module = KS_STR("nn.Module: ");
    if (ks_str_starts(name, module)) {
        return append_module(names, behind(name, module.len), err);
    }
    struct ks_frame frame = ks_frame_parse(name);
    if (frame.file.len == 0) {
        bool is_builtin = ks_str_starts(name, KS_STR("<built-in ")) &&
                          is_made_of(behind(name, 1), true, " _.->") &&
                          !ks_str_contains(name, KS_STR(" of ")) && name.len < 64;
        if (is_builtin) {
            ks_text_append_str(&names->text, name);
            return KS_OK;
        }
        return append_word(names, KS_PSEUDONYM_FUNCTION, name, err);
    }
    bool is_public = false;
    KS_TRY(append_file(names, frame.file, &is_public, err));
    ks_text_printf(&names->text, "(%lld): ", (long long)frame.line);
    if (is_public || is_public_function(frame.function)) {
        ks_text_append_str(&names->text, frame.function);
        return KS_OK;
    }
    return append_word(names, KS_PSEUDONYM_FUNCTION, frame.function, err);
}

/* "autograd::engine::evaluate_function: X" tells no more than X. */
static enum ks_status append_operator(struct ks_pseudonyms *names, enum ks_pseudonym_kind kind,
                                      struct ks_str name, struct ks_err *err)
{
    struct ks_str head = KS_STR("autograd::engine::evaluate_function: ");
    if (ks_str_starts(name, head)) {
        ks_text_append_str(&names->text, head);
        name = behind(name, head.len);
    }
    if (is_public_name(name)) {
        ks_text_append_str(&names->text, name);
        return KS_OK;
    }
    return append_word(names, kind, name, err);
}

static bool is_public_call(struct ks_str name)
{
    static word_list starts = {"cuda", "hip", "xpu", "INVALID", NULL};
    bool is_driver =
        ks_str_starts(name, KS_STR("cu")) && name.len > 2 && isupper((unsigned char)name.ptr[2]);
    return (is_driver || starts_with_one(name, starts)) && is_made_of(name, true, "_") &&
           name.len < 80;
}

static enum ks_status append_event(struct ks_pseudonyms *names, enum ks_category category,
                                   char phase, struct ks_str name, struct ks_err *err)
{
    if (phase == 'C') {
        return append_operator(names, KS_PSEUDONYM_NAME, name, err);
    }
    switch (category) {
    case KS_CATEGORY_PYTHON: return append_frame(names, name, err);
    case KS_CATEGORY_USER_ANNOTATION:
    case KS_CATEGORY_GPU_ANNOTATION:
        return append_operator(names, KS_PSEUDONYM_ANNOTATION, name, err);
    case KS_CATEGORY_KERNEL:
    case KS_CATEGORY_MEMCPY:
    case KS_CATEGORY_MEMSET:
        if (is_public_kernel(name)) {
            ks_text_append_str(&names->text, name);
            return KS_OK;
        }
        KS_TRY(append_word(names, KS_PSEUDONYM_KERNEL, name, err));
        /* What the name says about tensor cores is told by no other column. */
        ks_text_append_str(&names->text,
                           ks_tensor_core_is_used(name) ? KS_STR("_tensorop") : KS_STR(""));
        return KS_OK;
    case KS_CATEGORY_RUNTIME:
    case KS_CATEGORY_DRIVER:
        if (is_public_call(name)) {
            ks_text_append_str(&names->text, name);
            return KS_OK;
        }
        return append_word(names, KS_PSEUDONYM_CALL, name, err);
    case KS_CATEGORY_GPU_SYNC:
        if (is_made_of(name, true, " _")) {
            ks_text_append_str(&names->text, name);
            return KS_OK;
        }
        return append_word(names, KS_PSEUDONYM_NAME, name, err);
    case KS_CATEGORY_NONE:
    case KS_CATEGORY_CPU_OP: return append_operator(names, KS_PSEUDONYM_OPERATOR, name, err);
    default: return append_operator(names, KS_PSEUDONYM_NAME, name, err);
    }
}

/* ------------------------------------------------------------------ the interface */

enum ks_status ks_pseudonyms_init(struct ks_pseudonyms *names, struct ks_err *err)
{
    *names = (struct ks_pseudonyms){0};
    ks_map_init(&names->numbers);
    ks_text_init(&names->text);
    return ks_strpool_create(&names->pool, err);
}

void ks_pseudonyms_release(struct ks_pseudonyms *names)
{
    ks_strpool_destroy(names->pool);
    ks_map_release(&names->numbers);
    ks_text_release(&names->text);
}

enum ks_status ks_pseudonyms_event(struct ks_pseudonyms *names, enum ks_category category,
                                   char phase, struct ks_str name, struct ks_str *out,
                                   struct ks_err *err)
{
    ks_text_reset(&names->text);
    KS_TRY(append_event(names, category, phase, name, err));
    return give(names, out, err);
}

enum ks_status ks_pseudonyms_text(struct ks_pseudonyms *names, enum ks_pseudonym_kind kind,
                                  struct ks_str text, struct ks_str *out, struct ks_err *err)
{
    ks_text_reset(&names->text);
    KS_TRY(append_operator(names, kind, text, err));
    return give(names, out, err);
}

enum ks_status ks_pseudonyms_place(struct ks_pseudonyms *names, struct ks_str text,
                                   struct ks_str *out, struct ks_err *err)
{
    struct ks_str file = {0};
    int64_t line = 0;
    ks_text_reset(&names->text);
    if (!ks_frame_parse_call(text, &file, &line)) {
        KS_TRY(append_word(names, KS_PSEUDONYM_FILE, text, err));
        return give(names, out, err);
    }
    bool is_public = false;
    KS_TRY(append_file(names, file, &is_public, err));
    ks_text_printf(&names->text, ":%lld", (long long)line);
    return give(names, out, err);
}
