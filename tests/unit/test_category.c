/* Goal: every category that PyTorch wrote since 2020 means what it should, and calls and kernels
 * are told by their names. Method: tables by hand from reference section b.6. */
#include "store/category.h"

#include "cmocka_all.h"

static void check(const char *text, enum ks_category category)
{
    enum ks_category got = ks_category_find(ks_str_from(text));
    if (got != category) {
        fail_msg("\"%s\" is \"%s\"", text, ks_category_name(got));
    }
}

static void test_find(void **state)
{
    (void)state;
    check("", KS_CATEGORY_NONE);
    check("cpu_op", KS_CATEGORY_CPU_OP);
    check("Operator", KS_CATEGORY_CPU_OP);
    check("hpu_op", KS_CATEGORY_CPU_OP);
    check("user_annotation", KS_CATEGORY_USER_ANNOTATION);
    check("cuda_runtime", KS_CATEGORY_RUNTIME);
    check("Runtime", KS_CATEGORY_RUNTIME);
    check("glow_runtime", KS_CATEGORY_RUNTIME);
    check("mtia_runtime", KS_CATEGORY_RUNTIME);
    check("xpu_runtime", KS_CATEGORY_RUNTIME);
    check("privateuse1_runtime", KS_CATEGORY_RUNTIME);
    check("cuda_driver", KS_CATEGORY_DRIVER);
    check("xpu_driver", KS_CATEGORY_DRIVER);
    check("privateuse1_driver", KS_CATEGORY_DRIVER);
    check("python_function", KS_CATEGORY_PYTHON);
    check("overhead", KS_CATEGORY_OVERHEAD);
    check("Trace", KS_CATEGORY_TRACE);
    check("kernel", KS_CATEGORY_KERNEL);
    check("Kernel", KS_CATEGORY_KERNEL);
    check("mtia_ccp_events", KS_CATEGORY_KERNEL);
    check("gpu_memcpy", KS_CATEGORY_MEMCPY);
    check("Memcpy", KS_CATEGORY_MEMCPY);
    check("gpu_memset", KS_CATEGORY_MEMSET);
    check("Memset", KS_CATEGORY_MEMSET);
    check("gpu_user_annotation", KS_CATEGORY_GPU_ANNOTATION);
    check("cuda_sync", KS_CATEGORY_GPU_SYNC);
    check("xpu_sync", KS_CATEGORY_GPU_SYNC);
    check("cuda_event", KS_CATEGORY_GPU_SYNC);
    check("cuda_profiler_range", KS_CATEGORY_GPU_OTHER);
    check("collective_comm", KS_CATEGORY_GPU_OTHER);
    check("CPU_OP", KS_CATEGORY_CPU_OP);
    check("cpu_ops", KS_CATEGORY_OTHER_HOST);
    check("mycat", KS_CATEGORY_OTHER_HOST);
    check("a category that is longer than any we know of", KS_CATEGORY_OTHER_HOST);
}

static void test_names(void **state)
{
    (void)state;
    for (int i = 0; i < KS_CATEGORY_COUNT; i++) {
        enum ks_category category = (enum ks_category)i;
        bool is_in_no_file = category == KS_CATEGORY_OTHER_HOST ||
                             category == KS_CATEGORY_GPU_OTHER || category == KS_CATEGORY_REGION;
        if (!is_in_no_file) {
            check(ks_category_name(category), category);
        }
        assert_int_equal(ks_category_is_gpu(category), i >= KS_CATEGORY_KERNEL);
    }
    assert_true(ks_category_is_work(KS_CATEGORY_MEMSET));
    assert_false(ks_category_is_work(KS_CATEGORY_GPU_ANNOTATION));
    assert_false(ks_category_is_work(KS_CATEGORY_GPU_SYNC));
}

static void check_link(const char *name, enum ks_link_kind kind)
{
    enum ks_link_kind got = ks_link_kind_of(ks_str_from(name));
    if (got != kind) {
        fail_msg("\"%s\" is %d", name, (int)got);
    }
}

static void test_links(void **state)
{
    (void)state;
    check_link("cudaLaunchKernel", KS_LINK_KERNEL);
    check_link("cudaLaunchKernelExC", KS_LINK_KERNEL);
    check_link("cuLaunchKernel", KS_LINK_KERNEL);
    check_link("cuLaunchKernelEx", KS_LINK_KERNEL);
    check_link("cudaLaunchCooperativeKernel", KS_LINK_KERNEL);
    check_link("hipLaunchKernel", KS_LINK_KERNEL);
    check_link("hipExtModuleLaunchKernel", KS_LINK_KERNEL);
    check_link("hipModuleLaunchKernel", KS_LINK_KERNEL);
    check_link("cudaGraphLaunch", KS_LINK_GRAPH);
    check_link("hipGraphLaunch", KS_LINK_GRAPH);
    check_link("cudaMemcpyAsync", KS_LINK_MEMCPY);
    check_link("cuMemcpyHtoDAsync_v2", KS_LINK_MEMCPY);
    check_link("cudaMemsetAsync", KS_LINK_MEMSET);
    check_link("cudaGraphAddMemcpyNode", KS_LINK_OTHER);
    check_link("cudaDeviceSynchronize", KS_LINK_OTHER);
    check_link("cudaMalloc", KS_LINK_OTHER);
    check_link("", KS_LINK_OTHER);
}

static void test_communication(void **state)
{
    (void)state;
    assert_true(ks_kernel_is_communication(KS_STR("ncclDevKernel_AllReduce_Sum_f32_RING_LL")));
    assert_true(ks_kernel_is_communication(KS_STR("ncclKernel_AllGather_RING")));
    assert_true(ks_kernel_is_communication(KS_STR("NCCL all_reduce")));
    assert_true(ks_kernel_is_communication(KS_STR("rcclGenericKernel")));
    assert_true(ks_kernel_is_communication(KS_STR("mscclKernel_Sum")));
    assert_false(ks_kernel_is_communication(KS_STR("void at::nccl")));
    assert_false(ks_kernel_is_communication(KS_STR("ncc")));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_find),
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_links),
        cmocka_unit_test(test_communication),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
