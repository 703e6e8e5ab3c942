//! Names of CMS (VI-01): logical file names (LFN), the datasets that they tell, and where a file
//! lies at a site (PFN).
//!
//! ```text
//! /store/<kind>/<era>/<primary>/<tier>/<processing>/<directories ...>/<file>
//! dataset: /<primary>/<era>-<processing>/<tier>
//! block:   <dataset>#<id>
//! ```
//!
//! Which *block* a file is in follows from no rule: a catalogue tells it. Of a name in NDN an LFN
//! is the components below a prefix. Nothing here allocates but what makes names.

use alloc::string::String;
use core::fmt;

use crate::name::{Name, NameRef};
use crate::types::GENERIC_COMPONENT;

/// What data are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// `data`: of the detector.
    Data,
    /// `mc`: simulated.
    Mc,
    /// `hidata`: of the detector, heavy ions.
    HiData,
    /// `himc`: simulated, heavy ions.
    HiMc,
}

impl Kind {
    const ALL: [Kind; 4] = [Kind::Data, Kind::Mc, Kind::HiData, Kind::HiMc];

    /// As LFNs have it.
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
    /// How it was processed, with its version, such as `17Nov2017-v1`.
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

/// Why text is no name of CMS. The caller's fault, or that of who wrote it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LfnError {
    /// It does not begin with `/store/`.
    NotInStore,
    /// What comes behind `/store/` is no kind of data whose names tell a dataset.
    Kind,
    /// It has too few parts, or too many for a dataset.
    Parts,
    /// A part is empty, `.` or `..`, or has a character that such names do not have.
    Part,
    /// The middle part of a dataset is not `<era>-<processing>`.
    Processing,
    /// A block has no `#`, or nothing behind it.
    Block,
    /// The place is not below the prefix that sites put before LFNs.
    Elsewhere,
}

/// Whether it can be a part of a name.
fn is_part(part: &str) -> bool {
    let is_known = |octet: u8| octet.is_ascii_alphanumeric() || matches!(octet, b'-' | b'_' | b'.');
    !part.is_empty() && part != "." && part != ".." && part.bytes().all(is_known)
}

impl<'a> Dataset<'a> {
    /// Reads `/<primary>/<era>-<processing>/<tier>`. The era ends at the first hyphen: it has none.
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

    /// The LFN of the directory in which files of the dataset lie, if they are of this kind: no
    /// dataset's name tells its kind.
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

/// The dataset of a block, and the block's id.
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
    /// Reads an LFN.
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
            // The dataset's name would be that of another era.
            return Err(LfnError::Processing);
        }
        Ok(Lfn { text, kind, dataset: Dataset { primary, era, processing, tier } })
    }

    /// The LFN of a file that a site has at `pfn`, such as `root://host//eos/cms/store/...`:
    /// without `prefix`, which is what the site puts before LFNs, such as `root://host//eos/cms`.
    ///
    /// # Errors
    /// [`LfnError`].
    pub fn from_pfn(pfn: &'a str, prefix: &str) -> Result<Self, LfnError> {
        let rest = pfn.strip_prefix(prefix.trim_end_matches('/')).ok_or(LfnError::Elsewhere)?;
        // XRootD writes two slashes before an absolute path.
        let slashes = rest.len() - rest.trim_start_matches('/').len();
        if slashes == 0 {
            return Err(LfnError::Elsewhere);
        }
        Self::parse(&rest[slashes - 1..])
    }

    /// As it is written.
    pub fn as_str(&self) -> &'a str {
        self.text
    }

    /// What it is of.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// The dataset that it tells.
    pub fn dataset(&self) -> Dataset<'a> {
        self.dataset
    }

    /// Its name in NDN: its parts below `prefix`.
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

/// The text of the LFN that a name in NDN has below `prefix`; none if it has none, or something
/// that is no part of an LFN. [`Lfn::parse`] reads it.
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
            LfnError::Kind => {
                "what comes behind /store/ is none of data, mc, hidata, himc: no dataset follows"
            }
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
    fn a_file_tells_its_dataset_and_the_dataset_where_its_files_are() {
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
        // One with more in its name: simulated, and with what the processing was like.
        let text = "/store/mc/RunIISummer20UL18NanoAODv9/TTTo2L2Nu_TuneCP5_13TeV-powheg-pythia8/NANOAODSIM/\
                    106X_upgrade2018_realistic_v16_L1v1-v1/x.root";
        let lfn = Lfn::parse(text).unwrap();
        let dataset = "/TTTo2L2Nu_TuneCP5_13TeV-powheg-pythia8/RunIISummer20UL18NanoAODv9-106X_upgrade2018_realistic\
                       _v16_L1v1-v1/NANOAODSIM";
        assert_eq!(lfn.dataset().to_string(), dataset);
        assert_eq!(Dataset::parse(dataset), Ok(lfn.dataset()));
    }

    #[test]
    fn a_file_has_a_name_below_a_prefix_and_is_read_from_it() {
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
    fn where_a_site_has_a_file_is_taken_off_its_name() {
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
    fn what_is_no_such_name_is_told_why_not() {
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
        fn a_dataset_comes_back_from_its_directory(
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
        fn no_text_is_too_much(text in "\\PC{0,60}", prefix in "\\PC{0,9}") {
            let _ = (Lfn::parse(&text), Dataset::parse(&text), parse_block(&text));
            let _ = Lfn::from_pfn(&text, &prefix);
        }
    }
}
