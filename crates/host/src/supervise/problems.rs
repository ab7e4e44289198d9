//! What is wrong besides what a plan says: by subject, so that it can be taken back.

use crate::Error;

/// Problems shown at most.
const PROBLEMS_MAX: usize = 16;

/// What is wrong, by where it comes from.
#[derive(Debug, Default)]
pub(crate) struct Problems {
    pub(crate) manifest: Vec<String>,
    pub(crate) upkeep: Vec<String>,
    pub(crate) certificates: Vec<String>,
    pub(crate) ports: Vec<String>,
    pub(crate) journal: Vec<String>,
    pub(crate) seen: Vec<String>,
    pub(crate) steps: Vec<String>,
}

impl Problems {
    pub(crate) fn all(&self) -> Vec<String> {
        let Problems {
            manifest,
            upkeep,
            certificates,
            ports,
            journal,
            seen,
            steps,
        } = self;
        let all = [manifest, upkeep, certificates, ports, journal, seen, steps];
        all.into_iter().flatten().take(PROBLEMS_MAX).cloned().collect()
    }
}

/// Of a result that is only of interest where it is an error.
pub(crate) fn problem<T>(result: Result<T, Error>) -> Vec<String> {
    result.err().map(|error| error.chain()).into_iter().collect()
}
