//! Names of CMS (VI-01): logical file names (LFN), their datasets, and the location of a file at a
//! site (PFN).
//!
//! ```text
//! /store/<kind>/<era>/<primary>/<tier>/<processing>/<directories ...>/<file>
//! dataset: /<primary>/<era>-<processing>/<tier>
//! block:   <dataset>#<id>
//! ```
//!
//! No rule yields the *block* of a file; a catalogue lists it. An NDN name contains an LFN as the
//! components below a prefix. Nothing here allocates, except functions that create names.

use alloc::string::String;
use core::fmt;

use crate::name::{Name, NameRef};
use crate::types::GENERIC_COMPONENT;

/// The kind of data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// `data`: from the detector.
    Data,
    /// `mc`: simulated.
    Mc,
    /// `hidata`: from the detector, heavy ions.
    HiData,
    /// `himc`: simulated, heavy ions.
    HiMc,
}

impl Kind {
    const ALL: [Kind; 4] = [Kind::Data, Kind::Mc, Kind::HiData, Kind::HiMc];

    /// Returns the spelling in LFNs.
    pub const fn as_str(self) -> &'static str {
        match self {
            Kind::Data => "data",
            Kind::Mc => "mc",
            Kind::HiData => "hidata",
            Kind::HiMc => "himc",
        }
    }
}

/// A dataset: `/<primary>/<era>-<processing>/<tier>`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Dataset<'a> {
    /// The primary dataset, such as `SingleMuon`.
    pub primary: &'a str,
    /// The acquisition era, such as `Run2017F`.
    pub era: &'a str,
    /// The processing, with its version, such as `17Nov2017-v1`.
    pub processing: &'a str,
    /// The data tier, such as `MINIAOD`.
    pub tier: &'a str,
}

/// A logical file name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Lfn<'a> {
    text: &'a str,
    kind: Kind,
    dataset: Dataset<'a>,
}

/// The text is not a name of CMS. The fault of the caller, or of the text's author.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LfnError {
    /// The text does not begin with `/store/`.
    NotInStore,
    /// The part after `/store/` is not a kind of data whose names contain a dataset.
    Kind,
    /// The text has too few parts, or too many for a dataset.
    Parts,
    /// A part is empty, `.` or `..`, or has an invalid character.
    Part,
    /// The middle part of a dataset is not `<era>-<processing>`.
    Processing,
    /// A block has no `#`, or no id after it.
    Block,
    /// The location is not below the site's prefix of LFNs.
    Elsewhere,
}

/// Returns true if the text can be a part of a name.
fn is_part(part: &str) -> bool {
    let is_known = |octet: u8| octet.is_ascii_alphanumeric() || matches!(octet, b'-' | b'_' | b'.');
    !part.is_empty() && part != "." && part != ".." && part.bytes().all(is_known)
}

impl<'a> Dataset<'a> {
    /// Parses `/<primary>/<era>-<processing>/<tier>`. The era ends at the first hyphen, because it
    /// contains none.
    ///
    /// # Errors
    /// [`LfnError`].
    pub fn parse(text: &'a str) -> Result<Self, LfnError> {
        let mut parts = text.strip_prefix('/').ok_or(LfnError::Parts)?.split('/');
        let (primary, middle, tier) = match (parts.next(), parts.next(), parts.next(), parts.next()) {
            (Some(primary), Some(middle), Some(tier), None) => (primary, middle, tier),
            _ => return Err(LfnError::Parts),
        };
        if ![primary, middle, tier].into_iter().all(is_part) {
            return Err(LfnError::Part);
        }
        match middle.split_once('-') {
            Some((era, processing)) if is_part(era) && is_part(processing) => {
                Ok(Dataset { primary, era, processing, tier })
            }
            _ => Err(LfnError::Processing),
        }
    }

    /// Returns the LFN of the directory of the dataset's files. The name of a dataset does not
    /// contain the `kind` of its files, so the caller supplies it.
    pub fn directory(&self, kind: Kind) -> String {
        let Dataset { primary, era, processing, tier } = self;
        alloc::format!("/store/{}/{era}/{primary}/{tier}/{processing}", kind.as_str())
    }

    /// Returns true if the file is of this dataset.
    pub fn has(&self, file: &Lfn<'_>) -> bool {
        file.dataset() == *self
    }
}

impl fmt::Display for Dataset<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Dataset { primary, era, processing, tier } = self;
        write!(f, "/{primary}/{era}-{processing}/{tier}")
    }
}

/// Parses a block into its dataset and its id.
///
/// # Errors
/// [`LfnError`].
pub fn parse_block(text: &str) -> Result<(Dataset<'_>, &str), LfnError> {
    let (dataset, id) = text.split_once('#').ok_or(LfnError::Block)?;
    if !is_part(id) {
        return Err(LfnError::Block);
    }
    Ok((Dataset::parse(dataset)?, id))
}

impl<'a> Lfn<'a> {
    /// Parses an LFN.
    ///
    /// # Errors
    /// [`LfnError`].
    pub fn parse(text: &'a str) -> Result<Self, LfnError> {
        let mut parts = text.strip_prefix("/store/").ok_or(LfnError::NotInStore)?.split('/');
        let mut next = || parts.next().ok_or(LfnError::Parts);
        let kind = next()?;
        let kind = Kind::ALL.into_iter().find(|of| of.as_str() == kind).ok_or(LfnError::Kind)?;
        let (era, primary, tier, processing, file) = (next()?, next()?, next()?, next()?, next()?);
        if !([era, primary, tier, processing, file].into_iter().all(is_part) && parts.all(is_part)) {
            return Err(LfnError::Part);
        }
        if era.contains('-') {
            // The name of the dataset would end the era at this hyphen.
            return Err(LfnError::Processing);
        }
        Ok(Lfn { text, kind, dataset: Dataset { primary, era, processing, tier } })
    }

    /// Returns the LFN of a file at `pfn`, such as `root://host//eos/cms/store/...`, without
    /// `prefix`. A site puts `prefix` before LFNs, such as `root://host//eos/cms`.
    ///
    /// # Errors
    /// [`LfnError`].
    pub fn from_pfn(pfn: &'a str, prefix: &str) -> Result<Self, LfnError> {
        let rest = pfn.strip_prefix(prefix.trim_end_matches('/')).ok_or(LfnError::Elsewhere)?;
        // XRootD has two slashes before an absolute path.
        let slashes = rest.len() - rest.trim_start_matches('/').len();
        if slashes == 0 {
            return Err(LfnError::Elsewhere);
        }
        Self::parse(&rest[slashes - 1..])
    }

    /// Returns the LFN as text.
    pub fn as_str(&self) -> &'a str {
        self.text
    }

    /// Returns the kind of data.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// Returns the dataset of the file.
    pub fn dataset(&self) -> Dataset<'a> {
        self.dataset
    }

    /// Returns the NDN name: the parts below `prefix`.
    pub fn to_name(&self, prefix: NameRef<'_>) -> Name {
        let parts = self.text.split('/').skip(1);
        parts.fold(prefix.to_name(), |name, part| name.join_generic(part.as_bytes()))
    }
}

impl fmt::Display for Lfn<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.text)
    }
}

/// Returns the text of the LFN in an NDN name below `prefix`; none if there is none, or if a
/// component cannot be part of an LFN. [`Lfn::parse`] parses it.
pub fn text_of_name(name: NameRef<'_>, prefix: NameRef<'_>) -> Option<String> {
    if !prefix.is_prefix_of(name) {
        return None;
    }
    let mut text = String::new();
    for component in name.components().skip(prefix.len()) {
        let part = core::str::from_utf8(component.value).ok()?;
        if component.typ != GENERIC_COMPONENT || !is_part(part) {
            return None;
        }
        text.push('/');
        text.push_str(part);
    }
    Some(text)
}

impl fmt::Display for LfnError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            LfnError::NotInStore => "it does not begin with /store/",
            LfnError::Kind => "the part after /store/ is none of data, mc, hidata, himc: no dataset follows",
            LfnError::Parts => "it has not as many parts as such a name has",
            LfnError::Part => "a part is empty, or has other characters than letters, digits, - _ and .",
            LfnError::Processing => "it has no <era>-<processing>, of which the era has no hyphen",
            LfnError::Block => "it is no block, <dataset>#<id>",
            LfnError::Elsewhere => "it is not below the prefix that the site puts before names",
        })
    }
}

impl core::error::Error for LfnError {}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;
    use proptest::prelude::*;

    const FILE: &str = "/store/data/Run2017F/SingleMuon/MINIAOD/17Nov2017-v1/60000/C47DBE62-67E7-E711-B896-5065F37D51B2.root";

    /// VI-01: the names of the paper's section 2.
    #[test]
    fn a_file_name_yields_its_dataset() {
        let lfn = Lfn::parse(FILE).unwrap();
        assert_eq!((lfn.as_str(), lfn.kind()), (FILE, Kind::Data));
        assert_eq!(lfn.dataset().to_string(), "/SingleMuon/Run2017F-17Nov2017-v1/MINIAOD");
        let (dataset, id) =
            parse_block("/SingleMuon/Run2017F-17Nov2017-v1/MINIAOD#13f6ce2c-e734-11e7-af75-02163e01b396")
                .unwrap();
        assert_eq!((dataset, id), (lfn.dataset(), "13f6ce2c-e734-11e7-af75-02163e01b396"));
        assert!(dataset.has(&lfn));
        let directory = dataset.directory(Kind::Data);
        assert_eq!(directory, "/store/data/Run2017F/SingleMuon/MINIAOD/17Nov2017-v1");
        assert!(FILE.starts_with(&directory));
        // One with a longer name: simulated, and with its processing.
        let text = "/store/mc/RunIISummer20UL18NanoAODv9/TTTo2L2Nu_TuneCP5_13TeV-powheg-pythia8/NANOAODSIM/\
                    106X_upgrade2018_realistic_v16_L1v1-v1/x.root";
        let lfn = Lfn::parse(text).unwrap();
        let dataset = "/TTTo2L2Nu_TuneCP5_13TeV-powheg-pythia8/RunIISummer20UL18NanoAODv9-106X_upgrade2018_realistic\
                       _v16_L1v1-v1/NANOAODSIM";
        assert_eq!(lfn.dataset().to_string(), dataset);
        assert_eq!(Dataset::parse(dataset), Ok(lfn.dataset()));
    }

    #[test]
    fn file_names_round_trip_below_a_prefix() {
        let prefix: Name = "/ndnc/xrootd".parse().unwrap();
        let name = Lfn::parse(FILE).unwrap().to_name(prefix.as_name());
        assert_eq!(name.to_string(), alloc::format!("/ndnc/xrootd{FILE}"));
        assert_eq!(text_of_name(name.as_name(), prefix.as_name()).as_deref(), Some(FILE));
        for other in ["/other/store/data", "/ndnc/xrootd/store/v=1", "/ndnc/xrootd/store/a%2Fb"] {
            let name: Name = other.parse().unwrap();
            assert_eq!(text_of_name(name.as_name(), prefix.as_name()), None, "{other}");
        }
    }

    #[test]
    fn the_site_prefix_is_removed_from_names() {
        for (pfn, prefix) in [
            ("root://eoscms.example//eos/cms", "root://eoscms.example//eos/cms"),
            ("root://xrootd.example/", "root://xrootd.example"),
            ("root://xrootd.example/", "root://xrootd.example//"),
            ("davs://dcache.example:2880/pnfs/cms", "davs://dcache.example:2880/pnfs/cms/"),
            ("", ""),
        ] {
            let at = alloc::format!("{pfn}{FILE}");
            assert_eq!(Lfn::from_pfn(&at, prefix).map(|lfn| lfn.as_str()), Ok(FILE), "{at}");
        }
        let elsewhere = Lfn::from_pfn("root://other.example//store/data/x", "root://xrootd.example");
        assert_eq!(elsewhere, Err(LfnError::Elsewhere));
        let glued = alloc::format!("root://xrootd.example.org{FILE}");
        assert_eq!(Lfn::from_pfn(&glued, "root://xrootd.example"), Err(LfnError::Elsewhere));
    }

    #[test]
    fn malformed_lfns_are_refused_with_reason() {
        for (text, error) in [
            ("", LfnError::NotInStore),
            ("store/data/a/b/c/d/e", LfnError::NotInStore),
            ("/store/user/someone/x.root", LfnError::Kind),
            ("/store/data/a/b/c/d", LfnError::Parts),
            ("/store/data/a/b/c//e", LfnError::Part),
            ("/store/data/a/b/c/d/", LfnError::Part),
            ("/store/data/a/b/c/d/../e", LfnError::Part),
            ("/store/data/a/b/c/d/e f", LfnError::Part),
            ("/store/data/a/b/c/d/e\u{e9}", LfnError::Part),
            ("/store/data/a-b/b/c/d/e", LfnError::Processing),
        ] {
            assert_eq!(Lfn::parse(text), Err(error), "{text}");
        }
        for (text, error) in [
            ("a/b-c/d", LfnError::Parts),
            ("/a/b-c", LfnError::Parts),
            ("/a/b-c/d/e", LfnError::Parts),
            ("/a/b/c", LfnError::Processing),
            ("/a/-b/c", LfnError::Processing),
            ("/a/b-/c", LfnError::Processing),
            ("/a/b-c/", LfnError::Part),
        ] {
            assert_eq!(Dataset::parse(text), Err(error), "{text}");
        }
        for text in ["/a/b-c/d", "/a/b-c/d#", "/a/b-c/d#x#y", "/a/b-c/d#x/y"] {
            assert_eq!(parse_block(text), Err(LfnError::Block), "{text}");
        }
    }

    proptest! {
        #[test]
        fn a_dataset_survives_its_directory(
            primary in "[A-Za-z0-9_-]{1,9}",
            era in "[A-Za-z0-9_]{1,9}",
            processing in "[A-Za-z0-9_-]{1,9}-v[0-9]",
            tier in "[A-Z-]{1,9}",
        ) {
            let dataset = Dataset { primary: &primary, era: &era, processing: &processing, tier: &tier };
            let text = dataset.to_string();
            prop_assert_eq!(Dataset::parse(&text), Ok(dataset));
            for kind in Kind::ALL {
                let file = alloc::format!("{}/0/x.root", dataset.directory(kind));
                let lfn = Lfn::parse(&file).unwrap();
                prop_assert_eq!((lfn.dataset(), lfn.kind()), (dataset, kind));
            }
        }

        #[test]
        fn any_lfn_text_is_parsed_safely(text in "\\PC{0,60}", prefix in "\\PC{0,9}") {
            let _ = (Lfn::parse(&text), Dataset::parse(&text), parse_block(&text));
            let _ = Lfn::from_pfn(&text, &prefix);
        }
    }
}
