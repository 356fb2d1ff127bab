/* What the sanitizers of a fuzz target do unless ASAN_OPTIONS says otherwise. An execution makes
 * some hundred small blocks, so that the cost of one decides how many inputs are tried:
 *
 * - stacks of allocations are not kept: the input that failed is run again with them;
 * - freed blocks are held back for some executions only, and not for 256 MiB of them, each of
 *   whose pages would have to be made anew; what is used after it is freed is used soon;
 * - pages are not given back to the system in between;
 * - new blocks are filled with 0xbe at their begin only. */
const char *__asan_default_options(void);

const char *__asan_default_options(void)
{
    return "malloc_context_size=0:quarantine_size_mb=2:thread_local_quarantine_size_kb=64:"
           "allocator_release_to_os_interval_ms=-1:max_malloc_fill_size=64:"
           "detect_stack_use_after_return=1:strict_string_checks=1";
}
