//! A member's volume: where things lie on it, whose it is, what is on it, who holds it.
//!
//! In: the directory where it is mounted. Out: its [`layout`] and [`record`], its lock ([`hold`]), a judgement of its data
//! ([`judge`]); older data taken over ([`adopt`]) or set [`aside`]; what etcd needs given to etcd's user ([`owner`]).
//! Never: anything changed or judged on a volume that is not held; data deleted that was not first set aside.

pub(crate) mod adopt;
pub(crate) mod aside;
pub(crate) mod hold;
pub(crate) mod judge;
pub(crate) mod layout;
pub(crate) mod owner;
pub(crate) mod record;
