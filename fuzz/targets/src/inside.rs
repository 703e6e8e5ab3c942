//! A check that several targets share.

/// Returns true if `inner` lies inside `outer`, as every slice that a view returns must.
pub(crate) fn inside(outer: &[u8], inner: &[u8]) -> bool {
    let (outer, inner) = (outer.as_ptr_range(), inner.as_ptr_range());
    inner.is_empty() || outer.start <= inner.start && inner.end <= outer.end
}
