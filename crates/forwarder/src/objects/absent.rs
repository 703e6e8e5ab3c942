//! A core without registered objects: the feature `vip` is off, as in the kernel. No name belongs
//! to an object, and the code for objects is not compiled.

use core::convert::Infallible;
use core::marker::PhantomData;

use crate::face_id::FaceKey;
use crate::limits::ObjectLimits;
use crate::prefix_table::Key;

/// The object of a name, which does not exist here.
pub(crate) type ObjectMatch = Infallible;

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
    pub(crate) fn find(&self, _key: Key<'_>) -> Option<ObjectMatch> {
        None
    }

    #[inline(always)]
    pub(crate) fn count(&self, _key: Key<'_>, _ingress: FaceKey) {}
}
