//! One step of a plan, done here. Every step can be retried blindly: it names its object by id, generation or URL,
//! and finds its effect if that is there already.
//!
//! In: a [`Step`] and the look it was planned on. Out: a [`StepResult`]. Never: a start without the evidence that a
//! first start needs; a membership change on another list than it was planned on; data moved while a process may
//! have it.

use std::path::Path;

use quorate_api::Cluster;
use quorate_core::memory::Mark;
use quorate_core::model::{Generation, Observed, Ordinal, Process, Refused, StepResult, Time, Version};
use quorate_core::plan::{Plan, StartHow, Step};
use quorate_datadir::Look;

use crate::ground::Ground;
use crate::ground::build::Arguments;
use crate::ground::manifest;
use crate::ground::observe::aside_name;
use crate::root::asides;
use crate::run::evidence;
use crate::run::launch::Launch;
use crate::run::volume_record::VolumeRecord;
use crate::{Error, supervise};

impl Ground {
    /// Does `step`. Members are started from the manifest in force if it is for `wanted`, the digest of that.
    pub(crate) async fn execute(&mut self, step: &Step, observed: &Observed, wanted: &str) -> StepResult {
        match step {
            Step::Start {
                ordinal,
                generation,
                how,
                version,
                config,
            } => {
                let cluster = match self.cluster_of(config, wanted) {
                    Ok(cluster) => cluster,
                    Err(error) => return done(Err(error)),
                };
                let start = Start {
                    ordinal: *ordinal,
                    generation: *generation,
                    how,
                    version: *version,
                    config,
                    cluster: &cluster,
                };
                done(self.start(start).await)
            }
            // A machine is one place for all, keeps what it holds and gives all it has.
            Step::Provide { .. }
            | Step::Withdraw { .. }
            | Step::Grow { .. }
            | Step::Resize { .. }
            | Step::Discard { .. } => StepResult::Done,
            Step::Stop { ordinal, since } => {
                self.stop(*ordinal, *since);
                StepResult::Done
            }
            Step::SetAside { ordinal, generation } => done(self.set_aside(*ordinal, *generation).await),
            Step::DropAside { ordinal, keep } => done(self.drop_asides(*ordinal, *keep)),
            Step::AddLearner { .. }
            | Step::Promote { .. }
            | Step::Remove { .. }
            | Step::MoveLeader { .. }
            | Step::Write { .. } => {
                let nobody = StepResult::Refused(Refused::Other("etcd is not asked for this".to_owned()));
                self.clients.execute(step, observed).await.unwrap_or(nobody)
            }
        }
    }

    /// What the cluster last served with, if that is not the manifest that is wanted, and its digest by now.
    pub(crate) fn fallback(&self, wanted: Option<&str>) -> Option<(Cluster, String)> {
        let trusted = if self.journal.tls {
            &self.trusted
        } else {
            manifest::NO_TLS
        };
        manifest::fallback(&self.journal.memory, wanted, trusted)
    }

    /// What the digest `config` stands for: the manifest in force, or the one with which the cluster last served.
    fn cluster_of(&self, config: &str, wanted: &str) -> Result<Cluster, Error> {
        if config == wanted {
            return Ok(self.cluster.clone());
        }
        let fallback = self.fallback(None);
        match fallback.filter(|(_, digest)| digest == config) {
            Some((cluster, _)) => Ok(cluster),
            None => Err(Error::SettingsUnknown {
                config: config.to_owned(),
            }),
        }
    }

    /// Arms every first start of a plan.
    pub(crate) fn arm(&self, plan: &Plan) -> Result<(), Error> {
        for step in &plan.steps {
            if let Step::Start {
                ordinal,
                generation,
                how: StartHow::New { .. } | StartHow::Join { .. },
                ..
            } = step
            {
                evidence::arm(&self.root.first_start(&self.name(*ordinal), *generation))?;
            }
        }
        Ok(())
    }

    async fn start(&mut self, start: Start<'_>) -> Result<(), Error> {
        let Start {
            ordinal,
            generation,
            how,
            version,
            config,
            cluster,
        } = start;
        let member = self.name(ordinal);
        let refused = |why: String| Error::LaunchRefused {
            member: member.to_string(),
            why,
        };
        let Some(ports) = self.journal.ports.get(&ordinal).copied() else {
            return Err(refused("it has no ports yet".to_owned()));
        };
        let etcd = self.etcd(version).await?;
        let data_dir = self.root.volume(&member, generation);
        let first_start = match how {
            StartHow::Resume | StartHow::Settle => {
                self.is_its_own(ordinal, &data_dir).map_err(refused)?;
                None
            }
            StartHow::New { .. } | StartHow::Join { .. } => {
                let path = self.root.first_start(&member, generation);
                self.clear_unborn(ordinal, generation, &path).await?;
                let present = evidence::arm(&path)?;
                if !present.allows() {
                    return Err(refused(format!(
                        "a first start without proof that none ran before ({present:?})"
                    )));
                }
                Some(path)
            }
        };
        let arguments = Arguments {
            member: &member,
            ports,
            tls: self.journal.tls,
            pki: &self.root.pki(),
            data_dir: &data_dir,
            cluster,
            how,
        };
        let launch = Launch {
            member: member.to_string(),
            program: etcd.path,
            version: etcd.version,
            arguments: arguments.list(),
            volume: Some(VolumeRecord::new(
                &self.journal.cluster,
                member.as_str(),
                self.journal.memory.epoch,
                self.journal.memory.slot(ordinal).run,
            )),
            data_dir,
            generation,
            config: config.to_owned(),
            trusted: Some(self.trusted.clone()),
            record: self.root.record(&member),
            alive: self.root.alive(&member),
            log: self.root.log(&member),
            first_start,
            directory: self.root.path().to_owned(),
            supervisor: std::process::id(),
            since: supervise::now(),
        };
        self.runner.start(ordinal, &launch).map(drop)
    }

    /// A log that nothing was written to is set aside, and the start that made it counts as one without data.
    async fn clear_unborn(
        &mut self,
        ordinal: Ordinal,
        generation: Generation,
        first_start: &Path,
    ) -> Result<(), Error> {
        let volume = self.root.volume(&self.name(ordinal), generation);
        let unborn = matches!(quorate_datadir::look(&volume), Ok(Look::Unborn { .. }));
        if !unborn || self.journal.memory.slot(ordinal).mark == Mark::Started {
            return Ok(());
        }
        evidence::ended_without_data(first_start)?;
        self.set_aside(ordinal, generation).await
    }

    /// Is what lies in `data_dir` now, at the last moment, still the data of the member that the memory knows?
    fn is_its_own(&mut self, ordinal: Ordinal, data_dir: &Path) -> Result<(), String> {
        let (memory, slot) = (&self.journal.memory, self.journal.memory.slot(ordinal));
        match quorate_datadir::look(data_dir) {
            Ok(Look::Data(found)) => {
                let same = memory.cluster.is_none_or(|c| c.0 == found.cluster_id)
                    && slot.member.is_none_or(|m| m.0 == found.member_id);
                if !same {
                    return Err(
                        "its data was exchanged for another member's since it was looked at".to_owned(),
                    );
                }
                let record = VolumeRecord::read(data_dir).map_err(|error| error.chain())?;
                let marks = VolumeRecord::marks(record.as_ref(), self.last_index(ordinal, data_dir, true));
                match self.journal.memory.fault(ordinal, marks) {
                    None => Ok(()),
                    Some(_) => {
                        Err("its data was put back to an earlier state since it was looked at".to_owned())
                    }
                }
            }
            Ok(_) => Err("its data has gone since it was looked at".to_owned()),
            Err(error) => Err(error.to_string()),
        }
    }

    fn stop(&mut self, ordinal: Ordinal, since: Time) {
        let member = self.runner.member(ordinal);
        // Otherwise it has ended already, or another runs that nobody meant.
        if member.is_some_and(|member| member.record.since == since) {
            self.runner.stop(ordinal);
        }
    }

    async fn set_aside(&mut self, ordinal: Ordinal, generation: Generation) -> Result<(), Error> {
        let member = self.name(ordinal);
        let busy = match self.runner.process(ordinal) {
            Process::Stopped { .. } => false,
            Process::Running {
                generation: running, ..
            } => running == generation,
            Process::Stopping => true,
        };
        let volume = self.root.volume(&member, generation);
        if busy {
            let member = member.to_string();
            return Err(Error::DataInUse { member, volume });
        }
        if !volume
            .try_exists()
            .map_err(|source| Error::file("look at", &volume, source))?
        {
            return Ok(());
        }
        let target = self
            .root
            .asides()
            .join(aside_name(&member, generation, supervise::now().0));
        let failed =
            |source: quorate_datadir::Error| Error::file("set aside", &volume, std::io::Error::other(source));
        quorate_datadir::move_aside(&volume, &target).map_err(failed)
    }

    fn drop_asides(&mut self, ordinal: Ordinal, keep: u32) -> Result<(), Error> {
        let asides = self.root.asides();
        let all = self
            .asides(&self.name(ordinal))
            .map_err(|source| Error::file("list", &asides, source))?;
        let surplus = all.len().saturating_sub(keep as usize);
        asides::drop_sets(&self.root, &all[..surplus])?;
        asides::delete_dropped(&self.root);
        Ok(())
    }
}

struct Start<'a> {
    ordinal: Ordinal,
    generation: Generation,
    how: &'a StartHow,
    version: Version,
    config: &'a str,
    cluster: &'a Cluster,
}

/// Everything on this machine that fails has had no effect that a retry would not find.
fn done(result: Result<(), Error>) -> StepResult {
    match result {
        Ok(()) => StepResult::Done,
        Err(error) => StepResult::Refused(Refused::Other(error.chain())),
    }
}
