//! The catalogue: reads the file into the objects of the plane and the names of the Name Map Table.

use std::fmt::Display;
use std::io::BufReader;
use std::path::Path;

use namely_catalogue::{FILES_MAX, Limits, read, to_name};
use namely_forwarder::ObjectName;
use namely_host::disk::open_named_file;
use namely_vip::limits::OBJECTS_MAX;
use namely_vip::{Object, Objects};
use namely_wire::Name;

use namely_dataplane::Core;

use crate::config::ConfigError;

/// A loaded catalogue.
#[derive(Debug)]
pub(crate) struct LoadedCatalogue {
    /// Its version.
    pub(crate) version: u64,
    /// Names of its blocks, in its order.
    pub(crate) names: Vec<String>,
    /// The same blocks as objects.
    blocks: Vec<Object>,
    /// Names of files in the network, each with the index of its block.
    files: Vec<(Name, u32)>,
    /// The position of each block's first file in `files`.
    firsts: Vec<usize>,
}

impl LoadedCatalogue {
    /// Reads the file, with at most `blocks_max` blocks; `prefix` precedes the files' names in the
    /// network.
    ///
    /// # Errors
    /// [`ConfigError`] contains the file, the line and a hint.
    pub(crate) fn read(path: &Path, prefix: &Name, blocks_max: usize) -> Result<Self, ConfigError> {
        let wrong = |why: &dyn Display| format!("{}: {why}", path.display());
        let file = open_named_file(path)
            .map_err(|error| wrong(&format!("{error}: `catalogue` under [vip] names the file")))?;
        let limits = Limits { blocks_max, files_max: FILES_MAX };
        let catalogue = read(BufReader::new(file), limits).map_err(|error| error.of_file(path))?;
        let (mut files, mut firsts) = (Vec::with_capacity(catalogue.files()), Vec::new());
        for (index, block) in catalogue.blocks.iter().enumerate() {
            firsts.push(files.len());
            let named = block.files.iter().map(|file| {
                let name = to_name(&file.name);
                let joined = name.as_name().components().fold(prefix.clone(), |name, c| name.join(c));
                (joined, index as u32)
            });
            files.extend(named);
        }
        let blocks = catalogue.blocks.iter().map(|block| Object { id: block.id, octets: block.octets });
        let blocks: Vec<Object> = blocks.collect();
        let names = catalogue.blocks.into_iter().map(|block| block.name).collect();
        let loaded = LoadedCatalogue { version: catalogue.version, names, blocks, files, firsts };
        // Invalid sizes of any block are reported before anything is changed.
        for chunk in loaded.blocks.chunks(OBJECTS_MAX) {
            Objects::new(chunk.to_vec()).map_err(|error| wrong(&error))?;
        }
        Ok(loaded)
    }

    /// The blocks, in the order of the catalogue.
    pub(crate) fn blocks(&self) -> &[Object] {
        &self.blocks
    }

    /// These blocks as the objects of the plane, in this order.
    ///
    /// # Errors
    /// [`ConfigError`]: there are more than a plane supports.
    pub(crate) fn objects(&self, registered: &[u32]) -> Result<Objects, ConfigError> {
        let of = |index: &u32| self.blocks.get(*index as usize).copied();
        Ok(Objects::new(registered.iter().filter_map(of).collect()).map_err(|error| error.to_string())?)
    }

    /// Number of files.
    pub(crate) fn files(&self) -> usize {
        self.files.len()
    }

    /// The name of a block's first file. Its routes are used for the whole block.
    pub(crate) fn first(&self, block: u32) -> Option<&Name> {
        self.files.get(*self.firsts.get(block as usize)?).map(|(name, _)| name)
    }

    /// Replaces the names of the Name Map Table.
    ///
    /// # Errors
    /// [`ConfigError`]: there is no room for them; the previous ones stay.
    pub(crate) fn enter(&self, core: &Core) -> Result<(), ConfigError> {
        let names = self.files.iter().map(|(name, block)| ObjectName {
            name: name.as_name(),
            object: *block,
            id: self.blocks.get(*block as usize).map_or(0, |block| block.id),
        });
        let entered = core.objects().set(names).map(drop);
        Ok(entered.map_err(|error| format!("vip.catalogue: {error}"))?)
    }
}
