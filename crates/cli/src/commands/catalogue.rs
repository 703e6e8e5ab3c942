//! `namely catalogue`: the files of blocks of data. The command sends nothing to a router.

use std::fs::File;
use std::io::{BufReader, Write};
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand, ValueEnum};
use namely_catalogue::import::{Import, Source};
use namely_catalogue::{Catalogue, Limits, read};
use namely_host::disk::open_named_file;
use namely_wire::Name;
use namely_wire::lfn::Lfn;
use serde_json::json;

use crate::context::Context;
use crate::failure::{Failure, io_failure};
use crate::options::name;
use crate::output::octets_text;

/// Check and make catalogues of blocks and files, and names of CMS.
#[derive(Debug, Subcommand)]
pub enum Cat {
    /// Check a catalogue, and report its first wrong line
    Check(Check),
    /// Make a catalogue from records of DBS or Rucio
    Import(Importing),
    /// Print the name, the dataset and the block of a file of CMS
    Name(Naming),
}

impl Cat {
    /// Runs the subcommand.
    pub fn run(&self, ctx: &Context<'_>) -> Result<(), Failure> {
        match self {
            Cat::Check(c) => c.run(ctx),
            Cat::Import(c) => c.run(ctx),
            Cat::Name(c) => c.run(ctx),
        }
    }
}

fn load(path: &Path) -> Result<Catalogue, Failure> {
    let file = open_named_file(path).map_err(|error| io_failure("read", path, error.into()))?;
    read(BufReader::new(file), Limits::default()).map_err(|error| Failure::failed(error.of_file(path)))
}

/// Check a catalogue.
#[derive(Debug, Args)]
#[command(
    after_help = "Example:\n  namely catalogue check blocks.tsv\n\nA catalogue is text: a line `catalogue TAB version`, then for each block `name TAB octets`, and below it for each of its files `TAB name TAB octets`, with `TAB adler32` if it is known. Lines with # are skipped."
)]
pub struct Check {
    /// The catalogue.
    file: PathBuf,
}

impl Check {
    fn run(&self, ctx: &Context<'_>) -> Result<(), Failure> {
        report(ctx, &self.file, &load(&self.file)?);
        Ok(())
    }
}

fn report(ctx: &Context<'_>, path: &Path, catalogue: &Catalogue) {
    let (blocks, files) = (catalogue.blocks.len(), catalogue.files());
    let octets = u64::try_from(catalogue.octets()).unwrap_or(u64::MAX);
    ctx.out.answer(
        || {
            let (path, version) = (path.display(), catalogue.version);
            format!("{path}: version {version}, {blocks} blocks, {files} files, {}", octets_text(octets))
        },
        || {
            json!({
                "catalogue": path.display().to_string(), "version": catalogue.version, "blocks": blocks,
                "files": files, "octets": octets,
            })
        },
    );
}

/// The source of the records.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Database {
    /// DBS: `files?...&detail=1`, or `blockdump`
    Dbs,
    /// Rucio: `dids/bulkfiles`, or `dids/SCOPE/BLOCK/files` with --block
    Rucio,
}

/// Make a catalogue from records of a database.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  namely catalogue import dbs files.json -o blocks.tsv\n  namely catalogue import rucio files.json --block '/Muon/Run1-v1/AOD#1' -o blocks.tsv"
)]
pub struct Importing {
    /// The source of the records.
    #[arg(value_name = "dbs|rucio")]
    from: Database,
    /// The records as JSON: lists, or one record after the other.
    #[arg(required = true, value_name = "JSON")]
    files: Vec<PathBuf>,
    /// The block of files whose records name no block.
    #[arg(long)]
    block: Option<String>,
    /// The catalogue's version; otherwise the time in seconds.
    #[arg(long, value_name = "NUMBER")]
    number: Option<u64>,
    /// The file to write; it is replaced in one step.
    #[arg(long, short, value_name = "PATH")]
    output: PathBuf,
}

impl Importing {
    fn run(&self, ctx: &Context<'_>) -> Result<(), Failure> {
        let mut import = Import::new(Limits::default());
        let source = match self.from {
            Database::Dbs => Source::Dbs,
            Database::Rucio => Source::Rucio,
        };
        for path in &self.files {
            let file = File::open(path).map_err(|error| io_failure("read", path, error))?;
            let added = import.add(BufReader::new(file), source, self.block.as_deref());
            added.map_err(|error| {
                let said = format!("{}, record {error}", path.display());
                Failure::failed(said)
            })?;
        }
        if import.invalid > 0 {
            ctx.out.remark(format!("{} files that are not valid are skipped", import.invalid));
        }
        let version = self.number.unwrap_or_else(|| namely_host::clock::unix_ms() / 1000);
        let catalogue = import.end(version).map_err(|error| Failure::failed(error.of_file(&self.output)))?;
        self.write(&catalogue).map_err(|error| io_failure("write", &self.output, error))?;
        report(ctx, &self.output, &catalogue);
        Ok(())
    }

    fn write(&self, catalogue: &Catalogue) -> std::io::Result<()> {
        let folder = self.output.parent().filter(|folder| !folder.as_os_str().is_empty());
        let mut file = tempfile::NamedTempFile::new_in(folder.unwrap_or(Path::new(".")))?;
        let mut out = std::io::BufWriter::new(&mut file);
        catalogue.write(&mut out)?;
        out.flush()?;
        drop(out);
        file.persist(&self.output)?;
        Ok(())
    }
}

/// Print the name of a file of CMS.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  namely catalogue name /store/data/Run2017F/SingleMuon/MINIAOD/17Nov2017-v1/60000/x.root --below /cms\n  namely catalogue name root://host.example//store/data/... --site root://host.example/ --catalogue blocks.tsv"
)]
pub struct Naming {
    /// Its logical name (LFN) or, with --site, its name at a site (PFN).
    file: String,
    /// The prefix of its name in the network.
    #[arg(long, default_value = "/cms", value_parser = name, value_name = "PREFIX")]
    below: Name,
    /// The site's prefix before logical names.
    #[arg(long, value_name = "PREFIX")]
    site: Option<String>,
    /// The catalogue in which to look up its block.
    #[arg(long, value_name = "FILE")]
    catalogue: Option<PathBuf>,
}

impl Naming {
    fn run(&self, ctx: &Context<'_>) -> Result<(), Failure> {
        let lfn = match &self.site {
            Some(site) => Lfn::from_pfn(&self.file, site),
            None => Lfn::parse(&self.file),
        };
        let lfn =
            lfn.map_err(|error| Failure::failed(format!("{} is not a name of CMS: {error}", self.file)))?;
        let catalogue = self.catalogue.as_deref().map(load).transpose()?;
        let block = catalogue.as_ref().and_then(|catalogue| catalogue.block_of(lfn.as_str()));
        if let (Some(path), None) = (&self.catalogue, block) {
            ctx.out.remark(format!("{} has no such file", path.display()));
        }
        let (dataset, name) = (lfn.dataset().to_string(), lfn.to_name(self.below.as_name()).to_string());
        let block = block.map(|block| block.name.as_str());
        ctx.out.answer(
            || {
                let block = block.map(|block| format!("block    {block}"));
                let lines =
                    [format!("name     {name}"), format!("file     {lfn}"), format!("dataset  {dataset}")];
                lines.into_iter().chain(block).collect::<Vec<_>>()
            },
            || json!({"name": name, "file": lfn.as_str(), "dataset": dataset, "block": block}),
        );
        Ok(())
    }
}
