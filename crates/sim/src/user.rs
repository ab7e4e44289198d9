//! What the user wants, and how often that changes: sizes, versions and settings good and bad, redeployments, pauses.
//!
//! In: chance. Out: a spec. Never: after everything healed, a wish that cannot be had.

use std::collections::BTreeMap;

use quorate_core::model::{Frozen, Ordinal, Spec, Version, VersionPath};
use quorate_core::plan::{Block, BlockReason};

use crate::etcd::Data;
use crate::ground::FOREIGN;
use crate::world::World;

/// The versions a user may ask for: neighbours, skips, a corrupting patch and an unknown minor.
pub const VERSIONS: [Version; 9] = [
    Version::new(3, 4, 23),
    Version::new(3, 5, 1),
    Version::new(3, 5, 16),
    Version::new(3, 5, 26),
    Version::new(3, 5, 33),
    Version::new(3, 6, 1),
    Version::new(3, 6, 14),
    Version::new(3, 7, 0),
    Version::new(3, 9, 0),
];

/// The spec a world begins with.
pub fn first_spec(rng: &mut fastrand::Rng) -> Spec {
    let sizes = [1, 2, 3, 3, 3, 3, 4, 5, 5];
    let good = [VERSIONS[0], VERSIONS[2], VERSIONS[4], VERSIONS[6]];
    let version = if rng.u8(..) < 6 {
        VERSIONS[1]
    } else {
        good[rng.usize(..good.len())]
    };
    let spec = Spec {
        name: "c".into(),
        replicas: sizes[rng.usize(..sizes.len())],
        version,
        config: "config-0".into(),
        paused: false,
        frozen: None,
        accept_rolled_back: None,
        storage: None,
        manifest: None,
        fallback: None,
        own_configs: BTreeMap::new(),
        own_fallbacks: BTreeMap::new(),
    };
    written(spec)
}

/// The same spec, with what it is read from.
fn written(spec: Spec) -> Spec {
    let mut manifest = format!("{} {}", spec.version, spec.config);
    for (ordinal, config) in &spec.own_configs {
        manifest += &format!(" {ordinal}={config}");
    }
    Spec {
        manifest: Some(manifest),
        ..spec
    }
}

/// The settings that a manifest asks for: those of all, and those that members have of their own.
pub fn settings_in(manifest: &str) -> (Option<String>, BTreeMap<Ordinal, String>) {
    let mut words = manifest.split(' ').skip(1);
    let common = words.next().map(str::to_owned);
    let own = words.filter_map(|word| {
        let (ordinal, config) = word.split_once('=')?;
        Some((Ordinal(ordinal.parse().ok()?), config.to_owned()))
    });
    (common, own.collect())
}

/// What etcd does with the settings of a name: some end it at once, and with some it runs and never serves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Settings {
    Good,
    End,
    Hang,
}

impl Settings {
    /// The option that stands for them, where settings are those of a manifest.
    pub fn snapshot_count(self) -> u32 {
        match self {
            Settings::Good => 10_000,
            Settings::End => 777,
            Settings::Hang => 666,
        }
    }

    pub fn of(config: &str) -> Settings {
        match config.split('-').next() {
            Some("ends") => Settings::End,
            Some("hangs") => Settings::Hang,
            _ => Settings::Good,
        }
    }
}

impl World {
    /// Perhaps the user changes something.
    pub fn edit(&mut self) {
        if self.rng.u16(..) >= self.swarm.edits {
            return;
        }
        match self.rng.u8(..13) {
            0..4 => self.spec.replicas = self.rng.u32(1..=7),
            4..7 => self.spec.version = VERSIONS[self.rng.usize(..VERSIONS.len())],
            7 => self.spec.config = format!("config-{}", self.rng.u8(..4)),
            8 => self.edit_own(),
            9 => self.spec.paused = !self.spec.paused,
            10 => self.spec.config = format!("ends-{}", self.rng.u8(..2)),
            11 => self.spec.config = format!("hangs-{}", self.rng.u8(..2)),
            _ => self.spoil_or_mend(),
        }
        self.spec = written(self.spec.clone());
        let Spec {
            replicas,
            version,
            config,
            paused,
            frozen,
            ..
        } = &self.spec;
        let own: String = (self.spec.own_configs.iter())
            .map(|(ordinal, config)| format!(", {config} at {ordinal}"))
            .collect();
        let paused = if *paused { ", paused" } else { "" };
        let frozen = if frozen.is_some() { ", frozen" } else { "" };
        self.log.event(
            "user",
            format_args!("wants {replicas} x {version} with {config}{own}{paused}{frozen}"),
        );
    }

    /// One member gets settings of its own, or those of all again.
    fn edit_own(&mut self) {
        let ordinal = Ordinal(self.rng.u32(..self.spec.replicas));
        let settings = ["config", "config", "config", "ends", "hangs"];
        let settings = settings[self.rng.usize(..settings.len())];
        let own = &mut self.spec.own_configs;
        if own.remove(&ordinal).is_none() {
            own.insert(ordinal, format!("{settings}-own-{}", self.rng.u8(..2)));
        }
    }

    /// What is asked for cannot be done, or can again.
    fn spoil_or_mend(&mut self) {
        let reasons = [BlockReason::Invalid, BlockReason::Certificates];
        self.spec.frozen = match self.spec.frozen {
            Some(_) => None,
            None => Some(Frozen {
                reason: reasons[self.rng.usize(..reasons.len())],
                detail: "spoilt".into(),
            }),
        };
    }

    /// A person does what a block asks for: moves old data away.
    pub fn make_room(&mut self) {
        let plan = self.executors.first().and_then(|e| e.plan.as_ref());
        let full = plan.map_or(Vec::new(), |(_, p)| {
            let asked = p.blocks.iter().filter(|b| b.reason == BlockReason::NoRoomAside);
            asked.filter_map(|b| b.member).collect()
        });
        for ordinal in full {
            self.ground.slot(ordinal).asides.clear();
            self.log.event(
                "user",
                format_args!("moves the old data of member {ordinal} away"),
            );
        }
    }

    /// A person does what a block asks for: changes what does not serve. If it would by now, saying so again is a change.
    pub fn change_what_fails(&mut self) {
        let fails = |b: &Block| {
            matches!(
                b.reason,
                BlockReason::NewSettingsFail | BlockReason::NewVersionFails
            )
        };
        let plan = self.executors.first().and_then(|e| e.plan.as_ref());
        if plan.is_none_or(|(_, p)| !p.blocks.iter().any(fails)) || self.store.memory.rejected.is_none() {
            return;
        }
        let rejected = self.store.memory.rejected.as_ref();
        if let Some(r) = rejected.filter(|r| r.setup == self.spec.setup_of(r.member)) {
            self.spec.own_configs.remove(&r.member);
            self.tokens += 1;
            self.spec.config = format!("config-{}", self.tokens);
            self.spec = written(self.spec.clone());
            self.log.event(
                "user",
                format_args!("sees that it does not serve, and wants {}", self.spec.config),
            );
        }
    }

    /// The user's last word can be had: not paused, not spoilt, and a version that all data can go to.
    pub fn make_satisfiable(&mut self) {
        (self.spec.paused, self.spec.frozen) = (false, None);
        if Settings::of(&self.spec.config) != Settings::Good {
            self.spec.config = "config-0".into();
        }
        let good = |_: &Ordinal, config: &mut String| Settings::of(config) == Settings::Good;
        self.spec.own_configs.retain(good);
        let memory = &self.store.memory;
        let ours = self.ground.etcd.nodes.iter().filter(|(place, _)| place.0 < 100);
        let volumes = ours.flat_map(|(_, n)| n.volumes.values());
        let on_disk = volumes
            .filter_map(Data::wal)
            .filter(|w| w.cluster != FOREIGN)
            .map(|w| w.version);
        let planned = memory.slots.values().filter_map(|s| s.version);
        let data: Vec<Version> = on_disk.chain(planned).collect();
        let reachable =
            |to: Version| data.iter().all(|from| from.path_to(to) == VersionPath::Allowed) && !to.corrupts();
        if !reachable(self.spec.version) || self.spec.version.minor > 7 {
            let mut all: Vec<Version> = VERSIONS
                .iter()
                .copied()
                .filter(|v| v.minor <= 7 && reachable(*v))
                .collect();
            all.extend(data.iter().copied().filter(|v| reachable(*v)));
            let newest = data.iter().copied().max().unwrap_or(Version::new(3, 6, 14));
            self.spec.version = all.first().copied().unwrap_or(newest);
        }
        self.spec = written(self.spec.clone());
        let Spec {
            replicas,
            version,
            config,
            ..
        } = &self.spec;
        self.log.event(
            "user",
            format_args!("in the end wants {replicas} x {version} with {config}"),
        );
    }
}
