/* Goal: names of rows and kernels are understood, near misses are not. Method: one line a name. */
#include "analyze/row_names.h"

#include "analyze/tensor_core.h"
#include "cmocka_all.h"

static void check(const char *name, unsigned flags)
{
    unsigned got = ks_row_names_classify(ks_str_from(name));
    if (got != (flags | KS_NAME_KNOWN)) {
        fail_msg("%s: got %x, want %x", name, got, flags | KS_NAME_KNOWN);
    }
}

static void test_rows(void **state)
{
    (void)state;
    check("ProfilerStep#12", KS_NAME_PROFILER_STEP | KS_NAME_STEP);
    check("ProfilerStep#", 0);
    check("ProfilerStep*", 0);
    check("ProfilerStep#1a", 0);
    check("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__",
          KS_NAME_LOADER | KS_NAME_LOADER_SINGLE);
    check("enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__", KS_NAME_LOADER);
    check("enumerate(DataPipe)#Mapper", KS_NAME_LOADER | KS_NAME_LOADER_SINGLE);
    check("Optimizer.step#AdamW.step", KS_NAME_OPTIMIZER | KS_NAME_TRAINING);
    check("Optimizer.zero_grad#AdamW.zero_grad", 0);
    check("autograd::engine::evaluate_function: AddBackward0", KS_NAME_TRAINING | KS_NAME_BACKWARD);
    check("execute_context_1(8)_generation_2(2)", KS_NAME_ENGINE);
    check("step[DECODE bs=4]", KS_NAME_ENGINE);
    check("kinetoscope.step", KS_NAME_MARK);
    check("kinetoscope.step#3", KS_NAME_MARK);
    check("kinetoscope.stepping", 0);
    check("gloo:all_reduce", KS_NAME_HOST_COMM);
    check("aten::stack", KS_NAME_ATEN | KS_NAME_COLLATE | KS_NAME_RESIZE);
    check("aten::mm", KS_NAME_ATEN | KS_NAME_FLOPS | KS_NAME_RESIZE);
    check("aten::is_leaf", KS_NAME_ATEN | KS_NAME_DROPPED);
    check("", 0);
}

static void test_waits(void **state)
{
    (void)state;
    check("cudaStreamSynchronize", KS_NAME_SYNC);
    check("hipEventSynchronize", KS_NAME_SYNC);
    check("zeCommandQueueSynchronize", KS_NAME_SYNC);
    check("urQueueFinish", KS_NAME_SYNC);
    check("cudaStreamWaitEvent", 0);
    check("cudaMemcpy", KS_NAME_SYNC | KS_NAME_COPY);
    check("cuMemcpyDtoH_v2", KS_NAME_SYNC | KS_NAME_COPY);
    check("hipMemcpyWithStream", KS_NAME_SYNC | KS_NAME_COPY);
    check("cudaMemcpyAsync", KS_NAME_COPY);
    check("cudaGraphAddMemcpyNode", 0);
    check("cuMemsetD8Async", KS_NAME_MEMSET);
    check("cudaMalloc", KS_NAME_ALLOCATOR);
    check("cudaFree", KS_NAME_ALLOCATOR);
    check("hipHostMalloc", KS_NAME_ALLOCATOR);
    check("cudaHostAlloc", KS_NAME_ALLOCATOR);
    check("cuMemMap", KS_NAME_ALLOCATOR);
    check("zeMemAllocDevice", KS_NAME_ALLOCATOR);
    check("aten::item", KS_NAME_ATEN | KS_NAME_SYNC | KS_NAME_READS);
    check("aten::_local_scalar_dense", KS_NAME_ATEN | KS_NAME_SYNC | KS_NAME_READS);
    check("aten::nonzero", KS_NAME_ATEN | KS_NAME_SYNC | KS_NAME_READS);
    check("aten::item_like", KS_NAME_ATEN);
    check("aten::to", KS_NAME_ATEN | KS_NAME_MOVE);
    check("aten::copy_", KS_NAME_ATEN | KS_NAME_MOVE);
    check("aten::t", KS_NAME_ATEN | KS_NAME_VIEW | KS_NAME_PASSES);
    check("aten::view", KS_NAME_ATEN | KS_NAME_VIEW);
    check("aten::slice", KS_NAME_ATEN | KS_NAME_VIEW | KS_NAME_RESIZE);
    check("aten::topk", KS_NAME_ATEN | KS_NAME_RESIZE);
    check("aten::lift_fresh", KS_NAME_ATEN | KS_NAME_OUTSIDE);
    check("aten::resolve_neg", KS_NAME_ATEN | KS_NAME_VIEW | KS_NAME_OUTSIDE);
    check("custom::view", 0);
    check("cudaMemsetAsync", KS_NAME_MEMSET);
    check("c10d::barrier", KS_NAME_COMM_WAIT);
    check("_c10d_functional::wait_tensor", KS_NAME_COMM_WAIT);
    check("c10d::allreduce_", 0);
}

static void test_calls(void **state)
{
    (void)state;
    check("cudaLaunchKernel", KS_NAME_LAUNCH);
    check("cuLaunchKernelEx", KS_NAME_LAUNCH);
    check("hipModuleLaunchKernel", KS_NAME_LAUNCH);
    check("cudaGraphLaunch", KS_NAME_LAUNCH | KS_NAME_GRAPH);
    check("cudaGraphAddKernelNode", 0);
    check("cudaEventQuery", 0);
    check("<built-in method run_backward of torch._C._EngineBase>", KS_NAME_RUN_BACKWARD);
    check("torch/_tensor.py(9): backward", 0);
}

static void test_tensor_core(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        bool used;
    } cases[] = {
        {"volta_fp16_s884gemm_fp16_128x64_ldg8_f2f_nn", true},
        {"ampere_bf16_s16816gemm_bf16_128x64_ldg8_f2f_stages_32x6_tn", true},
        {"ampere_sgemm_128x64_tn", false},
        {"sm80_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize32x32x64_kernel", true},
        {"sm80_xmma_gemm_f32f32_f32f32_f32_tn_n_tilesize32x32x8_stage3_ffma_kernel", false},
        {"sm90_xmma_gemm_f32f32_tf32f32_f32_tn_n_tilesize128x128x32_warpgroupsize1x1x1", true},
        {"nvjet_tst_128x256_64x4_1x2_h_bz_coopA_NTT", true},
        {"cutlass3x_sm90_tensorop_s64x128x16gemm_bf16_bf16_f32_void_bf16", true},
        {"void cutlass::Kernel2<cutlass_80_tensorop_bf16_s16816gemm_relu_bf16>", true},
        {"void cutlass::Kernel2<cutlass_80_simt_sgemm_128x64_8x5_nn_align1>", false},
        {"pytorch_flash::flash_fwd_kernel<Flash_fwd_kernel_traits<64, 128, 128, 4>>", true},
        {"pytorch_flash::flash_bwd_dot_do_o_kernel<true>", false},
        {"fmha_cutlassF_bf16_aligned_64x64_rf_sm80", true},
        {"cudnn_generated_fort_native_sdpa_sm90_flash_fprop_wgmma_f16", true},
        {"void at::native::vectorized_elementwise_kernel<4, CUDAFunctor_add<float>>", false},
        {"triton_poi_fused_add_0", false},
        {"ncclDevKernel_AllReduce_Sum_f32_RING_LL", false},
        {"implicit_convolve_sgemm<float, float, 128>", false},
    };
    for (size_t i = 0; i < KS_COUNT_OF(cases); i++) {
        if (ks_tensor_core_is_used(ks_str_from(cases[i].name)) != cases[i].used) {
            fail_msg("%s", cases[i].name);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rows),
        cmocka_unit_test(test_waits),
        cmocka_unit_test(test_calls),
        cmocka_unit_test(test_tensor_core),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
