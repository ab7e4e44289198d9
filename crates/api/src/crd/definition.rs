//! The definitions as an API server takes them.
//!
//! In: what the derives make of the types. Out: the same with its columns, without what says nothing: `nullable` (an API server prunes a
//! null where it is absent), titles, and line ends of comments.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition, JSONSchemaProps, JSONSchemaPropsOrArray, JSONSchemaPropsOrBool,
};
use kube::CustomResourceExt;

use super::columns::columns;
use super::{EtcdBackup, EtcdBackupSchedule, EtcdCluster, EtcdPeer, EtcdRestore};

/// All five, clusters first.
pub fn definitions() -> Vec<CustomResourceDefinition> {
    let mut all = vec![
        EtcdCluster::crd(),
        EtcdPeer::crd(),
        EtcdBackup::crd(),
        EtcdBackupSchedule::crd(),
        EtcdRestore::crd(),
    ];
    for definition in &mut all {
        let columns = columns(&definition.spec.names.kind);
        for version in &mut definition.spec.versions {
            version.additional_printer_columns = Some(columns.clone());
            if let Some(schema) = version
                .schema
                .as_mut()
                .and_then(|v| v.open_api_v3_schema.as_mut())
            {
                tidy(schema);
            }
        }
    }
    all
}

/// The same as YAML documents, as `make codegen` wrote them: to print them nothing is needed of what makes them.
pub const WRITTEN: [&str; 5] = [
    include_str!("../../../../config/crd/etcdclusters.yaml"),
    include_str!("../../../../config/crd/etcdpeers.yaml"),
    include_str!("../../../../config/crd/etcdbackups.yaml"),
    include_str!("../../../../config/crd/etcdbackupschedules.yaml"),
    include_str!("../../../../config/crd/etcdrestores.yaml"),
];

/// The definition as a YAML document.
pub fn yaml(definition: &CustomResourceDefinition) -> Result<String, serde_saphyr::ser::Error> {
    serde_saphyr::to_string(definition)
}

fn tidy(schema: &mut JSONSchemaProps) {
    schema.nullable = None;
    schema.title = None;
    if let Some(description) = &mut schema.description {
        // Lines of a comment are no lines of a text.
        *description = description.replace('\n', " ");
    }
    for property in schema
        .properties
        .iter_mut()
        .flat_map(|properties| properties.values_mut())
    {
        tidy(property);
    }
    match &mut schema.items {
        Some(JSONSchemaPropsOrArray::Schema(items)) => tidy(items),
        Some(JSONSchemaPropsOrArray::Schemas(items)) => items.iter_mut().for_each(tidy),
        None => {}
    }
    if let Some(JSONSchemaPropsOrBool::Schema(values)) = &mut schema.additional_properties {
        tidy(values);
    }
}

#[cfg(test)]
mod tests;
