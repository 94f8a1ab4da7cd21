//! CPU time, quartiles and the state of the machine, for the benchmarks of the filter and the clock.

use std::time::Duration;

/// CPU time of this thread. Waiting for a core does not count.
pub fn thread_cpu_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

pub fn quartiles(values: impl IntoIterator<Item = f64>) -> [f64; 3] {
    let mut values: Vec<f64> = values.into_iter().collect();
    values.sort_by(f64::total_cmp);
    [1, 2, 3].map(|quarter| values[(values.len() - 1) * quarter / 4])
}

/// Processors, load and CPU pressure, as the kernel reports them.
pub fn machine_and_load() -> String {
    let read = |path| std::fs::read_to_string(path).unwrap_or_default();
    let (info, pressure) = (read("/proc/cpuinfo"), read("/proc/pressure/cpu"));
    let cpus = std::thread::available_parallelism().map_or(0, usize::from);
    let model = info.lines().find_map(|line| line.strip_prefix("model name")).unwrap_or(" unknown");
    let load = read("/proc/loadavg").split_whitespace().next().unwrap_or("?").to_string();
    let waiting = pressure.split_whitespace().find_map(|word| word.strip_prefix("avg10=")).unwrap_or("?");
    let model = model.trim_start_matches([' ', '\t', ':']);
    format!("machine: {cpus} × {model}; load {load}, CPU pressure {waiting} %")
}
