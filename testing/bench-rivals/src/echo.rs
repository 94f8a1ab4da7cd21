//! A server that answers `+OK` to every request: the cost of tokio and the sockets.

use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result};
use jeton_testbed::{Server, Signal, bound_command, free_address};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use crate::jeton;
use crate::resp::Client;
use crate::target::Target;

/// Starts the server as a process.
pub fn start(folder: &Path) -> Result<(Server, Target)> {
    let protocol = jeton::protocol(jeton::DURABLE);
    let address = free_address()?;
    let mut command = bound_command(&std::env::current_exe()?, None, Signal::KILL);
    command.args(["echo", &address.to_string(), &protocol.request_len().to_string()]);
    let mut server = Server::start("the echo server", command, Signal::KILL, folder.join("echo.log"))?;
    server.await_ready(|| Client::connect(address).map(drop))?;
    let target = Target::new("bare tokio echo", address, Arc::new(protocol), server.process());
    Ok((server, target))
}

/// Runs the server: one answer for each `request_len` bytes.
pub fn serve(address: &str, request_len: &str) -> Result<()> {
    let request_len = request_len.parse().context("the length of a request")?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_io().build()?;
    runtime.block_on(async {
        let listener = TcpListener::bind(address).await?;
        loop {
            let (stream, _) = listener.accept().await?;
            tokio::spawn(async move {
                // A client may close its connection at any time.
                let _closed = echo(stream, request_len).await;
            });
        }
    })
}

async fn echo(mut stream: TcpStream, request_len: usize) -> Result<()> {
    stream.set_nodelay(true)?;
    let (mut input, mut out, mut bytes) = (vec![0; 1 << 14], Vec::new(), 0);
    loop {
        let len = stream.read(&mut input).await?;
        if len == 0 {
            return Ok(());
        }
        bytes += len;
        out.clear();
        while bytes >= request_len {
            bytes -= request_len;
            out.extend_from_slice(b"+OK\r\n");
        }
        stream.write_all(&out).await?;
    }
}
