//! The life of a member in Kubernetes, without Kubernetes: volumes and pods are directories, etcd and the commands of
//! its pod are real.

mod disks;
mod kills;
mod life;
mod pod;
mod two_pods;
mod wipes;
