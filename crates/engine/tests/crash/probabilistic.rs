//! Kills of a probabilistic table, with one row an id: a row is 1 if its id counted. Every id is sent again
//! until no response is missing, and then once more.

use jeton_testkit::Rng;

use crate::child::TARGET;
use crate::driver::{Victim, uuid};

/// Maximum number of new ids between two kills.
const IDS_MAX: u64 = 6_000;

#[derive(Clone)]
struct Id {
    text: String,
    counted: bool,
    /// Whether the latest response was `probably-seen`.
    probably: bool,
    answered: bool,
}

struct Ids {
    ids: Vec<Id>,
    /// Ids that counted after a response `probably-seen`.
    late: u64,
}

impl Ids {
    fn take(&mut self, line: &str) {
        let words: Vec<&str> = line.split(' ').collect();
        let id = &mut self.ids[words[0].parse::<usize>().expect("a number")];
        match words[1..] {
            ["fresh", "true", value, _, _] => {
                assert!(!id.counted && value == "1", "{} counted twice: {line}", id.text);
                self.late += u64::from(id.probably);
                (id.counted, id.answered) = (true, true);
            }
            ["probably-seen"] => (id.probably, id.answered) = (true, true),
            ["busy"] => {}
            _ => panic!("{}: {line}", id.text),
        }
    }

    fn request(&self, number: usize) -> String {
        format!("add {number} id-{number} 1 {}", self.ids[number].text)
    }

    /// Sends again what has no response, and what the filter reported as known.
    fn send_uncounted(&mut self, victim: &mut Victim) {
        let uncounted = (0..self.ids.len()).filter(|number| !self.ids[*number].counted).collect();
        self.send(victim, uncounted);
    }

    /// Sends ids until each has a response.
    fn send(&mut self, victim: &mut Victim, mut numbers: Vec<usize>) {
        while !numbers.is_empty() {
            let requests: Vec<String> = numbers.iter().map(|number| self.request(*number)).collect();
            victim.exchange(requests.into_iter(), |line| self.take(line));
            numbers.retain(|number| !self.ids[*number].answered);
        }
    }
}

pub fn run(rounds: u64, seed: u64) {
    let folder = tempfile::tempdir().expect("a folder");
    let mut rng = Rng::new(seed ^ 1);
    let mut ids = Ids { ids: Vec::new(), late: 0 };
    for _ in 0..rounds {
        let mut victim = Victim::start(folder.path(), 1 + rng.below(3), "probabilistic");
        ids.send_uncounted(&mut victim);
        let first = ids.ids.len();
        let new = (0..rng.below(IDS_MAX)).map(|_| Id {
            text: uuid(&mut rng),
            counted: false,
            probably: false,
            answered: false,
        });
        ids.ids.extend(new);
        let sent: Vec<usize> = (first..ids.ids.len()).collect();
        ids.send(&mut victim, sent[..sent.len() / 2].to_vec());
        // The rest is in flight when the process is killed.
        for number in sent.iter().skip(sent.len() / 2).take(200) {
            victim.send(&ids.request(*number));
        }
        victim.kill().iter().for_each(|line| ids.take(line));
    }
    let mut victim = Victim::start(folder.path(), 2, "probabilistic");
    ids.send_uncounted(&mut victim);
    ids.send(&mut victim, (0..ids.ids.len()).collect());
    let mut never = 0;
    let gets = (0..ids.ids.len()).map(|number| format!("get {number} id-{number}"));
    victim.exchange(gets, |line| {
        let words: Vec<&str> = line.split(' ').collect();
        let id = &ids.ids[words[0].parse::<usize>().expect("a number")];
        match words[2] {
            "1" => {}
            "0" if !id.counted => never += 1,
            value => panic!("the id {} is at {value}", id.text),
        }
    });
    // Three standard deviations above the target.
    let expected = ids.ids.len() as f64 * TARGET;
    let most = expected + 3.0 * expected.sqrt();
    assert!(f64::from(never) <= most, "{never} of {} ids never counted", ids.ids.len());
    println!(
        "probabilistic: {} ids, {rounds} kills, none counted twice, {never} never, {} after probably-seen",
        ids.ids.len(),
        ids.late
    );
}
