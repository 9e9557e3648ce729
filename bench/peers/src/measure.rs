//! Thread CPU time, random numbers and the heap: as in ../ecs/measure.hpp and ../random.hpp.
/// Bytes that the program has taken from the heap and not given back, C code as well.
pub fn live_bytes() -> usize {
    unsafe { libc::mallinfo2() }.uordblks
}

/// The pages of later worlds are taken and touched here, and never given back.
pub fn touch_heap(mib: usize) {
    unsafe {
        libc::mallopt(libc::M_MMAP_MAX, 0);
        libc::mallopt(libc::M_TRIM_THRESHOLD, -1);
        libc::mallopt(libc::M_TOP_PAD, 64 << 20);
    }
    let touched: Vec<Vec<u8>> = (0..mib).map(|_| vec![1u8; 1 << 20]).collect();
    std::hint::black_box(&touched);
}

#[derive(Clone, Copy)]
pub enum Clock {
    Thread,
    /// For loops on several threads.
    Wall,
}
impl Clock {
    fn ns(self) -> f64 {
        let id = if let Clock::Wall = self { libc::CLOCK_MONOTONIC } else { libc::CLOCK_THREAD_CPUTIME_ID };
        let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        unsafe { libc::clock_gettime(id, &mut time) };
        time.tv_sec as f64 * 1e9 + time.tv_nsec as f64
    }
    fn timed(self, work: impl FnOnce()) -> f64 {
        let start = self.ns();
        work();
        self.ns() - start
    }
}

pub fn timed(work: impl FnOnce()) -> f64 {
    Clock::Thread.timed(work)
}

/// Mean time of a pass an operation, after one that is not timed.
pub fn timed_passes(clock: Clock, operations: usize, mut pass: impl FnMut()) -> f64 {
    pass();
    let passes = 4_000_000 / operations + 1;
    clock.timed(|| (0..passes).for_each(|_| pass())) / passes as f64 / operations as f64
}

/// Empties the caches of data: reads more than they hold.
pub fn evict_caches() {
    let filler = vec![1u64; 96 << 17]; // 96 MiB
    std::hint::black_box(filler.iter().step_by(8).sum::<u64>());
}

pub fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    let n = values.len();
    if n % 2 == 1 {
        values[n / 2]
    } else {
        (values[n / 2 - 1] + values[n / 2]) / 2.0
    }
}

pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Self {
        Random(seed)
    }
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e3779b97f4a7c15);
        let v = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58476d1ce4e5b9);
        let v = (v ^ (v >> 27)).wrapping_mul(0x94d049bb133111eb);
        v ^ (v >> 31)
    }
    pub fn below(&mut self, count: usize) -> usize {
        (((self.next() >> 32) * count as u64) >> 32) as usize
    }
}

pub fn shuffle<T>(values: &mut [T], seed: u64) {
    let mut random = Random::new(seed);
    for i in (2..=values.len()).rev() {
        values.swap(i - 1, random.below(i));
    }
}
