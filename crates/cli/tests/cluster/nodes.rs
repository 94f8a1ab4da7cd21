//! PostgreSQL, and the nodes of a cluster over it.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

use jeton_testbed::{self as testbed, Postgres};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tempfile::TempDir;
use tokio_postgres::NoTls;

use crate::program::{Run, command};
use crate::{TIMEOUT, until};

/// PostgreSQL for all tests. It ends with the process.
fn postgres() -> &'static (Postgres, TempDir) {
    static POSTGRES: OnceLock<(Postgres, TempDir)> = OnceLock::new();
    POSTGRES.get_or_init(|| {
        let folder = testbed::folder().unwrap();
        (Postgres::start(folder.path(), &[]).unwrap(), folder)
    })
}

/// The URL of a new database.
pub fn new_database() -> String {
    static NEXT: AtomicU32 = AtomicU32::new(1);
    let name = format!("cluster{}", NEXT.fetch_add(1, Ordering::Relaxed));
    let url = postgres().0.url();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let (client, connection) = tokio_postgres::connect(&url, NoTls).await.unwrap();
        let connection = tokio::spawn(connection);
        client.batch_execute(&format!("CREATE DATABASE {name}")).await.unwrap();
        drop(client);
        connection.await.unwrap().unwrap();
    });
    format!("{}/{name}", url.rsplit_once('/').unwrap().0)
}

/// A node. It is killed on drop.
pub struct Node {
    pub resp: String,
    pub http: String,
    peers: String,
    folder: PathBuf,
    child: Option<Child>,
}

/// Enough for each of three nodes to own one: the ids of nodes are random, and so are the stripes they own.
pub const STRIPES: usize = 24;

pub struct Cluster {
    pub url: String,
    pub nodes: Vec<Node>,
    _folder: TempDir,
}

impl Cluster {
    /// Creates the tables, starts the nodes and waits until they are ready.
    pub fn start(nodes: usize) -> Self {
        let (url, folder) = (new_database(), testbed::folder().unwrap());
        let stripes = STRIPES.to_string();
        let init = jeton(folder.path(), &["init", "--cluster", &url, "--cluster-stripes", &stripes]);
        let out = format!("cluster: ready, {STRIPES} stripes\n");
        assert_eq!((init.code, &init.out), (Some(0), &out), "{}", init.err);
        let nodes = (1..=nodes).map(|number| Node::new(&folder.path().join(number.to_string()))).collect();
        let mut cluster = Self { url, nodes, _folder: folder };
        for number in 0..cluster.nodes.len() {
            cluster.launch(number);
        }
        (0..cluster.nodes.len()).for_each(|number| cluster.await_ready(number));
        cluster
    }

    /// Starts the process of a node.
    pub fn launch(&mut self, number: usize) {
        let url = self.url.clone();
        self.nodes[number].launch(&url);
    }

    /// Waits until a node accepts requests.
    pub fn await_ready(&mut self, number: usize) {
        let node = &mut self.nodes[number];
        until("the node is ready", || {
            let ended = node.child.as_mut().unwrap().try_wait().unwrap();
            assert!(ended.is_none(), "the node ended: {}", node.log());
            ask(&node.http, "GET", "/readyz", "").is_some_and(|(status, _)| status == 200)
        });
    }

    /// Waits until every stripe has an owner among these nodes.
    pub fn await_owners(&self, nodes: &[usize]) {
        let ids: Vec<String> = nodes.iter().map(|number| self.nodes[*number].id()).collect();
        until("every stripe has an owner", || {
            self.owners(nodes[0]).iter().all(|owner| owner.as_ref().is_some_and(|owner| ids.contains(owner)))
        });
    }

    /// Waits until every node owns a stripe.
    pub fn await_spread(&self) {
        let ids: Vec<String> = self.nodes.iter().map(Node::id).collect();
        until("every node owns a stripe", || {
            let owners = self.owners(0);
            owners.iter().all(Option::is_some) && ids.iter().all(|id| owners.contains(&Some(id.clone())))
        });
    }

    /// The owner of each stripe, as a node sees it.
    fn owners(&self, number: usize) -> Vec<Option<String>> {
        let status = self.nodes[number].cluster().unwrap();
        let stripes = status["stripes"].as_array().unwrap();
        stripes.iter().map(|stripe| stripe["owner"].as_str().map(str::to_owned)).collect()
    }

    /// RESP addresses, that of one node first.
    pub fn addresses(&self, first: usize) -> Vec<String> {
        let nodes = self.nodes.iter().cycle().skip(first).take(self.nodes.len());
        nodes.map(|node| node.resp.clone()).collect()
    }

    /// Runs a command against a node.
    pub fn run(&self, number: usize, arguments: &[&str]) -> Run {
        let node = &self.nodes[number];
        let mut command = command(arguments);
        command.env("JETON_RESP", &node.resp).env("JETON_HTTP", &node.http).stdin(Stdio::null());
        Run::of(command.current_dir(&node.folder))
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        if std::thread::panicking() {
            for node in &self.nodes {
                let log = node.log();
                let lines: Vec<&str> = log.lines().collect();
                eprintln!("--- {}\n{}", node.resp, lines[lines.len().saturating_sub(40)..].join("\n"));
            }
        }
    }
}

impl Node {
    fn new(folder: &Path) -> Self {
        let free = || testbed::free_address().unwrap().to_string();
        fs::create_dir(folder).unwrap();
        Self { resp: free(), http: free(), peers: free(), folder: folder.to_owned(), child: None }
    }

    fn launch(&mut self, url: &str) {
        let log = fs::OpenOptions::new().create(true).append(true).open(self.folder.join("log")).unwrap();
        let child = command(&["serve", "--cluster", url, "--data", "data", "--resp", &self.resp])
            .args(["--http", &self.http, "--cluster-peers", &self.peers])
            .current_dir(&self.folder)
            .stdin(Stdio::null())
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .spawn();
        self.child = Some(child.unwrap());
    }

    pub fn log(&self) -> String {
        fs::read_to_string(self.folder.join("log")).unwrap_or_default()
    }

    pub fn signal(&self, signal: Signal) {
        let child = self.child.as_ref().unwrap();
        kill_process(Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap(), signal).unwrap();
    }

    /// Sends a signal that ends the process, and waits for its end. Returns the exit code.
    pub fn end(&mut self, signal: Signal) -> Option<i32> {
        self.signal(signal);
        let mut child = self.child.take().unwrap();
        let mut status = None;
        until("the node ends", || {
            status = child.try_wait().unwrap();
            status.is_some()
        });
        status.unwrap().code()
    }

    /// The status of the cluster at this node.
    pub fn cluster(&self) -> Option<Value> {
        let (status, body) = ask(&self.http, "GET", "/v1/cluster", "")?;
        assert_eq!(status, 200, "{body}");
        serde_json::from_str(&body).ok()
    }

    /// The id of the node.
    pub fn id(&self) -> String {
        self.cluster().unwrap()["node"].as_str().unwrap().to_owned()
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        if let Some(child) = &mut self.child {
            // It may have ended.
            let _gone = child.kill();
            let _gone = child.wait();
        }
    }
}

/// Runs a command to its end in a directory.
pub fn jeton(folder: &Path, arguments: &[&str]) -> Run {
    Run::of(command(arguments).current_dir(folder).stdin(Stdio::null()))
}

/// Sends a request. Returns the status and the body, or `None` without a complete response.
pub fn ask(address: &str, method: &str, path: &str, body: &str) -> Option<(u16, String)> {
    let mut stream = TcpStream::connect(address).ok()?;
    stream.set_read_timeout(Some(TIMEOUT)).ok()?;
    let length = body.len();
    let request = format!(
        "{method} {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\ncontent-type: application/json\r\n\
         content-length: {length}\r\n\r\n{body}"
    );
    stream.write_all(request.as_bytes()).ok()?;
    let mut response = String::new();
    stream.read_to_string(&mut response).ok()?;
    let (head, body) = response.split_once("\r\n\r\n")?;
    Some((head.get(9..12)?.parse().ok()?, body.to_owned()))
}
