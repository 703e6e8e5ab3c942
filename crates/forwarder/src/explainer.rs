//! The face that answers Interests that trace a name hop by hop.

use crate::face_id::FaceId;
use crate::sync::plain::{AtomicU64, Ordering};

/// The face of the management that answers them, or [`FaceId::NONE`].
pub(crate) struct Explainer(AtomicU64);

impl Explainer {
    pub(crate) fn none() -> Self {
        Explainer(AtomicU64::new(FaceId::NONE.0))
    }

    pub(crate) fn set(&self, face: FaceId) {
        // Relaxed: an Interest that comes at this moment is sent to either face.
        self.0.store(face.0, Ordering::Relaxed);
    }

    pub(crate) fn get(&self) -> Option<FaceId> {
        Some(FaceId(self.0.load(Ordering::Relaxed))).filter(|face| *face != FaceId::NONE)
    }
}
