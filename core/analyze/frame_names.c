#include "analyze/frame_names.h"

#include <stdlib.h>

/* First parts of paths that are no user's: packages that sit between training loops and torch, and
 * the modules of Python's library that call back. Sorted. */
static const char *const libraries[] = {
    "PIL",
    "_pytest",
    "accelerate",
    "apex",
    "asyncio",
    "bitsandbytes",
    "concurrent",
    "contextlib.py",
    "copy.py",
    "ctypes",
    "cv2",
    "dataclasses.py",
    "datasets",
    "deepspeed",
    "diffusers",
    "einops",
    "encodings",
    "enum.py",
    "evaluate",
    "fabric",
    "flash_attn",
    "fsspec",
    "functools.py",
    "huggingface_hub",
    "ignite",
    "importlib",
    "inspect.py",
    "json",
    "lightning",
    "lightning_fabric",
    "logging",
    "matplotlib",
    "megatron",
    "multiprocessing",
    "numpy",
    "pandas",
    "peft",
    "pickle.py",
    "pluggy",
    "posixpath.py",
    "psutil",
    "pytorch_lightning",
    "queue.py",
    "random.py",
    "re",
    "re.py",
    "requests",
    "runpy.py",
    "safetensors",
    "scipy",
    "selectors.py",
    "sentence_transformers",
    "sentencepiece",
    "shutil.py",
    "sklearn",
    "socket.py",
    "sre_compile.py",
    "sre_parse.py",
    "ssl.py",
    "subprocess.py",
    "tempfile.py",
    "tensorboard",
    "threading.py",
    "tiktoken",
    "timm",
    "tokenizers",
    "torchaudio",
    "torchmetrics",
    "torchtext",
    "torchvision",
    "tqdm",
    "transformers",
    "trl",
    "typing.py",
    "typing_extensions.py",
    "unittest",
    "urllib3",
    "uuid.py",
    "vllm",
    "wandb",
    "warnings.py",
    "weakref.py",
    "xformers",
    "zipfile.py",
};
static const char *const torches[] = {"torch", "torch_xla", "functorch", "kinetoscope", "triton"};

static int compare_name(const void *key, const void *item)
{
    return ks_str_compare(*(const struct ks_str *)key, ks_str_from(*(const char *const *)item));
}

static struct ks_str first_part(struct ks_str path)
{
    const char *slash = memchr(path.ptr, '/', path.len);
    return slash ? (struct ks_str){path.ptr, (size_t)(slash - path.ptr)} : path;
}

static bool is_one_of_torch(struct ks_str part)
{
    for (size_t i = 0; i < KS_COUNT_OF(torches); i++) {
        if (ks_str_equal(part, ks_str_from(torches[i]))) {
            return true;
        }
    }
    return false;
}

/* What stands behind the last folder of installed packages, or nothing. */
static struct ks_str inside_packages(struct ks_str path)
{
    struct ks_str folder = KS_STR("-packages/");
    for (size_t i = path.len; i >= folder.len; i--) {
        const char *at = path.ptr + i - folder.len;
        if (memcmp(at, folder.ptr, folder.len) == 0) {
            return (struct ks_str){at + folder.len, path.len - i};
        }
    }
    return (struct ks_str){0};
}

enum ks_frame_kind ks_frame_kind_of_file(struct ks_str file)
{
    struct ks_str packaged = inside_packages(file);
    struct ks_str part = first_part(packaged.ptr ? packaged : file);
    if (file.len == 0 || file.ptr[0] == '<') {
        return KS_FRAME_LIBRARY;
    }
    /* Our hooks lie where the profiler is installed, which need not be among packages. */
    if (is_one_of_torch(part) || ks_str_contains(file, KS_STR("/kinetoscope/torch/"))) {
        return KS_FRAME_TORCH;
    }
    bool is_library =
        packaged.ptr || ks_str_contains(file, KS_STR("/lib/python")) ||
        bsearch(&part, libraries, KS_COUNT_OF(libraries), sizeof(*libraries), compare_name);
    return is_library ? KS_FRAME_LIBRARY : KS_FRAME_USER;
}

/* The number that all of the text is, or -1. */
static int64_t whole_number(struct ks_str text)
{
    enum { DIGITS_MAX = 9 };
    int64_t value = text.len > 0 && text.len <= DIGITS_MAX ? 0 : -1;
    for (size_t i = 0; i < text.len && value >= 0; i++) {
        char c = text.ptr[i];
        value = c >= '0' && c <= '9' ? value * 10 + (c - '0') : -1;
    }
    return value;
}

struct ks_frame ks_frame_parse(struct ks_str name)
{
    struct ks_str end = KS_STR("): ");
    const char *close = name.len > 0 ? memmem(name.ptr, name.len, end.ptr, end.len) : NULL;
    const char *open = close;
    while (open && open > name.ptr && *open != '(') {
        open--;
    }
    if (!close || *open != '(') {
        return (struct ks_frame){.kind = KS_FRAME_NONE};
    }
    struct ks_frame frame = {
        .file = {name.ptr, (size_t)(open - name.ptr)},
        .line = whole_number((struct ks_str){open + 1, (size_t)(close - open - 1)}),
        .function = {close + end.len, (size_t)(name.ptr + name.len - close) - end.len},
    };
    frame.kind = frame.line < 0 ? KS_FRAME_NONE : ks_frame_kind_of_file(frame.file);
    return frame;
}

bool ks_frame_parse_call(struct ks_str text, struct ks_str *file, int64_t *line)
{
    size_t at = text.len;
    while (at > 0 && text.ptr[at - 1] != ':') {
        at--;
    }
    if (at < 2) {
        return false;
    }
    *file = (struct ks_str){text.ptr, at - 1};
    *line = whole_number((struct ks_str){text.ptr + at, text.len - at});
    return *line > 0;
}
