//! Makes the allocator return freed memory to the system.
//!
//! By default the allocator of glibc takes ever larger blocks from its arenas, of which there are eight for
//! each processor, and keeps them: after a flood of large requests the server would hold twice the memory
//! that it uses. With these settings a large block is a mapping of its own, which ends when it is freed.

#[cfg(all(target_os = "linux", target_env = "gnu"))]
pub fn return_freed_memory() {
    const LARGE: i32 = 128 << 10;
    const ARENAS: i32 = 4;
    for (setting, value) in
        [(libc::M_MMAP_THRESHOLD, LARGE), (libc::M_TRIM_THRESHOLD, LARGE), (libc::M_ARENA_MAX, ARENAS)]
    {
        // SAFETY: mallopt takes two numbers by value and may be called at any time.
        #[allow(unsafe_code, reason = "there is no safe function for it")]
        let _unchanged_on_error = unsafe { libc::mallopt(setting, value) };
    }
}

#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
pub fn return_freed_memory() {}
