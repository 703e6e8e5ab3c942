//! Datasets: lists that the router publishes in segments (NFD StatusDataset).

use namely_messages::{Block, Dataset, FaceQueryFilter, blocks};
use namely_transport::connection::Answer;
use namely_wire::{ContentType, DataView, InterestBuilder, Name};

use crate::{Client, ClientError};

/// Maximum number of segments of a dataset that are fetched: 8 MB of entries.
pub const DATASET_SEGMENTS_MAX: u64 = 1024;

/// Number of attempts for an Interest of a dataset.
const ATTEMPTS: u32 = 3;

impl Client {
    /// Returns the entries of a dataset.
    pub(crate) fn entries<T: Block>(&mut self, dataset: Dataset) -> Result<Vec<T>, ClientError> {
        self.filtered(dataset, &FaceQueryFilter::default())
    }

    /// Returns the entries of a dataset that match `filter`, if it has one.
    pub(crate) fn filtered<T: Block>(
        &mut self,
        dataset: Dataset,
        filter: &FaceQueryFilter,
    ) -> Result<Vec<T>, ClientError> {
        let content = self.dataset(dataset, filter)?;
        blocks(&content).collect::<Result<_, _>>().map_err(ClientError::Malformed)
    }

    /// Returns all segments of a dataset, joined.
    pub(crate) fn dataset(
        &mut self,
        dataset: Dataset,
        filter: &FaceQueryFilter,
    ) -> Result<Vec<u8>, ClientError> {
        let scope = self.connection.scope();
        self.content(match dataset {
            Dataset::FacesQuery => filter.name(scope),
            other => other.prefix(scope),
        })
    }

    /// Returns all segments of the data under `prefix`, joined.
    pub(crate) fn content(&mut self, prefix: Name) -> Result<Vec<u8>, ClientError> {
        let first = InterestBuilder::new(prefix.clone()).can_be_prefix().must_be_fresh();
        let mut wire = self.fetch(&first)?;
        let mut content = Vec::new();
        for segment in 0..DATASET_SEGMENTS_MAX {
            let mut view = DataView::parse(&wire).map_err(ClientError::Malformed)?;
            if view.content_type == ContentType::Nack {
                return Err(ClientError::NotForYou);
            }
            // The first answer may be any segment of the newest version.
            if view.name.last().and_then(|c| c.segment()) != Some(segment) {
                let versioned = view.name.without_last(1).to_name();
                wire = self.fetch(&InterestBuilder::new(versioned.join_segment(segment)))?;
                view = DataView::parse(&wire).map_err(ClientError::Malformed)?;
            }
            content.extend_from_slice(view.content);
            if view.final_block_id.is_some() && view.final_block_id == view.name.last() {
                return Ok(content);
            }
        }
        Err(ClientError::TooLong(prefix))
    }

    fn fetch(&mut self, interest: &InterestBuilder) -> Result<Vec<u8>, ClientError> {
        match self.connection.express_retrying(interest, ATTEMPTS)? {
            Answer::Data(reply) => Ok(reply.wire),
            Answer::Nack(reason) => Err(ClientError::Refused(reason)),
            Answer::Timeout => Err(ClientError::NoAnswer),
        }
    }
}
