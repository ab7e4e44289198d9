//! Transactions: comparisons choose branches, branches are checked, then carried out as one revision.
//!
//! In: a transaction and the store before it. Out: rows. All comparisons, also those of inner transactions, see the
//! store as it was before; so do the checks. A check that fails leaves the store untouched, except where etcd's own
//! answer depends on who applies the entry: 3.4 to 3.6 drop reads from a transaction that no client waits for, and with
//! them the error of a read at a revision that is not there. Such a transaction is not decided here.

use std::cmp::Ordering;

use quorate_wire::etcdserverpb::compare::{CompareResult, CompareTarget, TargetUnion};
use quorate_wire::etcdserverpb::range_request::{SortOrder, SortTarget};
use quorate_wire::etcdserverpb::request_op::Request;
use quorate_wire::etcdserverpb::{Compare, RangeRequest, RequestOp, TxnRequest};

use super::Stop;
use super::keyspace::{self, Change, Refused, Row};
use super::store::{Live, Store};

/// The branches taken: of a transaction, and of the transactions in its branch, in order.
struct Path<'t> {
    ops: &'t [RequestOp],
    inner: Vec<Path<'t>>,
}

pub(crate) fn apply(store: &mut Store, txn: &TxnRequest) -> Result<Vec<Row>, Stop> {
    let path = choose(store, txn)?;
    if check_puts(store, &path)?.is_err() {
        return Ok(Vec::new());
    }
    check_ranges(store, &path)?;
    let mut change = Change::begin(store)?;
    carry_out(&mut change, &path)?;
    Ok(change.end())
}

fn choose<'t>(store: &Store, txn: &'t TxnRequest) -> Result<Path<'t>, Stop> {
    let mut succeeded = true;
    for compare in &txn.compare {
        succeeded = holds(store, compare)?;
        if !succeeded {
            break;
        }
    }
    let ops = if succeeded { &txn.success } else { &txn.failure };
    let inner = ops.iter().filter_map(|op| match &op.request {
        Some(Request::RequestTxn(inner)) => Some(choose(store, inner)),
        _ => None,
    });
    Ok(Path {
        ops,
        inner: inner.collect::<Result<_, _>>()?,
    })
}

fn holds(store: &Store, compare: &Compare) -> Result<bool, Stop> {
    let target = CompareTarget::try_from(compare.target);
    let result = CompareResult::try_from(compare.result);
    let (Ok(target), Ok(result)) = (target, result) else {
        return Err(Stop::because("it compares in an unknown way"));
    };
    if compare.key.is_empty() {
        return Err(Stop::because("it compares the empty key"));
    }
    let mut any = false;
    for (_, live) in keyspace::range(store, &compare.key, &compare.range_end) {
        any = true;
        if !matches(ordering(target, compare, live), result) {
            return Ok(false);
        }
    }
    if any {
        return Ok(true);
    }
    // A key that does not exist has revisions, version and lease 0, and no value at all.
    let nothing = Live {
        create_revision: 0,
        mod_revision: 0,
        version: 0,
        lease: 0,
        value: Vec::new(),
    };
    Ok(target != CompareTarget::Value && matches(ordering(target, compare, &nothing), result))
}

fn ordering(target: CompareTarget, compare: &Compare, live: &Live) -> Ordering {
    let with = compare.target_union.as_ref();
    let number = |there: i64, asked: Option<i64>| there.cmp(&asked.unwrap_or(0));
    match target {
        CompareTarget::Value => {
            let asked = match with {
                Some(TargetUnion::Value(value)) => value.as_slice(),
                _ => &[],
            };
            live.value.as_slice().cmp(asked)
        }
        CompareTarget::Create => number(
            live.create_revision,
            with.and_then(|with| match with {
                TargetUnion::CreateRevision(revision) => Some(*revision),
                _ => None,
            }),
        ),
        CompareTarget::Mod => number(
            live.mod_revision,
            with.and_then(|with| match with {
                TargetUnion::ModRevision(revision) => Some(*revision),
                _ => None,
            }),
        ),
        CompareTarget::Version => number(
            live.version,
            with.and_then(|with| match with {
                TargetUnion::Version(version) => Some(*version),
                _ => None,
            }),
        ),
        CompareTarget::Lease => number(
            live.lease,
            with.and_then(|with| match with {
                TargetUnion::Lease(lease) => Some(*lease),
                _ => None,
            }),
        ),
    }
}

fn matches(ordering: Ordering, result: CompareResult) -> bool {
    match result {
        CompareResult::Equal => ordering.is_eq(),
        CompareResult::NotEqual => ordering.is_ne(),
        CompareResult::Greater => ordering.is_gt(),
        CompareResult::Less => ordering.is_lt(),
    }
}

fn check_puts(store: &Store, path: &Path<'_>) -> Result<Result<(), Refused>, Stop> {
    for op in path.ops {
        if let Some(Request::RequestPut(put)) = &op.request
            && keyspace::check_put(store, put)?.is_err()
        {
            return Ok(Err(Refused));
        }
    }
    for inner in &path.inner {
        if check_puts(store, inner)?.is_err() {
            return Ok(Err(Refused));
        }
    }
    Ok(Ok(()))
}

fn check_ranges(store: &Store, path: &Path<'_>) -> Result<(), Stop> {
    for op in path.ops {
        if let Some(Request::RequestRange(range)) = &op.request {
            check_range(store, range)?;
        }
    }
    path.inner.iter().try_for_each(|inner| check_ranges(store, inner))
}

fn check_range(store: &Store, range: &RangeRequest) -> Result<(), Stop> {
    let known =
        SortOrder::try_from(range.sort_order).is_ok() && SortTarget::try_from(range.sort_target).is_ok();
    if !known {
        return Err(Stop::because("it reads in an unknown order"));
    }
    let there = range.revision == 0 || (store.compacted..=store.revision).contains(&range.revision);
    if !there {
        return Err(Stop::because(format!(
            "it reads at revision {}, which is not there; whether etcd then writes depends on who applies it",
            range.revision
        )));
    }
    Ok(())
}

fn carry_out(change: &mut Change<'_>, path: &Path<'_>) -> Result<(), Stop> {
    let mut inner = path.inner.iter();
    for op in path.ops {
        match &op.request {
            Some(Request::RequestPut(put)) => change.put(put)?,
            Some(Request::RequestDeleteRange(delete)) => change.delete_range(delete)?,
            Some(Request::RequestTxn(_)) => {
                if let Some(inner) = inner.next() {
                    carry_out(change, inner)?;
                }
            }
            Some(Request::RequestRange(_)) | None => {}
        }
    }
    Ok(())
}
