//! The rules of `spec.podTemplate` and `spec.affinity`.

use k8s_openapi::api::core::v1::ResourceRequirements;

use super::{Findings, Ground, is_reserved};
use crate::cluster::ClusterSpec;
use crate::cluster::quantity::Quantity;
use crate::path::FieldPath;

/// Judges the parts that make pods.
pub(crate) fn pod(spec: &ClusterSpec, found: &mut Findings) {
    let template = spec.pod_template.as_ref();
    if found.ground == Ground::Host {
        for (set, path) in [
            (spec.affinity.is_some(), "spec.affinity"),
            (template.is_some(), "spec.podTemplate"),
        ] {
            if set {
                found.warn(
                    FieldPath::of(path),
                    "ignored: on this machine members are processes, not pods.",
                );
            }
        }
    }
    if let (Some(outer), Some(inner)) = (
        &spec.affinity,
        template.and_then(|template| template.affinity.as_ref()),
    ) && outer != inner
    {
        found.fault(
            FieldPath::of("spec.affinity"),
            "another affinity than in spec.podTemplate.affinity",
            "one affinity",
            "Both fields mean the same; keep one of them.",
        );
    }
    let Some(template) = template else {
        return;
    };
    let annotations = FieldPath::of("spec.podTemplate.metadata.annotations");
    for name in template
        .metadata
        .iter()
        .flat_map(|metadata| metadata.annotations.keys())
    {
        if is_reserved(name) {
            found.fault(
                annotations.key(name),
                "a reserved annotation",
                "no annotation whose name begins with etcd.improbable.io/",
                "quorate keeps its own notes under that prefix; choose another name.",
            );
        }
    }
    if let Some(resources) = &template.resources {
        quantities(&FieldPath::of("spec.podTemplate.resources"), resources, found);
    }
}

fn quantities(path: &FieldPath, resources: &ResourceRequirements, found: &mut Findings) {
    for (part, amounts) in [("requests", &resources.requests), ("limits", &resources.limits)] {
        for (name, amount) in amounts.iter().flatten() {
            let amount = Quantity::new(&amount.0);
            if amount.thousandths().is_err() {
                found.fault(
                    path.key(part).key(name),
                    format!("the text {:?}", amount.as_str()),
                    "a quantity such as 200m or 200Mi",
                    "Write a number and a unit without a space between.",
                );
            }
        }
    }
}
