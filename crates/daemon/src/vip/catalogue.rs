//! The catalogue: from the file to the objects of the plane and the names of the Name Map Table.

use std::io::BufReader;
use std::path::Path;

use namely_catalogue::{FILES_MAX, Limits, read, to_name};
use namely_forwarder::{ObjectName, ObjectsError};
use namely_host::disk::open_named_file;
use namely_vip::limits::OBJECTS_MAX;
use namely_vip::{Object, Objects};
use namely_wire::Name;

use namely_dataplane::Core;

/// A catalogue that was read.
#[derive(Debug)]
pub(crate) struct Loaded {
    /// Its version.
    pub(crate) version: u64,
    /// Names of its blocks, in its order.
    pub(crate) names: Vec<String>,
    /// The same blocks as objects.
    blocks: Vec<Object>,
    /// Names of files in the network, with the index of their block.
    files: Vec<(Name, u32)>,
    /// Of each block, where its first file is among these.
    firsts: Vec<usize>,
}

impl Loaded {
    /// Reads the file, which may have so many blocks; `prefix` is what files' names have before
    /// them in the network.
    ///
    /// # Errors
    /// Which line is wrong and what to do, in words that begin with the file.
    pub(crate) fn read(path: &Path, prefix: &Name, blocks_max: usize) -> Result<Self, String> {
        let unreadable = |error: std::io::Error| {
            format!("{}: {error}: `catalogue` under [vip] names the file", path.display())
        };
        let file = open_named_file(path).map_err(|error| unreadable(error.into()))?;
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
        let loaded = Loaded { version: catalogue.version, names, blocks, files, firsts };
        // Sizes that are none, of whichever block, are told before anything is changed.
        for chunk in loaded.blocks.chunks(OBJECTS_MAX) {
            Objects::new(chunk.to_vec()).map_err(|error| format!("{}: {error}", path.display()))?;
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
    /// More than a plane has, in words.
    pub(crate) fn objects(&self, registered: &[u32]) -> Result<Objects, String> {
        let of = |index: &u32| self.blocks.get(*index as usize).copied();
        Objects::new(registered.iter().filter_map(of).collect()).map_err(|error| error.to_string())
    }

    /// How many files there are.
    pub(crate) fn files(&self) -> usize {
        self.files.len()
    }

    /// The name of a block's first file, by whose routes the block goes.
    pub(crate) fn first(&self, block: u32) -> Option<&Name> {
        self.files.get(*self.firsts.get(block as usize)?).map(|(name, _)| name)
    }

    /// Enters the names into the Name Map Table, in the place of those before.
    ///
    /// # Errors
    /// [`ObjectsError`]: those before stay.
    pub(crate) fn enter(&self, core: &Core) -> Result<(), ObjectsError> {
        let names = self.files.iter().map(|(name, block)| ObjectName {
            name: name.as_name(),
            object: *block,
            id: self.blocks.get(*block as usize).map_or(0, |block| block.id),
        });
        core.objects().set(names).map(drop)
    }
}
