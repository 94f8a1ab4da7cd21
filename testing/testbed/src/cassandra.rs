//! A Cassandra cluster of three nodes on 127.0.0.1 to 127.0.0.3.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use rustix::process::Signal;

use crate::cassandra_jars::{VERSION, jars, java};
use crate::server::{Server, bound_command};

/// The nodes of a cluster.
pub const NODES: usize = 3;

/// Set where a missing Cassandra is a failure.
const REQUIRED: &str = "JETON_REQUIRE_CASSANDRA";

/// The limit for the start of a node. All three start together, possibly beside other builds.
const START_TIMEOUT: Duration = Duration::from_secs(180);

const PROBE_TIMEOUT: Duration = Duration::from_secs(5);

/// Settings of all nodes that differ from the defaults: safe for conditional writes, small, quick to start.
const SETTINGS: &[(&str, &str)] = &[
    ("cluster_name", "jeton"),
    ("num_tokens", "1"),
    ("auto_bootstrap", "false"),
    ("partitioner", "org.apache.cassandra.dht.Murmur3Partitioner"),
    ("endpoint_snitch", "SimpleSnitch"),
    ("commitlog_sync", "batch"),
    ("commitlog_segment_size", "16MiB"),
    ("commitlog_total_space", "128MiB"),
    ("paxos_variant", "v2"),
    ("paxos_state_purging", "repaired"),
    ("paxos_on_linearizability_violations", "fail"),
    ("storage_compatibility_mode", "NONE"),
    ("memtable_heap_space", "96MiB"),
    ("memtable_offheap_space", "32MiB"),
    ("file_cache_size", "32MiB"),
    ("networking_cache_size", "16MiB"),
    ("key_cache_size", "8MiB"),
    ("counter_cache_size", "8MiB"),
    ("concurrent_reads", "8"),
    ("concurrent_writes", "8"),
    ("concurrent_counter_writes", "8"),
    ("concurrent_compactors", "1"),
    ("native_transport_max_threads", "16"),
    ("dynamic_snitch", "false"),
    ("internode_compression", "none"),
    ("auto_snapshot", "false"),
    ("disk_failure_policy", "die"),
    ("commit_failure_policy", "die"),
];

const LOGBACK: &str = "<configuration>
<appender name=\"F\" class=\"ch.qos.logback.core.FileAppender\"><file>${cassandra.logdir}/system.log</file>
<encoder><pattern>%-5level %date{ISO8601} %F:%L - %msg%n</pattern></encoder></appender>
<root level=\"INFO\"><appender-ref ref=\"F\"/></root></configuration>";

/// What the scripts of the distribution pass to Java 17, without a collector for large heaps, and what
/// shortens the start.
const JVM: &[&str] = &[
    "-ea",
    "-da:net.openhft...",
    "-Xss256k",
    "-Xms512M",
    "-Xmx512M",
    "-XX:MaxDirectMemorySize=256M",
    "-XX:+UseSerialGC",
    "-XX:+PerfDisableSharedMem",
    "-XX:+ExitOnOutOfMemoryError",
    "-Djava.net.preferIPv4Stack=true",
    "-Dchronicle.analytics.disable=true",
    "-Djdk.attach.allowAttachSelf=true",
    "-Dio.netty.tryReflectionSetAccessible=true",
    "-Dlogback.configurationFile=logback.xml",
    "-Dcassandra-foreground=yes",
    "-Dcassandra.ring_delay_ms=1000",
    "-Dcassandra.skip_wait_for_gossip_to_settle=0",
    "-Dcassandra.consistent.rangemovement=false",
    "-Dcassandra.superuser_setup_delay_ms=0",
    "-Dcassandra.shutdown_announce_in_ms=0",
];

const EXPORTS: &[&str] = &[
    "java.base/jdk.internal.misc",
    "java.base/java.lang.ref",
    "java.management.rmi/com.sun.jmx.remote.internal.rmi",
    "java.management/com.sun.jmx.remote.security",
    "java.rmi/sun.rmi.registry",
    "java.rmi/sun.rmi.server",
    "java.sql/java.sql",
    "jdk.unsupported/sun.misc",
];

const OPENS: &[&str] = &[
    "java.base/java.io",
    "java.base/java.lang",
    "java.base/java.lang.module",
    "java.base/java.lang.reflect",
    "java.base/java.nio",
    "java.base/java.util",
    "java.base/jdk.internal.loader",
    "java.base/jdk.internal.math",
    "java.base/jdk.internal.module",
    "java.base/jdk.internal.ref",
    "java.base/jdk.internal.reflect",
    "java.base/jdk.internal.util.jar",
    "java.base/sun.nio.ch",
    "jdk.management/com.sun.management.internal",
];

/// How the Java programs are compiled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Compilation {
    /// For tests: a quick start.
    Quick,
    /// For benchmarks: the best code.
    Full,
}

/// A cluster with a folder and ports of its own.
pub struct Cassandra {
    nodes: Vec<Option<Server>>,
    settings: Vec<BTreeMap<String, String>>,
    folder: PathBuf,
    jars: PathBuf,
    java: PathBuf,
    compilation: Compilation,
    port: u16,
    storage_port: u16,
}

impl Cassandra {
    /// Fetches Cassandra if necessary. The error says why there is none on this machine.
    pub fn prepare() -> Result<()> {
        java()?;
        jars().map(drop)
    }

    /// Whether the tests with Cassandra are to run: if the environment requires them, which is not the
    /// default as long as some starts fail (docs/known-gaps.md). Otherwise a line is written to standard
    /// error, also if the test harness captures the output. Panics if they are required and there is no
    /// Cassandra.
    pub fn is_required() -> bool {
        if std::env::var_os(REQUIRED).is_some() {
            Self::prepare().expect("Cassandra is required");
            return true;
        }
        let text = format!("\n!!! SKIPPED: the tests with Cassandra: set {REQUIRED}=1 to run them\n");
        let _closed = std::io::stderr().write_all(text.as_bytes());
        false
    }

    /// Starts three nodes in a folder and waits until each one reaches all. `settings` override those of the
    /// testbed.
    pub fn start(folder: &Path, settings: &[(&str, &str)], compilation: Compilation) -> Result<Self> {
        let (java, jars) = (java()?, jars()?);
        let [port, storage_port] = [crate::free_address()?.port(), crate::free_address()?.port()];
        let all: BTreeMap<String, String> = SETTINGS
            .iter()
            .chain(settings)
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
            .collect();
        let settings = vec![all; NODES];
        let nodes = (0..NODES).map(|_| None).collect();
        let folder = folder.to_owned();
        let mut cluster = Self { nodes, settings, folder, jars, java, compilation, port, storage_port };
        for node in 0..NODES {
            cluster.launch(node)?;
        }
        cluster.await_ready()?;
        Ok(cluster)
    }

    /// Where a node accepts clients.
    pub fn address(&self, node: usize) -> SocketAddr {
        (host(node), self.port).into()
    }

    /// The URL of a keyspace for clients.
    pub fn url(&self, keyspace: &str) -> String {
        let nodes: Vec<String> = (0..NODES).map(|node| self.address(node).to_string()).collect();
        format!("cassandra://{}/{keyspace}", nodes.join(","))
    }

    /// The version, for reports.
    pub fn version() -> &'static str {
        VERSION
    }

    /// Changes a setting of a node for its next start.
    pub fn set(&mut self, node: usize, name: &str, value: &str) {
        self.settings[node].insert(name.to_owned(), value.to_owned());
    }

    /// Changes a setting of a node to its default for its next start.
    pub fn unset(&mut self, node: usize, name: &str) {
        self.settings[node].remove(name);
    }

    /// The process id of a node, while it runs.
    pub fn process(&self, node: usize) -> Option<u32> {
        self.nodes[node].as_ref().map(Server::process)
    }

    /// Starts a node that does not run, without a wait.
    pub fn launch(&mut self, node: usize) -> Result<()> {
        ensure!(self.nodes[node].is_none(), "node {node} runs");
        let folder = self.folder.join(format!("cassandra-{}", node + 1));
        let [conf, log] = ["conf", "log"].map(|name| folder.join(name));
        std::fs::create_dir_all(&conf)?;
        std::fs::create_dir_all(&log)?;
        std::fs::write(conf.join("cassandra.yaml"), self.yaml(node))?;
        std::fs::write(conf.join("logback.xml"), LOGBACK)?;
        let command = self.command(&folder)?;
        self.nodes[node] = Some(Server::start("Cassandra", command, Signal::KILL, log.join("out"))?);
        Ok(())
    }

    fn yaml(&self, node: usize) -> String {
        let seeds: Vec<String> =
            (0..NODES).map(|seed| format!("{}:{}", host(seed), self.storage_port)).collect();
        let token = i128::from(i64::MIN) + node as i128 * ((1 << 64) / NODES as i128);
        let mut text = format!(
            "listen_address: {host}\nrpc_address: {host}\nstorage_port: {}\nnative_transport_port: {}\n\
            initial_token: {token}\nseed_provider:\n  - class_name: org.apache.cassandra.locator.SimpleSeedProvider\n    \
            parameters:\n      - seeds: \"{}\"\n",
            self.storage_port,
            self.port,
            seeds.join(","),
            host = host(node),
        );
        for (name, value) in &self.settings[node] {
            text += &format!("{name}: {value}\n");
        }
        text
    }

    fn command(&self, folder: &Path) -> Result<Command> {
        let mut command = bound_command(&self.java, None, Signal::KILL);
        command.args(JVM);
        if self.compilation == Compilation::Quick {
            command.arg("-XX:TieredStopAtLevel=1");
        }
        for (flag, packages) in [("--add-exports", EXPORTS), ("--add-opens", OPENS)] {
            for package in packages {
                command.args([flag, &format!("{package}=ALL-UNNAMED")]);
            }
        }
        let mut jars = std::fs::read_dir(&self.jars)?.flatten().map(|entry| entry.path());
        let agent = jars.find(|jar| {
            jar.file_name().and_then(|name| name.to_str()).is_some_and(|name| name.starts_with("jamm-"))
        });
        let agent = agent.context("the jars have no jamm")?;
        command.arg(format!("-javaagent:{}", agent.display()));
        command.arg(format!("-Dcassandra.storagedir={}", folder.join("data").display()));
        command.arg(format!("-Dcassandra.logdir={}", folder.join("log").display()));
        command.arg("-cp").arg(format!("{}:{}/*", folder.join("conf").display(), self.jars.display()));
        command.arg("org.apache.cassandra.service.CassandraDaemon").current_dir(folder);
        Ok(command)
    }

    /// Waits until every node that runs accepts clients and reaches all nodes of the cluster.
    pub fn await_ready(&mut self) -> Result<()> {
        let port = self.port;
        for (node, server) in self.nodes.iter_mut().enumerate() {
            let Some(server) = server else { continue };
            server.await_ready_within(START_TIMEOUT, || probe((host(node), port).into()))?;
        }
        Ok(())
    }

    /// Kills a node.
    pub fn kill(&mut self, node: usize) {
        if let Some(server) = self.nodes[node].take() {
            server.kill();
        }
    }

    /// Kills a node if it runs, starts it on the same data, and waits until all nodes reach each other.
    pub fn restart(&mut self, node: usize) -> Result<()> {
        self.kill(node);
        self.launch(node)?;
        self.await_ready()
    }

    /// Suspends a node. Its connections stay open.
    pub fn pause(&self, node: usize) {
        if let Some(server) = &self.nodes[node] {
            server.pause();
        }
    }

    /// Resumes a node.
    pub fn resume(&self, node: usize) {
        if let Some(server) = &self.nodes[node] {
            server.resume();
        }
    }
}

fn host(node: usize) -> Ipv4Addr {
    Ipv4Addr::new(127, 0, 0, node as u8 + 1)
}

/// Reads a table with a copy on each node, at the consistency level `ALL`: it fails unless this node reaches
/// all.
fn probe(address: SocketAddr) -> Result<()> {
    const STARTUP: u8 = 1;
    const QUERY: u8 = 7;
    const ALL: u16 = 5;
    let mut stream = TcpStream::connect_timeout(&address, PROBE_TIMEOUT)?;
    stream.set_read_timeout(Some(PROBE_TIMEOUT))?;
    let mut options = 1u16.to_be_bytes().to_vec();
    for text in ["CQL_VERSION", "3.0.0"] {
        options.extend((text.len() as u16).to_be_bytes());
        options.extend(text.as_bytes());
    }
    request(&mut stream, STARTUP, &options)?;
    let text = "SELECT parent_id FROM system_distributed.parent_repair_history LIMIT 1";
    let mut query = (text.len() as u32).to_be_bytes().to_vec();
    query.extend(text.as_bytes());
    query.extend(ALL.to_be_bytes());
    // No flags.
    query.push(0);
    request(&mut stream, QUERY, &query)
}

/// Sends a frame of version 4 of the protocol, and reads the response.
fn request(stream: &mut TcpStream, opcode: u8, body: &[u8]) -> Result<()> {
    const ERROR: u8 = 0;
    let mut frame = vec![4, 0, 0, 0, opcode];
    frame.extend((body.len() as u32).to_be_bytes());
    frame.extend(body);
    stream.write_all(&frame)?;
    let mut head = [0; 9];
    stream.read_exact(&mut head)?;
    let len = u32::from_be_bytes([head[5], head[6], head[7], head[8]]);
    let mut response = Vec::new();
    stream.take(u64::from(len)).read_to_end(&mut response)?;
    if head[4] == ERROR {
        bail!("Cassandra responds with {}", String::from_utf8_lossy(response.get(6..).unwrap_or_default()));
    }
    Ok(())
}
