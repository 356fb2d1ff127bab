#include "store/category.h"

struct alias {
    const char *text; /* lower case; NULL ends the list */
    enum ks_category category;
};

/* Lists by length, so that a lookup compares only the few texts of its own length. Names and
 * aliases: libkineto's ActivityType.cpp, and what torch wrote before 2022-10. */
enum { ALIAS_LEN_MAX = 19 };
typedef const struct alias alias_list[];
static const struct alias *const aliases[ALIAS_LEN_MAX + 1] = {
    [5] = (alias_list){{"trace", KS_CATEGORY_TRACE}, {NULL, 0}},
    [6] = (alias_list){{"cpu_op", KS_CATEGORY_CPU_OP},
                       {"kernel", KS_CATEGORY_KERNEL},
                       {"memcpy", KS_CATEGORY_MEMCPY},
                       {"memset", KS_CATEGORY_MEMSET},
                       {"hpu_op", KS_CATEGORY_CPU_OP},
                       {NULL, 0}},
    [7] = (alias_list){{"runtime", KS_CATEGORY_RUNTIME}, {NULL, 0}},
    [8] = (alias_list){{"operator", KS_CATEGORY_CPU_OP},
                       {"overhead", KS_CATEGORY_OVERHEAD},
                       {"xpu_sync", KS_CATEGORY_GPU_SYNC},
                       {NULL, 0}},
    [9] = (alias_list){{"cuda_sync", KS_CATEGORY_GPU_SYNC}, {NULL, 0}},
    [10] = (alias_list){{"gpu_memcpy", KS_CATEGORY_MEMCPY},
                        {"gpu_memset", KS_CATEGORY_MEMSET},
                        {"cuda_event", KS_CATEGORY_GPU_SYNC},
                        {"xpu_driver", KS_CATEGORY_DRIVER},
                        {"xpu_kernel", KS_CATEGORY_KERNEL},
                        {"xpu_memcpy", KS_CATEGORY_MEMCPY},
                        {"xpu_memset", KS_CATEGORY_MEMSET},
                        {NULL, 0}},
    [11] = (alias_list){{"cuda_driver", KS_CATEGORY_DRIVER},
                        {"xpu_runtime", KS_CATEGORY_RUNTIME},
                        {NULL, 0}},
    [12] = (alias_list){{"cuda_runtime", KS_CATEGORY_RUNTIME},
                        {"glow_runtime", KS_CATEGORY_RUNTIME},
                        {"mtia_runtime", KS_CATEGORY_RUNTIME},
                        {NULL, 0}},
    [15] = (alias_list){{"python_function", KS_CATEGORY_PYTHON},
                        {"user_annotation", KS_CATEGORY_USER_ANNOTATION},
                        {"collective_comm", KS_CATEGORY_GPU_OTHER},
                        {"mtia_ccp_events", KS_CATEGORY_KERNEL},
                        {NULL, 0}},
    [18] = (alias_list){{"privateuse1_driver", KS_CATEGORY_DRIVER}, {NULL, 0}},
    [19] = (alias_list){{"gpu_user_annotation", KS_CATEGORY_GPU_ANNOTATION},
                        {"cuda_profiler_range", KS_CATEGORY_GPU_OTHER},
                        {"privateuse1_runtime", KS_CATEGORY_RUNTIME},
                        {NULL, 0}},
};

enum ks_category ks_category_find(struct ks_str text)
{
    if (text.len == 0) {
        return KS_CATEGORY_NONE;
    }
    const struct alias *list = text.len <= ALIAS_LEN_MAX ? aliases[text.len] : NULL;
    if (!list) {
        return KS_CATEGORY_OTHER_HOST;
    }
    for (const struct alias *alias = list; alias->text; alias++) {
        if (memcmp(alias->text, text.ptr, text.len) == 0) {
            return alias->category;
        }
    }
    for (const struct alias *alias = list; alias->text; alias++) {
        if (ks_str_equal_nocase((struct ks_str){alias->text, text.len}, text)) {
            return alias->category;
        }
    }
    return KS_CATEGORY_OTHER_HOST;
}

const char *ks_category_name(enum ks_category category)
{
    static const char *const names[KS_CATEGORY_COUNT] = {
        [KS_CATEGORY_NONE] = "",
        [KS_CATEGORY_CPU_OP] = "cpu_op",
        [KS_CATEGORY_USER_ANNOTATION] = "user_annotation",
        [KS_CATEGORY_RUNTIME] = "cuda_runtime",
        [KS_CATEGORY_DRIVER] = "cuda_driver",
        [KS_CATEGORY_PYTHON] = "python_function",
        [KS_CATEGORY_OVERHEAD] = "overhead",
        [KS_CATEGORY_TRACE] = "Trace",
        [KS_CATEGORY_REGION] = "region",
        [KS_CATEGORY_OTHER_HOST] = "other",
        [KS_CATEGORY_KERNEL] = "kernel",
        [KS_CATEGORY_MEMCPY] = "gpu_memcpy",
        [KS_CATEGORY_MEMSET] = "gpu_memset",
        [KS_CATEGORY_GPU_ANNOTATION] = "gpu_user_annotation",
        [KS_CATEGORY_GPU_SYNC] = "cuda_sync",
        [KS_CATEGORY_GPU_OTHER] = "gpu_other",
    };
    KS_ASSERT((unsigned)category < KS_CATEGORY_COUNT);
    return names[category];
}

/* By parts of the name, because CUDA and HIP have a dozen variants of each call
 * (cudaLaunchKernelExC, cuLaunchKernelEx_ptsz, hipExtModuleLaunchKernel, ...). */
enum ks_link_kind ks_link_kind_of(struct ks_str call_name)
{
    static const struct {
        struct ks_str part;
        enum ks_link_kind kind;
    } parts[] = {
        {KS_STR("Node"),
         KS_LINK_OTHER}, /* cudaGraphAddMemcpyNode builds a graph, launches nothing */
        {KS_STR("LaunchKernel"), KS_LINK_KERNEL},
        {KS_STR("ModuleLaunch"), KS_LINK_KERNEL},
        {KS_STR("LaunchCooperative"), KS_LINK_KERNEL},
        {KS_STR("GraphLaunch"), KS_LINK_GRAPH},
        {KS_STR("Memcpy"), KS_LINK_MEMCPY},
        {KS_STR("Memset"), KS_LINK_MEMSET},
    };
    for (size_t i = 0; i < KS_COUNT_OF(parts); i++) {
        if (ks_str_contains(call_name, parts[i].part)) {
            return parts[i].kind;
        }
    }
    return KS_LINK_OTHER;
}

bool ks_kernel_is_communication(struct ks_str kernel_name)
{
    static const struct ks_str prefixes[] = {
        {"nccl", 4}, /* also ncclKernel_ and ncclDevKernel_ */
        {"rccl", 4},
        {"hccl", 4},
        {"mscclKernel", 11},
    };
    for (size_t i = 0; i < KS_COUNT_OF(prefixes); i++) {
        size_t len = prefixes[i].len;
        if (kernel_name.len >= len &&
            ks_str_equal_nocase((struct ks_str){kernel_name.ptr, len}, prefixes[i])) {
            return true;
        }
    }
    return false;
}
