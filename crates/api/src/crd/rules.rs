//! The rules that the API server itself enforces, in its expression language (CEL), with the words a user reads.
//!
//! In: nothing. Out: one [`Rule`] a function, hung on a field by the types. The same rules in Rust are in
//! [`crate::validate`] and [`crate::crd::validate_update`]; tests hold the two against each other.
//!
//! What must never happen: a rule that fails to evaluate because another is broken (each guards what it relies on);
//! a rule over anything unbounded, which an API server refuses for its cost; a transition rule without its way out.

use kube::core::{Message, Rule};

const TRI: &str = r"^(0|[1-9][0-9]*)\\.(0|[1-9][0-9]*)\\.(0|[1-9][0-9]*)$";
/// Three plain numbers of etcd 3.
const THREE: &str = r"^3\\.(0|[1-9][0-9]*)\\.(0|[1-9][0-9]*)$";
/// A version whose minor can be compared.
const KNOWN: &str = r"^3\\.[4-7]\\.(0|[1-9][0-9]*)$";
/// The cluster opted in to changes that roll.
const ROLLING: &str =
    "(has(self.maintenance) && has(self.maintenance.rollingChanges) && self.maintenance.rollingChanges)";
/// The ranges of [`crate::validate`], as an API server reads amounts.
const LEAST_QUOTA: &str = "1Mi";
const LEAST_REQUEST: &str = "4Ki";
const MOST_REQUEST: &str = "256Mi";
const MOST_HOURS: u64 = 2_562_047;
const RETENTION: &str = "self.autoCompactionRetention";
const REVISIONS: &str = "(has(self.autoCompactionMode) && self.autoCompactionMode == 'revision')";
/// A whole number, and numbers each with a unit.
const COUNT: &str = "^[0-9]{1,18}$";
const TIME: &str = "^([0-9]{1,9}(ms|h|m|s))+$";
const CLAIM: &str = "storage.volumeClaimTemplate";
/// The optional fields of a claim that can never change; its size can.
const FIXED: [&str; 7] = [
    "accessModes",
    "volumeMode",
    "selector",
    "volumeName",
    "volumeAttributesClassName",
    "dataSource",
    "dataSourceRef",
];

/// The name of a cluster: Services, pods and host names are built from it.
pub fn cluster_name() -> Rule {
    Rule::new("self.metadata.name.matches('^[a-z]([-a-z0-9]{0,54}[a-z0-9])?$')").message(
        "the name must be at most 56 lower-case letters, digits and '-', and begin with a letter: Services, pods and \
         host names are built from it",
    )
}

/// A version is three numbers.
pub fn dotted_tri() -> Rule {
    Rule::new(format!("self.matches('{TRI}')")).message(Message::Expression(
        "self + ' is not in dotted-tri format: write three numbers and nothing else, for example 3.6.1'"
            .to_owned(),
    ))
}

pub fn major_three() -> Rule {
    Rule::new(format!("!self.matches('{TRI}') || self.startsWith('3.')"))
        .message("only Etcd version 3 is supported")
}

/// Only minors that this quorate knows.
pub fn supported_minor() -> Rule {
    Rule::new(format!(r"!self.matches('{THREE}') || self.matches('^3\\.[4-7]\\.')")).message(
        "etcd 3.4 to 3.7 are supported: before 3.4 there are no learners, so members cannot be added safely, and newer \
         minors need a newer quorate",
    )
}

/// No patch that is known to corrupt data.
pub fn keeps_data_intact() -> Rule {
    Rule::new(r"!self.matches('^3\\.5\\.[0-2]$')")
        .message("etcd 3.5.0 to 3.5.2 are known to corrupt data when they are killed; take 3.5.3 or newer")
}

fn minor(version: &str) -> String {
    format!("int({version}.split('.')[1])")
}

/// Update: never to an older minor than any member is known to run. A version that nobody ran can be taken back; what nobody
/// knows may have run.
pub fn never_down_a_minor() -> Rule {
    let [now, before] = ["self.spec.version", "oldSelf.spec.version"];
    let [agreed, member] = ["self.status.clusterVersion", "member.version"];
    let runs = |version: &str| {
        format!(
            "{version}.matches('{KNOWN}') && {} <= {}",
            minor(version),
            minor(now)
        )
    };
    let taken_back = format!(
        "has(self.status) && has({agreed}) && {} && (!has(self.status.members) || \
         self.status.members.all(member, !has({member}) || ({})))",
        runs(agreed),
        runs(member)
    );
    Rule::new(format!(
        "!has({now}) || !has({before}) || !{now}.matches('{KNOWN}') || !{before}.matches('{KNOWN}') || {} >= {} || \
         ({taken_back})",
        minor(now),
        minor(before)
    ))
    .message(Message::Expression(format!(
        "'no way from ' + {before} + ' to ' + {now} + ': etcd does not start on the data of a newer minor'"
    )))
    .field_path(".spec.version")
}

/// Update: no minor is skipped.
pub fn one_minor_at_a_time() -> Rule {
    Rule::new(format!(
        "!self.matches('{KNOWN}') || !oldSelf.matches('{KNOWN}') || {} <= {} + 1",
        minor("self"),
        minor("oldSelf")
    ))
    .message(Message::Expression(
        "'no way from ' + oldSelf + ' to ' + self + ': etcd moves one minor at a time'".to_owned(),
    ))
}

/// Update: a patch that mends removed members comes before the minor that would bring them back.
pub fn patch_before_minor() -> Rule {
    Rule::new(r"!oldSelf.matches('^3\\.5\\.([0-9]|1[0-9]|2[0-5])$') || !self.startsWith('3.6.')").message(
        Message::Expression(
            "'no way from ' + oldSelf + ' to ' + self + ': go to 3.5.26 or a later 3.5 first, or removed members could \
             come back to life'"
                .to_owned(),
        ),
    )
}

/// Both affinity fields mean the same.
pub fn one_affinity() -> Rule {
    Rule::new(
        // To an API server each object is of a type of its own; as `dyn` the two can be compared.
        "!has(self.affinity) || !has(self.podTemplate) || !has(self.podTemplate.affinity) || dyn(self.affinity) == \
         dyn(self.podTemplate.affinity)",
    )
    .message("affinity and podTemplate.affinity mean the same and differ: keep one of them")
    .field_path(".affinity")
}

/// Update: storage stays, or grows where the cluster opted in.
pub fn storage_is_kept() -> Rule {
    let (now, before) = (format!("self.{CLAIM}"), format!("oldSelf.{CLAIM}"));
    let mut same = vec![format!("{now}.storageClassName == {before}.storageClassName")];
    same.extend(FIXED.map(|field| same_if_set(&format!("{now}.{field}"), &format!("{before}.{field}"))));
    same.push(same_if_set(
        &format!("{now}.resources.limits"),
        &format!("{before}.resources.limits"),
    ));
    let size = |claim: &str| format!("quantity(string({claim}.resources.requests['storage']))");
    same.push(format!("{}.compareTo({}) >= 0", size(&now), size(&before)));
    Rule::new(format!(
        "self.storage == oldSelf.storage || ({ROLLING} && {})",
        same.join(" && ")
    ))
    .message(
        "Unsupported changes: storage stays as it was when the cluster was made; with maintenance.rollingChanges: true \
         resources.requests.storage may grow",
    )
    .field_path(".storage")
}

/// Update: the pod template stays, unless the cluster opted in.
pub fn pod_template_is_kept() -> Rule {
    Rule::new(format!(
        "{ROLLING} || ({})",
        same_if_set("self.podTemplate", "oldSelf.podTemplate")
    ))
    .message(
        "Unsupported changes: podTemplate stays as it was when the cluster was made, unless maintenance.rollingChanges \
         is true",
    )
    .field_path(".podTemplate")
}

/// Update: the other place of the affinity, likewise.
pub fn affinity_is_kept() -> Rule {
    Rule::new(format!(
        "{ROLLING} || ({})",
        same_if_set("self.affinity", "oldSelf.affinity")
    ))
    .message(
        "Unsupported changes: affinity stays as it was when the cluster was made, unless maintenance.rollingChanges is \
         true",
    )
    .field_path(".affinity")
}

/// Update: encryption stays on or off, and its certificates quorate's or the user's.
pub fn tls_is_kept() -> Rule {
    let on = |of: &str| format!("(has({of}.tls) && (!has({of}.tls.enabled) || {of}.tls.enabled))");
    let own = |of: &str| format!("(has({of}.tls) && has({of}.tls.client))");
    let (now, before) = ("self", "oldSelf");
    Rule::new(format!(
        "{} == {} && (!{} || {} == {})",
        on(now),
        on(before),
        on(now),
        own(now),
        own(before)
    ))
    .message(
        "Unsupported changes: tls stays on or off, with quorate's certificates or with yours, as it was when the cluster \
         was made: members that changed would no longer understand the others",
    )
    .field_path(".tls")
}

pub fn immutable(what: &str) -> Rule {
    Rule::new("self == oldSelf").message(format!("Unsupported changes: {what}").as_str())
}

/// Pods' annotations leave quorate's own names alone.
pub fn no_reserved_annotation() -> Rule {
    Rule::new("!has(self.annotations) || self.annotations.all(name, !name.startsWith('etcd.improbable.io/'))")
        .message("Annotation name is a reserved name ('etcd.improbable.io' prefix)")
}

/// One pair of certificates of the user's and one of quorate's do not go together.
pub fn both_secrets_or_none() -> Rule {
    Rule::new("has(self.client) == has(self.peer)")
        .message("give a Secret for client and one for peer, or neither and quorate makes both")
}

/// etcd does not start otherwise.
pub fn election_waits_for_heartbeats() -> Rule {
    Rule::new(
        "(has(self.electionTimeout) ? self.electionTimeout : 1000) >= 5 * (has(self.heartbeatInterval) ? \
         self.heartbeatInterval : 100)",
    )
    .message("electionTimeout (1000 if absent) must be at least five times heartbeatInterval (100 if absent)")
}

/// With a smaller quota no database takes a write, and with a larger one etcd does not start. An API server reads what it
/// cannot count as the most that it can.
pub fn quota_in_range() -> Rule {
    Rule::new(within(LEAST_QUOTA, &format!("{} < 0", compared("8Ei")))).message(
        "expected at least 1Mi and less than 8Ei: etcd takes no write with less and does not start with more",
    )
}

/// What members say of themselves is a request too, and they take no larger message of each other.
pub fn request_in_range() -> Rule {
    Rule::new(within(
        LEAST_REQUEST,
        &format!("{} <= 0", compared(MOST_REQUEST)),
    ))
    .message(
        "expected at least 4Ki and at most 256Mi: with less members cannot report to each other, and they take no larger \
         message of each other",
    )
}

/// What is no amount is refused for its form.
fn within(least: &str, bounded: &str) -> String {
    format!(
        "!isQuantity(string(self)) || ({} >= 0 && {bounded})",
        compared(least)
    )
}

fn compared(to: &str) -> String {
    format!("quantity(string(self)).compareTo(quantity('{to}'))")
}

/// A number of revisions where those are counted, else a time; a plain number is hours.
pub fn retention_is_a_number_or_a_time() -> Rule {
    Rule::new(format!(
        "!has({RETENTION}) || string({RETENTION}).matches('{COUNT}') || (!{REVISIONS} && \
         string({RETENTION}).matches('{TIME}'))",
    ))
    .message(
        "autoCompactionRetention must be a whole number where autoCompactionMode is revision, and a time such as 1h or 30m \
         elsewhere; a plain number is hours there, and 0 is off",
    )
}

/// etcd counts it in nanoseconds, and does not start with more of them than it can count.
pub fn retention_in_range() -> Rule {
    let hours = format!("int(string({RETENTION})) <= {MOST_HOURS}");
    let time = format!("duration(string({RETENTION})) <= duration('{MOST_HOURS}h')");
    Rule::new(format!(
        "!has({RETENTION}) || {REVISIONS} || (string({RETENTION}).matches('{COUNT}') ? {hours} : \
         (!string({RETENTION}).matches('{TIME}') || {time}))",
    ))
    .message(
        format!("autoCompactionRetention must be at most {MOST_HOURS}h: etcd does not start with more")
            .as_str(),
    )
}

/// Exactly one of these fields.
pub fn exactly_one(fields: &[&str]) -> Rule {
    let has: Vec<String> = fields.iter().map(|field| format!("has(self.{field})")).collect();
    Rule::new(format!("[{}].filter(set, set).size() == 1", has.join(", ")))
        .message(format!("set exactly one of {}", fields.join(", ")).as_str())
}

/// At most one of these fields.
pub fn at_most_one(fields: &[&str]) -> Rule {
    let has: Vec<String> = fields.iter().map(|field| format!("has(self.{field})")).collect();
    Rule::new(format!("[{}].filter(set, set).size() <= 1", has.join(", ")))
        .message(format!("set at most one of {}", fields.join(", ")).as_str())
}

/// Each other form of a destination carries its own.
pub fn credentials_beside_template() -> Rule {
    Rule::new("!has(self.credentials) || has(self.objectURLTemplate)")
        .message("credentials go with objectURLTemplate; bucket and archive have credentials of their own")
}

/// Each other form of a source carries its own.
pub fn credentials_beside_url() -> Rule {
    Rule::new("!has(self.credentials) || has(self.objectURL)")
        .message("credentials go with objectURL; bucket and archive have credentials of their own")
}

/// A restore reads one object.
pub fn bucket_names_an_object() -> Rule {
    Rule::new("!has(self.bucket) || has(self.bucket.objectPath)")
        .message("bucket.objectPath is required: it names the backup in the bucket")
}

/// Changes and retention are kept by archives only.
pub fn deltas_need_an_archive() -> Rule {
    Rule::new(
        "!(has(self.deltas) || has(self.retention)) || (has(self.destination) && has(self.destination.archive))",
    )
    .message("deltas and retention need destination.archive")
}

fn same_if_set(now: &str, before: &str) -> String {
    format!("has({now}) == has({before}) && (!has({now}) || {now} == {before})")
}
