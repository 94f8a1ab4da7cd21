//! Bursts: requests that came together and are answered together, once, when the last of them is. Who sends fifty requests at a time
//! is then woken once and not fifty times.

use tokio::sync::oneshot;

use crate::reply::{Refusal, Response};

/// The most requests of a burst.
pub const BURST_MAX: usize = 4096;

/// Who gets the responses to a burst, in the order of its requests.
pub type Reply = oneshot::Sender<Vec<Response>>;

/// The bursts of a shard that are not answered yet. Dropping it lets all of them go unanswered.
#[derive(Debug, Default)]
pub struct Bursts {
    places: Vec<Option<Burst>>,
    free: Vec<u32>,
}

#[derive(Debug)]
struct Burst {
    responses: Vec<Response>,
    left: usize,
    reply: Reply,
}

impl Bursts {
    /// A burst of so many requests: its number.
    pub fn begin(&mut self, requests: usize, reply: Reply) -> u32 {
        assert!((1..=BURST_MAX).contains(&requests), "a burst of {requests}");
        let nothing_yet = Response::Applied(Err(Refusal::Closed));
        let burst = Some(Burst { responses: vec![nothing_yet; requests], left: requests, reply });
        match self.free.pop() {
            Some(place) => {
                self.places[place as usize] = burst;
                place
            }
            None => {
                self.places.push(burst);
                (self.places.len() - 1) as u32
            }
        }
    }

    /// The response to one of its requests; with the last, the burst is to be answered.
    pub fn answered(&mut self, burst: u32, at: u32, response: Response) -> Option<(Reply, Vec<Response>)> {
        let place = &mut self.places[burst as usize];
        let Some(open) = place else { unreachable!("a request is answered once") };
        open.responses[at as usize] = response;
        open.left -= 1;
        if open.left > 0 {
            return None;
        }
        self.free.push(burst);
        place.take().map(|burst| (burst.reply, burst.responses))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn response(number: usize) -> Response {
        Response::Applied(Err(Refusal::Storage(number.to_string())))
    }

    #[test]
    fn a_burst_is_answered_with_its_last_response_in_the_order_of_its_requests() {
        let mut bursts = Bursts::default();
        let (reply, mut answer) = oneshot::channel();
        let first = bursts.begin(3, reply);
        let (reply, _other) = oneshot::channel();
        let second = bursts.begin(1, reply);
        assert_ne!(first, second);
        assert!(bursts.answered(first, 2, response(2)).is_none());
        assert!(bursts.answered(second, 0, response(9)).is_some());
        assert!(bursts.answered(first, 0, response(0)).is_none());
        let (reply, responses) = bursts.answered(first, 1, response(1)).expect("the last one");
        assert_eq!(responses, [response(0), response(1), response(2)]);
        reply.send(responses).expect("somebody waits");
        assert!(answer.try_recv().is_ok());
        // Both places are free again.
        let (reply, _waits) = oneshot::channel();
        assert!(bursts.begin(2, reply) <= 1);
        assert_eq!(bursts.places.len(), 2);
    }
}
