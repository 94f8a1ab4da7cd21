//! What whoever opens a member is told: at once if it cannot be, and by requests if it cannot reach the others.

use std::net::TcpListener;
use std::time::{Duration, Instant};

use futures_executor::block_on;
use jeton_register::{Error, LogId, Registers, Slot, WriteResult};
use jeton_register_raft::{Member, OpenError, RaftRegisters, Secret, Settings};
use jeton_testbed::free_address;

use crate::cluster::{Cluster, insist, write};

const LOG: LogId = LogId::partition(8);
/// How long a request may take in these tests, and how much longer a busy machine may take to say that it did not work out.
const REQUEST: Duration = Duration::from_secs(5);
const SLACK: Duration = Duration::from_secs(3);

fn hasty(settings: &mut Settings) {
    settings.timing.request = REQUEST;
}

#[test]
fn settings_that_cannot_be_are_refused() {
    let cluster = Cluster::new(true, |_| {});
    let refused = |change: &dyn Fn(&mut Settings)| {
        let mut settings = cluster.settings(1);
        settings.listen = Some(free_address().unwrap());
        change(&mut settings);
        RaftRegisters::open(settings).err().unwrap().to_string()
    };
    assert!(refused(&|settings| settings.members.truncate(2)).contains("three or five"));
    assert!(refused(&|settings| settings.members[1].id = 1).contains("three or five"));
    assert!(refused(&|settings| settings.me = 9).contains("not the number of a member"));
    assert!(refused(&|settings| settings.secret = Secret::new("short")).contains("secret"));
    assert!(refused(&|settings| settings.secret = Secret::new([1; 1025])).contains("secret"));
    assert!(refused(&|settings| settings.timing.election = Duration::ZERO).contains("heartbeat"));
    assert!(refused(&|settings| settings.timing.request = Duration::MAX).contains("longer"));
    assert!(refused(&|settings| settings.members[1].address.set_port(0)).contains("no port"));
    assert!(refused(&|settings| settings.members[1].address = settings.members[2].address).contains("same"));
    assert!(refused(&|settings| settings.state_bytes_max = usize::MAX).contains("state_bytes_max"));
}

#[test]
fn a_port_or_a_folder_in_use_is_named() {
    let cluster = Cluster::new(false, |_| {});
    let address = cluster.settings(1).members[0].address;
    let taken = TcpListener::bind(address).unwrap();
    let error = RaftRegisters::open(cluster.settings(1)).err().unwrap();
    assert!(
        matches!(error, OpenError::Io { .. }) && error.to_string().contains(&address.to_string()),
        "{error}"
    );
    drop(taken);
    // And what was opened before that was let go.
    cluster.start(1);
    let mut settings = cluster.settings(1);
    settings.listen = Some(free_address().unwrap());
    let error = RaftRegisters::open(settings).err().unwrap();
    assert!(matches!(error, OpenError::Log(_)), "{error:?}");
}

/// A member that is alone is told why, in its time: nobody is there, or somebody else is.
#[test]
fn who_reaches_nobody_is_told_why() {
    let cluster = Cluster::new(true, hasty);
    cluster.start(2);
    cluster.start(3);
    let mut settings = cluster.settings(1);
    settings.secret = Secret::new("not the secret of the tests");
    // Member 3 is where it is not, and does not answer to the number of another.
    let [_, two, three] = &mut settings.members[..] else { panic!("three members") };
    three.address = cluster.settings(2).members[1].address;
    two.address = cluster.settings(3).members[2].address;
    let two_is = two.address;
    let member = RaftRegisters::open(settings.clone()).unwrap();
    let failed = write(&member, LOG, 1, b"value").unwrap_err();
    let Error::Unavailable(why) = &failed else { panic!("{failed:?}") };
    assert!(why.contains("it is not member 2") && why.contains("it is not member 3"), "{why}");
    drop(member);
    settings = cluster.settings(1);
    settings.secret = Secret::new("not the secret of the tests");
    let member = RaftRegisters::open(settings.clone()).unwrap();
    let failed = block_on(member.extent(LOG)).unwrap_err();
    let Error::Unavailable(why) = &failed else { panic!("{failed:?}") };
    assert!(why.contains("it does not know the secret"), "{why}");
    assert!(member.members()[1].trouble.as_ref().is_some_and(|why| why.contains("secret")));
    drop(member);
    // It knows the secret, but is no member by the settings of the others.
    settings = cluster.settings(1);
    settings.me = 7;
    settings.members[0].id = 7;
    let member = RaftRegisters::open(settings).unwrap();
    let failed = write(&member, LOG, 1, b"value").unwrap_err();
    assert!(
        matches!(&failed, Error::Unavailable(why) if why.contains("does not know member 7")),
        "{failed:?}"
    );
    assert_ne!(two_is, member.address());
}

/// Three that know of three, and one of these of five: a majority of the one need not meet one of the other.
#[test]
fn members_that_disagree_on_who_they_are_do_not_begin() {
    let cluster = Cluster::new(true, |settings| {
        hasty(settings);
        if settings.me == 2 {
            settings.members.extend([4, 5].map(|id| Member { id, address: free_address().unwrap() }));
        }
    });
    cluster.start_all();
    let failed = write(&cluster.member(1), LOG, 1, b"value").unwrap_err();
    let Error::Unavailable(why) = &failed else { panic!("{failed:?}") };
    assert!(why.contains("member 2 has members [1, 2, 3, 4, 5]"), "{why}");
    assert!(cluster.leader().is_none());
}

/// Nobody tells it: what it says goes nowhere. Every request ends in its time, those that wait behind another, too.
#[test]
fn a_member_that_is_cut_off_says_so_in_its_time() {
    let cluster = Cluster::new(false, hasty);
    cluster.start_all();
    cluster.await_whole();
    assert_eq!(insist(&cluster.member(1), LOG, 1, b"one"), WriteResult::Fresh);
    // The leader, and one that follows.
    let leader = cluster.await_leader();
    let follower = cluster.ids().into_iter().find(|&id| id != leader).unwrap();
    for id in [leader, follower] {
        cluster.isolate(id);
        let member = cluster.member(id);
        std::thread::scope(|scope| {
            for caller in 0..4u64 {
                let member = &member;
                scope.spawn(move || {
                    // Some come while the others wait.
                    std::thread::sleep(Duration::from_millis(400) * caller as u32);
                    let begin = Instant::now();
                    let failed = write(member, LOG, 10 + caller, b"cut off").unwrap_err();
                    assert!(matches!(failed, Error::Unknown(_) | Error::Unavailable(_)), "{failed:?}");
                    assert!(begin.elapsed() < REQUEST + SLACK, "a write took {:?}", begin.elapsed());
                });
                scope.spawn(move || {
                    std::thread::sleep(Duration::from_millis(400) * caller as u32);
                    let begin = Instant::now();
                    let failed = block_on(member.read(LOG, Slot(1), 1)).unwrap_err();
                    assert!(matches!(failed, Error::Unavailable(_)), "{failed:?}");
                    assert!(begin.elapsed() < REQUEST + SLACK, "a read took {:?}", begin.elapsed());
                });
            }
        });
        // Once it knows that it is alone, nothing is in doubt. A leader, too: it does not go on filling its log.
        cluster.await_that("it knows", || member.leader().is_none().then_some(()));
        let failed = write(&member, LOG, 20, b"cut off").unwrap_err();
        assert!(matches!(failed, Error::Unavailable(_)), "{failed:?}");
        cluster.rejoin(id);
        cluster.await_whole();
        assert_eq!(insist(&member, LOG, 1, b"another"), WriteResult::Taken("one".into()));
    }
}
