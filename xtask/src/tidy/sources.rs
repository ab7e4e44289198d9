//! The files the rules read: those git tracks or would take with the next `git add`.

use std::path::Path;
use std::process::Command;

use crate::Result;

pub struct Source {
    /// From the repository's root, with `/`.
    pub path: String,
    pub bytes: Vec<u8>,
}

impl Source {
    pub fn is_rust(&self) -> bool {
        self.path.ends_with(".rs")
    }

    pub fn file_name(&self) -> &str {
        self.path.rsplit('/').next().unwrap_or(&self.path)
    }

    /// Lines with their numbers from 1; what is not UTF-8 is replaced, which no rule minds.
    pub fn lines(&self) -> Vec<(usize, String)> {
        let text = String::from_utf8_lossy(&self.bytes);
        text.lines()
            .enumerate()
            .map(|(index, line)| (index + 1, line.to_owned()))
            .collect()
    }

    #[cfg(test)]
    pub fn of(path: &str, text: &str) -> Self {
        Self {
            path: path.into(),
            bytes: text.into(),
        }
    }
}

pub fn load(root: &Path) -> Result<Vec<Source>> {
    let output = Command::new("git")
        .args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"])
        .current_dir(root)
        .output()
        .map_err(|e| format!("run git ls-files: {e}"))?;
    if !output.status.success() {
        return Err(format!(
            "git ls-files: {}",
            String::from_utf8_lossy(&output.stderr)
        ));
    }
    let listing = String::from_utf8(output.stdout).map_err(|e| format!("a file name: {e}"))?;
    let mut files = Vec::new();
    for path in listing.split_terminator('\0') {
        // Tracked but deleted, or a link to elsewhere: nothing of ours to read.
        if root
            .join(path)
            .symlink_metadata()
            .is_ok_and(|meta| meta.is_file())
        {
            let bytes = std::fs::read(root.join(path)).map_err(|e| format!("read {path}: {e}"))?;
            files.push(Source {
                path: path.to_owned(),
                bytes,
            });
        }
    }
    Ok(files)
}
