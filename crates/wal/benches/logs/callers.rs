//! The wal with many callers, each of which appends one entry and waits for it, on one thread, like the tasks
//! of a server.

use std::collections::VecDeque;
use std::path::Path;
use std::pin::Pin;
use std::sync::{Arc, Condvar, Mutex};
use std::task::{Context, Poll, Wake, Waker};

use jeton_wal::disk::RealDisk;
use jeton_wal::{Batch, DurableAt, LogId, Options, Slot, Wal};

use crate::{GROUP, Subject, VALUE};

/// The callers that can go on.
#[derive(Default)]
struct Ready {
    callers: Mutex<VecDeque<usize>>,
    some: Condvar,
}

struct Caller {
    index: usize,
    ready: Arc<Ready>,
}

impl Wake for Caller {
    fn wake(self: Arc<Self>) {
        let mut callers = self.ready.callers.lock().expect("nobody panics here");
        callers.push_back(self.index);
        if callers.len() == 1 {
            self.ready.some.notify_one();
        }
    }
}

/// Callers that each have one append in flight.
pub struct Callers {
    name: String,
    wal: Wal<RealDisk>,
    ready: Arc<Ready>,
    wakers: Vec<Waker>,
    answers: Vec<DurableAt>,
    slots: Vec<u64>,
}

impl Callers {
    pub fn new(folder: &Path, callers: usize) -> Self {
        let disk = RealDisk::new(folder).expect("the folder can be made");
        let wal = Wal::open(disk, Options::default()).expect("the wal opens");
        let ready = Arc::new(Ready::default());
        let waker = |index| Waker::from(Arc::new(Caller { index, ready: Arc::clone(&ready) }));
        let wakers = (0..callers).map(waker).collect();
        let mut callers_ = Self {
            name: format!("ours, {callers} callers with one entry each"),
            wal,
            ready: Arc::clone(&ready),
            wakers,
            answers: Vec::new(),
            slots: vec![0; callers],
        };
        for index in 0..callers {
            let answer = callers_.write(index);
            callers_.answers.push(answer);
            ready.callers.lock().expect("nobody panics here").push_back(index);
        }
        callers_
    }

    fn write(&mut self, index: usize) -> DurableAt {
        self.slots[index] += 1;
        let mut batch = Batch::new();
        batch.push(LogId(index as u16), Slot(self.slots[index]), &VALUE);
        loop {
            match self.wal.reserve(1, VALUE.len()) {
                Ok(reservation) => {
                    return self.wal.append(&batch, reservation).expect("the space is reserved");
                }
                Err(_) => std::thread::yield_now(),
            }
        }
    }
}

impl Subject for Callers {
    fn name(&self) -> &str {
        &self.name
    }

    /// Waits for as many appends as a group has entries.
    fn group(&mut self) -> usize {
        let mut answered = 0;
        while answered < GROUP {
            let woken = {
                let mut callers = self.ready.callers.lock().expect("nobody panics here");
                while callers.is_empty() {
                    callers = self.ready.some.wait(callers).expect("nobody panics here");
                }
                std::mem::take(&mut *callers)
            };
            for index in woken {
                let waker = self.wakers[index].clone();
                let mut context = Context::from_waker(&waker);
                while let Poll::Ready(answer) = Pin::new(&mut self.answers[index]).poll(&mut context) {
                    answer.expect("the disk works");
                    answered += 1;
                    self.answers[index] = self.write(index);
                }
            }
        }
        answered
    }
}
