//! Errors of a start: invalid settings at once, unreachable or different members by requests.

use std::net::TcpListener;
use std::time::{Duration, Instant};

use futures_executor::block_on;
use jeton_register::{Error, LogId, Registers, Slot, WriteResult};
use jeton_register_raft::{Member, OpenError, RaftRegisters, Secret, Settings};
use jeton_testbed::free_address;

use crate::cluster::{Cluster, insist, write};

const LOG: LogId = LogId::partition(8);
/// The request timeout in these tests, and how much later the error may come on a loaded machine.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(5);
const SLACK: Duration = Duration::from_secs(3);

fn short_timeout(settings: &mut Settings) {
    settings.timing.request = REQUEST_TIMEOUT;
}

#[test]
fn invalid_settings_are_refused() {
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
fn port_or_directory_in_use_is_named() {
    let cluster = Cluster::new(false, |_| {});
    let address = cluster.settings(1).members[0].address;
    let taken = TcpListener::bind(address).unwrap();
    let error = RaftRegisters::open(cluster.settings(1)).err().unwrap();
    assert!(
        matches!(error, OpenError::Io { .. }) && error.to_string().contains(&address.to_string()),
        "{error}"
    );
    drop(taken);
    // The directory that was opened before is released.
    cluster.start(1);
    let mut settings = cluster.settings(1);
    settings.listen = Some(free_address().unwrap());
    let error = RaftRegisters::open(settings).err().unwrap();
    assert!(matches!(error, OpenError::Log(_)), "{error:?}");
}

/// Another member at the address, another secret, or an unknown number.
#[test]
fn requests_of_an_isolated_member_name_the_reason() {
    let cluster = Cluster::new(true, short_timeout);
    cluster.start(2);
    cluster.start(3);
    let mut settings = cluster.settings(1);
    settings.secret = Secret::new("another secret of the tests");
    // Members 2 and 3 have each other's address.
    let [_, two, three] = &mut settings.members[..] else { panic!("three members") };
    three.address = cluster.settings(2).members[1].address;
    two.address = cluster.settings(3).members[2].address;
    let two_is = two.address;
    let member = RaftRegisters::open(settings.clone()).unwrap();
    let failed = write(&member, LOG, 1, b"value").unwrap_err();
    let Error::Unavailable(why) = &failed else { panic!("{failed:?}") };
    assert!(why.contains("it is not node 2") && why.contains("it is not node 3"), "{why}");
    drop(member);
    settings = cluster.settings(1);
    settings.secret = Secret::new("another secret of the tests");
    let member = RaftRegisters::open(settings.clone()).unwrap();
    let failed = block_on(member.extent(LOG)).unwrap_err();
    let Error::Unavailable(why) = &failed else { panic!("{failed:?}") };
    assert!(why.contains("it does not know the secret"), "{why}");
    assert!(member.members()[1].last_error.as_ref().is_some_and(|why| why.contains("secret")));
    drop(member);
    // It knows the secret, but is not in the settings of the others.
    settings = cluster.settings(1);
    settings.me = 7;
    settings.members[0].id = 7;
    let member = RaftRegisters::open(settings).unwrap();
    let failed = write(&member, LOG, 1, b"value").unwrap_err();
    assert!(matches!(&failed, Error::Unavailable(why) if why.contains("does not know node 7")), "{failed:?}");
    assert_ne!(two_is, member.address());
}

/// Two members are configured with three members, one with five: majorities need not overlap.
#[test]
fn members_with_different_settings_do_not_bootstrap() {
    let cluster = Cluster::new(true, |settings| {
        short_timeout(settings);
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

/// Its traffic is dropped silently. Every request ends within its timeout, also those behind others in the
/// queue.
#[test]
fn requests_of_a_partitioned_member_time_out() {
    let cluster = Cluster::new(false, short_timeout);
    cluster.start_all();
    cluster.await_whole();
    assert_eq!(insist(&cluster.member(1), LOG, 1, b"one"), WriteResult::Fresh);
    // The leader and a follower.
    let leader = cluster.await_leader();
    let follower = cluster.ids().into_iter().find(|&id| id != leader).unwrap();
    for id in [leader, follower] {
        cluster.isolate(id);
        let member = cluster.member(id);
        std::thread::scope(|scope| {
            for caller in 0..4u64 {
                let member = &member;
                scope.spawn(move || {
                    // Some are submitted while others wait.
                    std::thread::sleep(Duration::from_millis(400) * caller as u32);
                    let begin = Instant::now();
                    let failed = write(member, LOG, 10 + caller, b"partitioned").unwrap_err();
                    assert!(matches!(failed, Error::Unknown(_) | Error::Unavailable(_)), "{failed:?}");
                    assert!(begin.elapsed() < REQUEST_TIMEOUT + SLACK, "a write took {:?}", begin.elapsed());
                });
                scope.spawn(move || {
                    std::thread::sleep(Duration::from_millis(400) * caller as u32);
                    let begin = Instant::now();
                    let failed = block_on(member.read(LOG, Slot(1), 1)).unwrap_err();
                    assert!(matches!(failed, Error::Unavailable(_)), "{failed:?}");
                    assert!(begin.elapsed() < REQUEST_TIMEOUT + SLACK, "a read took {:?}", begin.elapsed());
                });
            }
        });
        // Once it knows, no outcome is unknown. A leader stops appending to its log, too.
        cluster.await_that("no leader", || member.leader().is_none().then_some(()));
        let failed = write(&member, LOG, 20, b"partitioned").unwrap_err();
        assert!(matches!(failed, Error::Unavailable(_)), "{failed:?}");
        cluster.rejoin(id);
        cluster.await_whole();
        assert_eq!(insist(&member, LOG, 1, b"another"), WriteResult::Taken("one".into()));
    }
}
