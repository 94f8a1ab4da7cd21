//! A follower: an engine that replays the frames of a stripe as they become durable and serves no requests,
//! until it becomes the owner without a reload.
//
// Signatures first; the bodies follow. All calls block (`spawn_blocking`, or a thread for each stripe).
//
// impl<R: Registers> Follower<R> {
//     /// Opens the directory, replays the log to its end. `options.partitions` is set from the stripe.
//     pub fn open(registers: Arc<R>, deployment: Deployment, number: u16, me: Owner, folder: &Path,
//         options: jeton_engine::Options) -> Result<Self, FollowError>;
//     /// The frame of a slot, pushed by the owner. False if it was dropped because it does not follow what the
//     /// follower has (a gap, or known already): then `catch_up`, at the next tick at the latest.
//     pub fn accept(&mut self, slot: Slot, frame: &Bytes) -> Result<bool, FollowError>;
//     /// Reads the registers to the end. The chain has `owner()`, `term()`, `next()`, `catalog()`.
//     pub fn catch_up(&mut self) -> Result<&Chain, FollowError>;
//     pub fn chain(&self) -> &Chain;
//     pub fn engine(&self) -> &Engine<StripeLog<R>>;   // requests get EngineError::Moved
//     /// Catches up, claims the stripe, and serves. `suspected` is the owner that is believed to be gone; `None`
//     /// if the stripe has no owner (it has yielded, or there never was one). Gives up if the log shows another
//     /// owner than that, or that the owner is alive.
//     pub fn promote(self, suspected: Option<Owner>)
//         -> Result<(Arc<StripeLog<R>>, Engine<StripeLog<R>>), NotPromoted<R>>;
//     pub fn close(self);                              // joins threads, releases the directory
// }
// pub struct NotPromoted<R> { pub follower: Box<Follower<R>>, pub why: PromoteError }
// pub enum PromoteError { GaveUp(Option<Owner>), Follow(FollowError), ClockAhead(..), ... }
// FollowError::is_temporary(): registers away, checkpoints lag behind: call again. Otherwise: close, open again.
//
// On the owner's StripeLog:
//     /// Durable frames from now on. A subscriber that is slow is dropped (`recv` returns None): it must read
//     /// the registers.
//     pub fn subscribe(&self) -> tokio::sync::mpsc::Receiver<(Slot, Bytes)>;
//     /// Idle owners write a proof after this time; default 10 s.
//     pub fn set_proof_interval(&self, interval: Duration);
// A deposed or yielded owner: `log.is_deposed()`; then engine.close(), drop engine and log, Follower::open.
// Engine: `refresh_tables() -> Result<u64, TableError>`: adopts a newer catalogue; returns its version.
