//! The metrics of the service and the store in the text format of OpenMetrics.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use jeton_auth::AuthContext;
use jeton_cluster::{ClusterStatus, LocalStripeStatus, NodeStatus};
use jeton_core::{ErrorCode, Status};
use jeton_engine::Stats;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, MetricEncoder, NoLabelSet, text};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Registry;

use crate::Service;
use crate::latency_histogram::LatencyHistogram;
use crate::metrics::FAMILIES;

/// The metrics of tables that the client may see; without a client, of none.
pub fn encode(service: &Arc<Service>, client: Option<AuthContext>) -> Result<String, fmt::Error> {
    let mut registry = Registry::default();
    registry.register_collector(Box::new(ServiceCollector(Arc::clone(service), client)));
    let mut text = String::new();
    text::encode(&mut text, &registry)?;
    Ok(text)
}

struct ServiceCollector(Arc<Service>, Option<AuthContext>);

impl fmt::Debug for ServiceCollector {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("ServiceCollector")
    }
}

impl Collector for ServiceCollector {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let service = &self.0;
        encode_counts(service, &mut encoder)?;
        encode_latencies(service, &mut encoder)?;
        let memory = &service.client_memory;
        gauge(&mut encoder, "jeton_client_memory_bytes", "Memory charged to clients", memory.charged())?;
        let help = "Connections closed because of client_memory_max";
        let mut closed =
            encoder.encode_descriptor("jeton_client_memory_closed", help, None, MetricType::Counter)?;
        counter(&mut closed, memory.closed())?;
        let (mut stats, now) = (service.engine.stats(), service.millis());
        stats.tables.retain(|table| self.1.as_ref().is_some_and(|client| client.may_see(&table.name, now)));
        encode_store(&stats, &mut encoder)?;
        encode_filters(&stats, &mut encoder)?;
        if let Some(status) = service.engine.cluster_status() {
            encode_cluster(&status, &mut encoder)?;
        }
        if let Some(leader) = service.transactions.leader() {
            let help = "Number of the server that leads the registers of transactions, 0 if unknown";
            gauge(&mut encoder, "jeton_registers_leader", help, leader.unwrap_or(0))?;
        }
        Ok(())
    }
}

fn gauge(encoder: &mut DescriptorEncoder<'_>, name: &str, help: &str, value: u64) -> fmt::Result {
    encoder.encode_descriptor(name, help, None, MetricType::Gauge)?.encode_gauge(&value)
}

fn counter(encoder: &mut MetricEncoder<'_>, value: u64) -> fmt::Result {
    encoder.encode_counter::<NoLabelSet, _, u64>(&value, None)
}

fn encode_counts(service: &Service, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
    let metrics = &service.metrics;
    for family in FAMILIES {
        let kind = if family.is_counter { MetricType::Counter } else { MetricType::Gauge };
        let mut samples = encoder.encode_descriptor(family.name, family.help, None, kind)?;
        for (metric, label) in family.samples {
            let value = metrics.get(*metric);
            match (label, family.is_counter) {
                (None, true) => counter(&mut samples, value)?,
                (None, false) => samples.encode_gauge(&value)?,
                (Some(label), true) => counter(&mut samples.encode_family(&[*label])?, value)?,
                (Some(label), false) => samples.encode_family(&[*label])?.encode_gauge(&value)?,
            }
        }
        if family.name == "jeton_operations" {
            for error in ErrorCode::all() {
                let value = metrics.errors(error);
                // Operations over RESP and HTTP have the same errors: those that have a prefix.
                if value > 0 || error.resp_prefix().is_some() {
                    counter(&mut samples.encode_family(&[("outcome", error.code())])?, value)?;
                }
            }
        }
    }
    Ok(())
}

fn encode_latencies(service: &Service, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
    let histogram =
        |samples: &mut MetricEncoder<'_>, labels: &[(&str, &str)], latencies: &LatencyHistogram| {
            let Some(found) = latencies.snapshot() else { return Ok(()) };
            let mut sample = samples.encode_family(&labels)?;
            sample.encode_histogram::<NoLabelSet>(found.sum_seconds, found.count, &found.buckets, None)
        };
    let help =
        "Time from parsing a RESP command to its reply; the commands of a pipeline batch have one time";
    let kind = MetricType::Histogram;
    let mut samples = encoder.encode_descriptor("jeton_command_duration_seconds", help, None, kind)?;
    for (name, latencies) in service.metrics.commands() {
        histogram(&mut samples, &[("command", name)], latencies)?;
    }
    let help = "Time from the head of an HTTP request to the head of its response";
    let mut samples = encoder.encode_descriptor("jeton_http_request_duration_seconds", help, None, kind)?;
    service.metrics.visit_routes(|method, route, latencies| {
        histogram(&mut samples, &[("method", method), ("route", route)], latencies)
    })
}

fn encode_store(stats: &Stats, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
    let help = "Bytes of log entries, including those that were replayed at the start";
    counter(
        &mut encoder.encode_descriptor("jeton_log_bytes", help, None, MetricType::Counter)?,
        stats.logged_bytes,
    )?;
    for (name, help, value) in [
        ("jeton_replayed_entries", "Log entries replayed at the start", stats.replayed_entries),
        ("jeton_value_bytes", "Bytes of the value store on disk", stats.value_bytes),
        ("jeton_index_ids", "Ids in the index on disk", stats.ids.ids),
        ("jeton_index_bytes", "Bytes of the id index on disk", stats.ids.bytes),
        ("jeton_index_runs", "Runs of the id index", stats.ids.runs as u64),
        ("jeton_index_damaged", "Runs of the id index that are damaged", stats.ids.damaged as u64),
        (
            "jeton_filter_memory_bytes",
            "Memory promised to the filters of all tables",
            stats.filter_memory.0 as u64,
        ),
        ("jeton_filter_memory_bytes_max", "Limit of that memory (memory_max)", stats.filter_memory.1 as u64),
        ("jeton_storage_error", "1 if the store cannot write, else 0", u64::from(stats.last_error.is_some())),
        (
            "jeton_maintenance_error",
            "1 if background maintenance fails, else 0",
            u64::from(stats.maintenance_error.is_some()),
        ),
    ] {
        gauge(encoder, name, help, value)?;
    }
    Ok(())
}

fn encode_cluster(status: &ClusterStatus, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
    let nodes = |is: fn(&NodeStatus) -> bool| status.nodes.iter().filter(|node| is(node)).count() as u64;
    let owned: Vec<_> = status.stripes.iter().filter_map(|stripe| stripe.local.as_ref()).collect();
    let unowned = status.stripes.iter().filter(|stripe| stripe.owner.is_none()).count() as u64;
    for (name, help, value) in [
        ("jeton_cluster_nodes", "Nodes of the cluster that are not suspected", nodes(|node| !node.suspected)),
        ("jeton_cluster_nodes_suspected", "Nodes without a heartbeat", nodes(|node| node.suspected)),
        ("jeton_cluster_stripes", "Stripes of the cluster", status.stripes.len() as u64),
        ("jeton_cluster_stripes_unowned", "Stripes without a known owner", unowned),
        ("jeton_cluster_stripes_owned", "Stripes of this node", owned.len() as u64),
        ("jeton_cluster_alarms", "Conditions that need the operator", status.alarms.len() as u64),
        (
            "jeton_cluster_log_bytes",
            "Bytes of the logs of the stripes of this node",
            owned.iter().map(|log| log.log_bytes).sum(),
        ),
        (
            "jeton_cluster_stripe_writes",
            "Writes of frames since this node became the owner",
            owned.iter().map(|log| log.writes).sum(),
        ),
        (
            "jeton_cluster_stripe_operations",
            "Operations in these frames",
            owned.iter().map(|log| log.operations).sum(),
        ),
    ] {
        gauge(encoder, name, help, value)?;
    }
    let help = "Time of a write to the log of a stripe, the highest of the stripes of this node";
    let name = "jeton_cluster_write_seconds";
    let mut samples = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
    type Read = fn(&LocalStripeStatus) -> Duration;
    let quantiles: [(&str, Read); 2] = [("0.5", |log| log.write_p50), ("0.99", |log| log.write_p99)];
    for (quantile, read) in quantiles {
        let highest = owned.iter().map(|log| read(log)).max().unwrap_or_default();
        samples.encode_family(&[("quantile", quantile)])?.encode_gauge(&highest.as_secs_f64())?;
    }
    let help = "Slot of the claim of the owner of a stripe: it grows with each change of the owner";
    let mut samples =
        encoder.encode_descriptor("jeton_cluster_stripe_term", help, None, MetricType::Gauge)?;
    for stripe in &status.stripes {
        let number = stripe.number.to_string();
        samples.encode_family(&[("stripe", number.as_str())])?.encode_gauge(&stripe.term.0)?;
    }
    Ok(())
}

fn encode_filters(stats: &Stats, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
    type Read = fn(&Status) -> f64;
    let gauges: [(&str, &str, Read); 7] = [
        ("jeton_filter_bytes", "Memory of a filter in bytes", |status| status.bytes as f64),
        ("jeton_filter_bytes_max", "Memory limit of a filter in bytes", |status| status.memory_cap as f64),
        ("jeton_filter_fill", "Memory of a filter as a fraction of its limit", |status| {
            status.bytes as f64 / status.memory_cap.max(1) as f64
        }),
        ("jeton_filter_ids", "Ids in a filter", |status| status.ids as f64),
        (
            "jeton_filter_false_positive_rate",
            "Probability that a filter reports a new id as known",
            |status| status.false_positive_rate,
        ),
        ("jeton_filter_false_positive_rate_target", "Limit of that probability", |status| status.target),
        ("jeton_filter_pressure", "1 if a filter exceeds its target, else 0", |status| {
            f64::from(u8::from(status.pressure.is_some()))
        }),
    ];
    for (name, help, read) in gauges {
        let mut samples = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
        for table in &stats.tables {
            for (ids, status) in [("dated", &table.filters.0), ("opaque", &table.filters.1)] {
                if let Some(status) = status {
                    let labels = [("table", table.name.as_str()), ("ids", ids)];
                    samples.encode_family(&labels)?.encode_gauge(&read(status))?;
                }
            }
        }
    }
    Ok(())
}
