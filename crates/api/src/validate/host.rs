//! The rules of `spec.host`.

use super::{Findings, Ground};
use crate::cluster::Host;
use crate::path::FieldPath;
use crate::resolve::HostSettings;

/// The least memory etcd starts and serves in.
const LEAST_MEMORY_MB: i64 = 50;

/// The settings of a cluster on this machine.
pub(crate) fn host(host: Option<&Host>, found: &mut Findings) -> HostSettings {
    let Some(host) = host else {
        return HostSettings::default();
    };
    let path = FieldPath::of("spec.host");
    if found.ground == Ground::Kubernetes {
        found.warn(
            path.clone(),
            "ignored: it is for members that run on a machine without Kubernetes.",
        );
    }
    let client_port = host
        .client_port
        .and_then(|number| port(path.key("clientPort"), number, found));
    let peer_port = host
        .peer_port
        .and_then(|number| port(path.key("peerPort"), number, found));
    if client_port.is_some() && client_port == peer_port {
        found.fault(
            path.key("peerPort"),
            format!("the client port, {}", client_port.unwrap_or_default()),
            "another port than clientPort",
            "Members need one port for clients and one for each other; change either.",
        );
    }
    HostSettings {
        client_port,
        peer_port,
        unit_name: host
            .unit_name
            .clone()
            .filter(|name| unit_name(path.key("unitName"), name, found)),
        memory_limit_bytes: host
            .memory_limit_mb
            .and_then(|number| memory(path.key("memoryLimitMB"), number, found)),
        cpu_thousandths: host.cpu.as_ref().and_then(|amount| match amount.thousandths() {
            Ok(thousandths) if thousandths > 0 => Some(thousandths),
            _ => {
                let got = format!("the text {:?}", amount.as_str());
                found.fault(
                    path.key("cpu"),
                    got,
                    "an amount of CPU above zero",
                    "Write 500m for half a core, 2 for two cores.",
                );
                None
            }
        }),
    }
}

fn port(path: FieldPath, number: i64, found: &mut Findings) -> Option<u16> {
    match u16::try_from(number) {
        Ok(port) if port > 0 => Some(port),
        _ => {
            found.fault(
                path,
                number.to_string(),
                "a port from 1 to 65535",
                "Choose one that is free, for example 2379.",
            );
            None
        }
    }
}

fn unit_name(path: FieldPath, name: &str, found: &mut Findings) -> bool {
    let fits = |b: u8| b.is_ascii_alphanumeric() || b"-_.:".contains(&b);
    let good = !name.is_empty() && name.len() <= 128 && name.bytes().all(fits) && !name.ends_with(".service");
    if !good {
        found.fault(
            path,
            format!("the text {name:?}"),
            "letters, digits, '-', '_', '.' and ':', without .service at the end",
            "Write the first part of the units' names, for example quorate-etcd; the member's name is added.",
        );
    }
    good
}

fn memory(path: FieldPath, number: i64, found: &mut Findings) -> Option<u64> {
    match u64::try_from(number) {
        Ok(0) => None,
        Ok(megabytes) if number >= LEAST_MEMORY_MB && megabytes <= u64::MAX >> 20 => Some(megabytes << 20),
        _ => {
            found.fault(
                path,
                number.to_string(),
                &format!("0 for no limit, or at least {LEAST_MEMORY_MB}"),
                "etcd is killed at its limit; 128 is the least for a small cluster.",
            );
            None
        }
    }
}
