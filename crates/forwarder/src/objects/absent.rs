//! A core without registered objects: the feature `vip` is left out, as in the kernel. No name
//! belongs to any, and what would be done with one is not compiled.

use core::convert::Infallible;
use core::marker::PhantomData;

use crate::face_id::FaceKey;
use crate::limits::ObjectLimits;
use crate::prefix_table::Key;

/// What a name belongs to: there is none.
pub(crate) type Found = Infallible;

pub(crate) struct Objects<R>(PhantomData<R>);

impl<R> Objects<R> {
    pub(crate) fn new(_limits: &ObjectLimits) -> Self {
        Objects(PhantomData)
    }

    #[inline(always)]
    pub(crate) fn are_there(&self) -> bool {
        false
    }

    #[inline(always)]
    pub(crate) fn find(&self, _key: Key<'_>) -> Option<Found> {
        None
    }

    #[inline(always)]
    pub(crate) fn count(&self, _key: Key<'_>, _ingress: FaceKey) {}
}
